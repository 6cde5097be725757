/* System calls by their numbers let other threads run, and have the signal of a pipe that nobody
 * reads; an address that is none is an error. */
#include "program.h"

#include <sys/msg.h>

static int forth[2], back[2];
static atomic_int signals;

static void on_pipe(int number)
{
    (void)number;
    signals++;
}

static void *answer(void *unused)
{
    char byte;
    while (syscall(SYS_read, forth[0], &byte, (size_t)1) == 1) {
        byte++;
        syscall(SYS_write, back[1], &byte, (size_t)1);
    }
    return unused;
}

static void *write_in_vain(void *unused)
{
    int ends[2];
    const struct iovec part = {"x", 1};
    pipe(ends);
    close(ends[0]);
    long result = syscall(SYS_write, ends[1], "x", (size_t)1);
    printf("%ld %s, signals %d\n", result, strerror(errno), signals);
    result = syscall(SYS_writev, ends[1], &part, 1);
    printf("%ld %s, signals %d\n", result, strerror(errno), signals);
    close(ends[1]);
    return unused;
}

static void operate_nowhere(void)
{
    int set = semget(IPC_PRIVATE, 1, 0600);
    int result = semop(set, (struct sembuf *)8, 1);
    printf("%d %s\n", result, strerror(errno));
    result = semop(-1, (struct sembuf *)8, 1);
    printf("%d %s\n", result, strerror(errno));
    semctl(set, 0, IPC_RMID);
}

/* ---- Waits, by a number that is constant, and by one that is not ---- */

static int stream[2], tee_ends[2], tee_others[2], set, listener, queue, semaphores;
static struct sockaddr_in address = {.sin_family = AF_INET};

enum way {
    POLL,
    SELECT,
    PSELECT,
    PPOLL,
    EPOLL,
    RECEIVE,
    MESSAGE,
    ACCEPT,
    WAIT,
    WAIT_ID,
    TEE,
    QUEUE,
    SEMAPHORE,
    WAYS
};

/* What the calls get the addresses of. */
struct arguments {
    char byte;
    fd_set fds;
    struct iovec part;
    struct msghdr message;
    struct pollfd one;
    struct epoll_event event;
    siginfo_t information;
    struct {
        long type;
        char bytes[8];
    } text;
    struct sembuf operation;
};

static void prepare(struct arguments *with)
{
    *with = (struct arguments){.part = {&with->byte, 1},
                               .message = {.msg_iov = &with->part, .msg_iovlen = 1},
                               .one = {.fd = stream[0], .events = POLLIN},
                               .operation = {0, -1, 0}};
    FD_SET(stream[0], &with->fds);
}

static long wait_by_constant(enum way way, pid_t child)
{
    struct arguments with;
    prepare(&with);
    switch (way) {
    case POLL:
        return syscall(SYS_poll, &with.one, 1L, -1L);
    case SELECT:
        return syscall(SYS_select, 100L, &with.fds, NULL, NULL, NULL);
    case PSELECT:
        return syscall(SYS_pselect6, 100L, &with.fds, NULL, NULL, NULL, NULL);
    case PPOLL:
        return syscall(SYS_ppoll, &with.one, 1L, NULL, NULL, 8L);
    case EPOLL:
        return syscall(SYS_epoll_wait, set, &with.event, 1L, -1L);
    case RECEIVE:
        return syscall(SYS_recvfrom, stream[0], &with.byte, 1L, MSG_PEEK, NULL, NULL);
    case MESSAGE:
        return syscall(SYS_recvmsg, stream[0], &with.message, MSG_PEEK);
    case ACCEPT:
        return syscall(SYS_accept4, listener, NULL, NULL, SOCK_CLOEXEC) >= 0;
    case WAIT:
        return syscall(SYS_wait4, child, NULL, 0L, NULL) == child;
    case WAIT_ID:
        return syscall(SYS_waitid, P_PID, child, &with.information, WEXITED, NULL);
    case TEE:
        return syscall(SYS_tee, tee_ends[0], tee_others[1], 1L, 0L);
    case QUEUE:
        return syscall(SYS_msgrcv, queue, &with.text, 8L, 0L, 0L);
    default:
        return syscall(SYS_semop, semaphores, &with.operation, 1L);
    }
}

