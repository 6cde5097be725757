/* Calls that block in the kernel end when their thread is canceled, and when a signal of it is
 * handled. */
#include "program.h"

#include <aio.h>
#include <netdb.h>

enum call { WAIT, WAIT_FOR_IT, LOCK, LOCK_RECORD, AIO, FIFO, SHARED, COMMAND, CALLS };
static const char *const names[CALLS] = {
    "wait", "waitpid", "lockf", "fcntl", "aio_suspend", "open", "shared semaphore", "system"};

static pid_t child;
static int locked, ends[2];
static char fifo[64], byte;
static struct aiocb reading;
static sem_t *shared;
static atomic_int cleaned, handled, interrupted;

/* A child that has the lock and ends when it is killed. */
static void start_child(void)
{
    int ready[2];
    if (pipe(ready))
        abort();
    child = fork();
    if (!child) {
        if (lockf(locked, F_LOCK, 0) || write(ready[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    if (read(ready[0], &byte, 1) != 1)
        abort();
    close(ready[0]);
    close(ready[1]);
}

static int end_child(void)
{
    int status;
    kill(child, SIGKILL);
    return waitpid(child, &status, 0) == child && WIFSIGNALED(status);
}

static int make(enum call call)
{
    struct flock record = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const struct aiocb *list[] = {&reading};
    switch (call) {
    case WAIT:
        return wait(NULL);
    case WAIT_FOR_IT:
        return waitpid(child, NULL, 0);
    case LOCK:
        return lockf(locked, F_LOCK, 0);
    case LOCK_RECORD:
        return fcntl(locked, F_SETLKW, &record);
    case AIO:
        return aio_suspend(list, 1, NULL);
    case FIFO:
        return open(fifo, O_RDONLY);
    case SHARED:
        return sem_wait(shared);
    default:
        return system("exec sleep 1000");
    }
}

static void clean(void *argument)
{
    (void)argument;
    cleaned++;
}

static void *be_canceled(void *argument)
{
    pthread_cleanup_push(clean, NULL);
    make(*(enum call *)argument);
    pthread_testcancel(); /* if the call has returned, as it was not waiting yet */
    pthread_cleanup_pop(0);
    return NULL;
}

/* late: the thread probably waits already. */
static void cancel(enum call call, int late)
{
    pthread_t thread;
    void *result;
    cleaned = 0;
    pthread_create(&thread, NULL, be_canceled, &call);
    if (late)
        usleep(20000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("%s: canceled %d, cleaned %d\n", names[call], result == PTHREAD_CANCELED, cleaned);
}

/* ---- Signals ---- */

static void handle(int number)
{
    (void)number;
    handled++;
}

static void set_handler(int flags)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
}

static void *be_interrupted(void *argument)
{
    int result = make(*(enum call *)argument), err = errno;
    printf("%s: interrupted %d\n", names[*(enum call *)argument], result < 0 && err == EINTR);
    interrupted = 1;
    return NULL;
}

/* The signal may come before the call: then it is sent again. */
static void interrupt(enum call call)
{
    pthread_t thread;
    interrupted = 0;
    pthread_create(&thread, NULL, be_interrupted, &call);
    while (!interrupted) {
        pthread_kill(thread, SIGUSR1);
        usleep(1000);
    }
    pthread_join(thread, NULL);
}

static void *wait_for_it(void *argument)
{
    int status = 0;
    pid_t ended = waitpid(child, &status, 0);
    printf("it has ended: %d, killed %d\n", ended == child, WIFSIGNALED(status));
    return argument;
}

static void restart(void)
{
    pthread_t thread;
    start_child();
    set_handler(SA_RESTART);
    pthread_create(&thread, NULL, wait_for_it, NULL);
    handled = 0;
    for (int i = 0; i < 10; i++) {
        pthread_kill(thread, SIGUSR1);
        usleep(500);
    }
    kill(child, SIGKILL);
    pthread_join(thread, NULL);
    printf("handled %d\n", handled > 0);
}

static void *signal_process(void *argument)
{
    while (!interrupted) {
        kill(getpid(), SIGUSR1);
        usleep(1000);
    }
    return argument;
}

/* The first thread gets the signals of the process. */
static void interrupt_first(void)
{
    pthread_t thread;
    set_handler(0);
    start_child();
    interrupted = 0;
    pthread_create(&thread, NULL, signal_process, NULL);
    int result = waitpid(child, NULL, 0), err = errno;
    interrupted = 1;
    pthread_join(thread, NULL);
    printf("first thread: interrupted %d\n", result < 0 && err == EINTR);
    printf("ended %d\n", end_child());
}

/* What is canceled does not end calls of others. */
static void keep_others(void)
{
    pthread_t thread;
    start_child();
    pthread_create(&thread, NULL, wait_for_it, NULL);
    for (int i = 0; i < 10; i++) {
        cleaned = 0;
        enum call call = LOCK;
        pthread_t other;
        pthread_create(&other, NULL, be_canceled, &call);
        pthread_cancel(other);
        pthread_join(other, NULL);
    }
    kill(child, SIGKILL);
    pthread_join(thread, NULL);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    strcpy(fifo, "/tmp/ended_calls.XXXXXX");
    locked = mkstemp(fifo);
    unlink(fifo);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (locked < 0 || mkfifo(fifo, 0600) || pipe(ends) || shared == MAP_FAILED ||
        sem_init(shared, 1, 0))
        abort();
    reading = (struct aiocb){.aio_fildes = ends[0], .aio_buf = &byte, .aio_nbytes = 1};
    if (aio_read(&reading))
        abort();
    set_handler(0);
    start_child();
    for (enum call call = WAIT; call < CALLS; call++) {
        cancel(call, 0);
        cancel(call, 1);
    }
    for (enum call call = WAIT; call < COMMAND; call++)
        interrupt(call);
    printf("ended %d\n", end_child());
    restart();
    interrupt_first();
    keep_others();
    unlink(fifo);
    /* The C library's kernel thread reads until the end. */
    close(ends[1]);
}
