/* Calls that wait although a worker makes them, while another thread does what they wait for: with
 * one worker, that runs only if the call does not keep it. */
#include "tests/compat/pthread/program.h"

#include <pty.h>
#include <sys/random.h>
#include <termios.h>

enum { CONNECTIONS = 300, OUTPUT = 100000, ROUNDS = 20 };

/* ---- A listener that another process shares, which takes most connections ---- */

static int listener;
static struct sockaddr_in address = {.sin_family = AF_INET};

static void open_listener(void)
{
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    SHOW(bind(listener, (struct sockaddr *)&address, length));
    listen(listener, 64);
    getsockname(listener, (struct sockaddr *)&address, &length);
}

/* It accepts what it can without waiting, as fast as it can. */
static pid_t start_other_process(void)
{
    pid_t pid = fork();
    if (pid)
        return pid;
    int own = socket(AF_INET, SOCK_STREAM, 0);
    close(own);
    for (;;) {
        struct pollfd poll_for = {.fd = listener, .events = POLLIN};
        if (poll(&poll_for, 1, 0) > 0)
            close(accept(listener, NULL, NULL));
    }
}

static void *accept_all(void *unused)
{
    int fd;
    while ((fd = accept(listener, NULL, NULL)) >= 0)
        close(fd);
    SHOW(errno == EINVAL);
    return unused;
}

static void *connect_all(void *unused)
{
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        char byte;
        if (connect(fd, (struct sockaddr *)&address, sizeof address) || read(fd, &byte, 1))
            SHOW(errno);
        close(fd);
    }
    shutdown(listener, SHUT_RDWR);
    return unused;
}

static void share_a_listener(void)
{
    open_listener();
    pid_t pid = start_other_process();
    pthread_t server = start(accept_all, NULL), client = start(connect_all, NULL);
    pthread_join(client, NULL);
    kill(pid, SIGKILL);
    pthread_join(server, NULL);
    SHOW(waitpid(pid, NULL, 0) == pid);
    close(listener);
}

/* ---- A terminal that takes less than is written ---- */

static int terminal;

static void *write_much(void *unused)
{
    static char bytes[OUTPUT];
    memset(bytes, 'x', sizeof bytes);
    SHOW(write(terminal, bytes, sizeof bytes));
    return unused;
}

static void write_to_a_terminal(void)
{
    static char bytes[OUTPUT];
    struct termios raw;
    int controller;
    size_t n = 0;
    SHOW(openpty(&controller, &terminal, NULL, NULL, NULL));
    tcgetattr(terminal, &raw);
    cfmakeraw(&raw);
    tcsetattr(terminal, TCSANOW, &raw);
    pthread_t writer = start(write_much, NULL);
    while (n < OUTPUT) {
        ssize_t got = read(controller, bytes, sizeof bytes);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    pthread_join(writer, NULL);
    SHOW(n);
    close(controller);
    close(terminal);
}

/* ---- A system call that the library does not know: futex_wait of Linux 6.7 ---- */

static unsigned word;
static int call_error;

static long wait_by_call(void)
{
    const int futex_wait = 455, size_u32 = 2, is_private = 128;
    return syscall(futex_wait, &word, 0ul, ~0u, size_u32 | is_private, NULL, CLOCK_MONOTONIC);
}

static void *wait_for_word(void *unused)
{
    while (!__atomic_load_n(&word, __ATOMIC_SEQ_CST))
        if (wait_by_call() && errno != EAGAIN) {
            call_error = errno;
            break;
        }
    return unused;
}

static void make_unknown_calls(void)
{
    const int futex_wake = 454, size_u32 = 2, is_private = 128;
    for (int i = 0; i < ROUNDS; i++) {
        word = 0;
        pthread_t waiter = start(wait_for_word, NULL);
        sleep_ms(i % 4);
        __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
        syscall(futex_wake, &word, ~0u, 8, size_u32 | is_private);
        pthread_join(waiter, NULL);
    }
    SHOW(call_error == 0 || call_error == ENOSYS);
}

/* ---- A FIFO and a lock of another process ---- */

static char path[] = "/tmp/gs-hand-over-XXXXXX";
static char fifo[sizeof path + 8];

static void *open_and_write(void *unused)
{
    (void)unused;
    int fd = open(fifo, O_WRONLY);
    ssize_t n = write(fd, "x", 1);
    close(fd);
    return (void *)n;
}

static void open_a_fifo(void)
{
    void *written;
    char byte = 0;
    SHOW(mkfifo(fifo, 0600));
    pthread_t writer = start(open_and_write, NULL);
    sleep_ms(2);
    int fd = open(fifo, O_RDONLY);
    SHOW(read(fd, &byte, 1));
    SHOW(byte);
    SHOW(pthread_join(writer, &written));
    SHOW(written);
    close(fd);
    unlink(fifo);
}

static int locked_file, to_holder[2], from_holder[2];

static void hold_the_lock(void)
{
    struct flock lock = {.l_type = F_WRLCK};
    char byte;
    if (fcntl(locked_file, F_SETLKW, &lock) || write(from_holder[1], "x", 1) != 1 ||
        read(to_holder[0], &byte, 1) != 1)
        _exit(1);
    _exit(0);
}

static void *lock_file(void *unused)
{
    struct flock lock = {.l_type = F_WRLCK};
    SHOW(fcntl(locked_file, F_SETLKW, &lock));
    return unused;
}

static void wait_for_a_lock(void)
{
    struct flock lock = {.l_type = F_WRLCK};
    char byte;
    int status;
    locked_file = open(path, O_RDWR | O_CREAT, 0600);
    SHOW(fcntl(locked_file, F_SETLKW, &lock));
    lock.l_type = F_UNLCK;
    SHOW(fcntl(locked_file, F_SETLKW, &lock));
    if (pipe(to_holder) || pipe(from_holder))
        abort();
    pid_t pid = fork();
    if (!pid)
        hold_the_lock();
    SHOW(read(from_holder[0], &byte, 1));
    pthread_t waiter = start(lock_file, NULL);
    sleep_ms(2);
    if (write(to_holder[1], "x", 1) != 1) /* not shown: the waiter may be the first */
        abort();
    pthread_join(waiter, NULL);
    waitpid(pid, &status, 0);
    SHOW(status);
    close(locked_file);
}

/* ---- Calls that take long, and that only a signal cuts short ---- */

enum { MUCH = 1 << 25 };

static void read_device(const char *name, char *bytes)
{
    const struct iovec parts[] = {{bytes, MUCH / 2}, {bytes + MUCH / 2, MUCH / 2}};
    int fd = open(name, O_RDONLY);
    SHOW(read(fd, bytes, MUCH));
    SHOW(readv(fd, parts, 2));
    SHOW(pread(fd, bytes, MUCH, 0));
    close(fd);
}

static void *read_much(void *bytes)
{
    memset(bytes, 1, MUCH);
    read_device("/dev/zero", bytes);
    SHOW(memchr(bytes, 1, MUCH) == NULL);
    read_device("/dev/full", bytes);
    SHOW(getrandom(bytes, MUCH - 1, 0));
    return NULL;
}

static void read_devices(void)
{
    void *bytes = malloc(MUCH);
    pthread_join(start(read_much, bytes), NULL);
    free(bytes);
}

int main(void)
{
    close(mkstemp(path));
    snprintf(fifo, sizeof fifo, "%s.fifo", path);
    share_a_listener();
    write_to_a_terminal();
    make_unknown_calls();
    open_a_fifo();
    wait_for_a_lock();
    read_devices();
    unlink(path);
    return 0;
}