static long wait_by_number(enum way way, pid_t child)
{
    static const long numbers[] = {
        SYS_poll,    SYS_select, SYS_pselect6, SYS_ppoll, SYS_epoll_wait, SYS_recvfrom, SYS_recvmsg,
        SYS_accept4, SYS_wait4,  SYS_waitid,   SYS_tee,   SYS_msgrcv,     SYS_semop};
    struct arguments with;
    prepare(&with);
    const long first = (long)&with.one, in = stream[0];
    const long at[WAYS][5] = {{first, 1, -1},
                              {100, (long)&with.fds},
                              {100, (long)&with.fds},
                              {first, 1, 0, 0, 8},
                              {set, (long)&with.event, 1, -1},
                              {in, (long)&with.byte, 1, MSG_PEEK},
                              {in, (long)&with.message, MSG_PEEK},
                              {listener, 0, 0, SOCK_CLOEXEC},
                              {child},
                              {P_PID, child, (long)&with.information, WEXITED},
                              {tee_ends[0], tee_others[1], 1, 0},
                              {queue, (long)&with.text, 8, 0, 0},
                              {semaphores, (long)&with.operation, 1}};
    const long *is = at[way];
    long result = syscall(numbers[way], is[0], is[1], is[2], is[3], is[4], 0L);
    return way == ACCEPT ? result >= 0 : way == WAIT ? result == child : result;
}

struct wait {
    enum way way;
    pid_t child;
    int is_constant;
};

static void *wait_once(void *argument)
{
    const struct wait *wait = argument;
    long result = wait->is_constant ? wait_by_constant(wait->way, wait->child)
                                    : wait_by_number(wait->way, wait->child);
    return (void *)result;
}

static pid_t start_child(int *ret_end)
{
    int ends[2];
    char byte;
    pipe(ends);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) > 0);
    }
    close(ends[0]);
    *ret_end = ends[1];
    return child;
}

static void let_go_on(enum way way, int end)
{
    const struct {
        long type;
        char bytes[8];
    } text = {1, "x"};
    struct sembuf more = {0, 1, 0};
    if (way == ACCEPT) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof address))
            abort();
    } else if (way == QUEUE) {
        syscall(SYS_msgsnd, queue, &text, 1L, 0L);
    } else if (way == SEMAPHORE) {
        semop(semaphores, &more, 1);
    } else {
        write(end, "x", 1);
    }
}

/* The first thread lets it go on: if the call kept the worker, it would wait for ever. */
static void wait_for_other(enum way way, int is_constant)
{
    struct wait wait = {way, 0, is_constant};
    char byte;
    int end = way == TEE ? tee_ends[1] : stream[1];
    pthread_t thread;
    void *result;
    if (way == WAIT || way == WAIT_ID)
        wait.child = start_child(&end);
    pthread_create(&thread, NULL, wait_once, &wait);
    usleep(500);
    let_go_on(way, end);
    pthread_join(thread, &result);
    if (way < ACCEPT || way == TEE)
        read(way == TEE ? tee_ends[0] : stream[0], &byte, 1);
    printf("way %d, constant %d: %ld\n", way, is_constant, (long)result);
}

static void wait_for_others(void)
{
    const struct timespec soon = {.tv_nsec = 100000};
    struct epoll_event event = {.events = EPOLLIN};
    socklen_t length = sizeof address;
    volatile long sleep = SYS_nanosleep, sleep_by_clock = SYS_clock_nanosleep;
    socketpair(AF_UNIX, SOCK_STREAM, 0, stream);
    pipe(tee_ends);
    pipe(tee_others);
    queue = msgget(IPC_PRIVATE, 0600);
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    set = epoll_create1(0);
    epoll_ctl(set, EPOLL_CTL_ADD, stream[0], &event);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4))
        abort();
    getsockname(listener, (struct sockaddr *)&address, &length);
    for (enum way way = 0; way < WAYS; way++)
        for (int is_constant = 0; is_constant < 2; is_constant++)
            wait_for_other(way, is_constant);
    msgctl(queue, IPC_RMID, NULL);
    semctl(semaphores, 0, IPC_RMID);
    printf("sleep %ld", syscall(sleep, &soon, NULL));
    printf(" %ld", syscall(sleep_by_clock, CLOCK_MONOTONIC, 0L, &soon, NULL));
    long result = syscall(sleep_by_clock, -1L, 0L, &soon, NULL);
    printf(" %ld %s\n", result, strerror(errno));
}

int main(void)
{
    pthread_t thread, others[3];
    char byte = 'a';
    const struct sigaction action = {.sa_handler = on_pipe};
    sigaction(SIGPIPE, &action, NULL);
    pipe(forth);
    pipe(back);
    pthread_create(&thread, NULL, answer, NULL);
    for (int i = 0; i < 3; i++) {
        syscall(SYS_write, forth[1], &byte, (size_t)1);
        syscall(SYS_read, back[0], &byte, (size_t)1);
    }
    close(forth[1]);
    pthread_join(thread, NULL);
    printf("%c\n", byte);
    for (int i = 0; i < 3; i++) {
        pthread_create(&others[i], NULL, write_in_vain, NULL);
        pthread_join(others[i], NULL);
    }
    operate_nowhere();
    wait_for_others();
    return 0;
}
