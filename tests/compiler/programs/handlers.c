/* Handlers that post, and signals to threads. */
#include "program.h"

static sem_t posted, never;
static atomic_int handled;

static void post(int number)
{
    handled += number == SIGALRM ? 1 : 100;
    sem_post(&posted);
}

static void set(int number, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_flags = flags};
    action.sa_handler = handler;
    if (sigaction(number, &action, NULL))
        abort();
}

static void only_count(int number)
{
    handled += number != 0;
}

static void alarm_in(long us)
{
    struct itimerval time = {.it_value.tv_usec = us};
    setitimer(ITIMER_REAL, &time, NULL);
}

/* Again and again: the first one may come before the wait begins. */
static void alarm_often(void)
{
    struct itimerval time = {.it_value.tv_usec = 5000, .it_interval.tv_usec = 5000};
    setitimer(ITIMER_REAL, &time, NULL);
}

static void *wait_for_posts(void *unused)
{
    for (int i = 0; i < 3; i++) {
        int result = sem_wait(&posted);
        printf("posted %d, handled %d\n", result, (int)handled);
        if (i < 2)
            alarm_in(3000);
    }
    return unused;
}

/* Every thread waits, and only a handler goes on. */
static void wake_by_handler(void)
{
    pthread_t thread;
    sem_init(&posted, 0, 0);
    set(SIGALRM, post, SA_RESTART);
    alarm_in(3000);
    pthread_create(&thread, NULL, wait_for_posts, NULL);
    pthread_join(thread, NULL);
    alarm_in(3000);
    sem_wait(&posted);
    printf("main, handled %d\n", (int)handled);
}

static void report(const char *name, int result)
{
    int err = errno;
    alarm_in(0);
    errno = err;
    printf("%s: %d %s\n", name, result, result < 0 ? strerror(errno) : "");
}

/* A variable of no constant size: this runs on a stack. */
static int read_on_stack(int fd, int n)
{
    char bytes[n];
    alarm_often();
    return (int)read(fd, bytes, (size_t)n);
}

static void interrupt_first(void)
{
    int ends[2], others[2];
    struct epoll_event event = {.events = EPOLLIN};
    struct timeval long_time = {.tv_sec = 50};
    fd_set set_of_ends;
    sigset_t none;
    if (pipe(ends) || pipe(others))
        abort();
    set(SIGALRM, only_count, 0);
    struct pollfd fds[] = {{ends[0], POLLIN, 0}, {others[0], POLLIN, 0}};
    alarm_often();
    report("poll", poll(fds, 2, 50000));
    FD_ZERO(&set_of_ends);
    FD_SET(ends[0], &set_of_ends);
    FD_SET(others[0], &set_of_ends);
    alarm_often();
    report("select", select(others[0] + 1, &set_of_ends, NULL, NULL, &long_time));
    sem_init(&never, 0, 0);
    alarm_often();
    report("sem_wait", sem_wait(&never));
    int epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
    alarm_often();
    report("epoll_wait", epoll_wait(epoll, &event, 1, -1));
    report("read on a stack", read_on_stack(ends[0], 5));
    sigset_t alarm_only;
    sigemptyset(&none);
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm_only, NULL);
    alarm_in(2000);
    report("sigsuspend", sigsuspend(&none));
    alarm_in(2000);
    report("ppoll", ppoll(fds, 1, NULL, &none));
    alarm_in(2000);
    report("pselect", pselect(0, NULL, NULL, NULL, NULL, &none));
    siginfo_t information;
    struct timespec soon = {0, 2000000};
    report("sigtimedwait", sigtimedwait(&alarm_only, &information, &soon));
    alarm_in(2000);
    report("sigwaitinfo", sigwaitinfo(&alarm_only, &information) == SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
    if (write(ends[1], "x", 1) != 1)
        abort();
    report("epoll_wait", epoll_wait(epoll, &event, 1, -1));
}

static atomic_int is_done;

static void *read_until_signal(void *fd)
{
    char byte;
    report("read in a thread", (int)read(*(int *)fd, &byte, 1));
    is_done = 1;
    return NULL;
}

static void *poll_until_signal(void *fds)
{
    report("poll in a thread", poll(fds, 2, -1));
    is_done = 1;
    return NULL;
}

/* Again and again: the first one may come before the thread waits. */
static void interrupt(pthread_t thread)
{
    int err = 0;
    for (is_done = 0; !is_done; usleep(5000))
        err |= pthread_kill(thread, SIGUSR1);
    pthread_join(thread, NULL);
    printf("kill %d\n", err);
}

static void signal_threads(void)
{
    int ends[2], others[2];
    pthread_t thread;
    if (pipe(ends) || pipe(others))
        abort();
    struct pollfd fds[] = {{ends[0], POLLIN, 0}, {others[0], POLLIN, 0}};
    set(SIGUSR1, only_count, 0);
    pthread_create(&thread, NULL, read_until_signal, &ends[0]);
    interrupt(thread);
    pthread_create(&thread, NULL, poll_until_signal, fds);
    interrupt(thread);
    handled = 0;
    printf("raise %d", raise(SIGUSR1));
    printf(" handled %d\n", (int)handled);
    printf("no signal %d\n", pthread_kill(pthread_self(), 1000) == EINVAL);
}

static atomic_int must_stop;

/* Again and again: the first one may come before the wait begins. */
static void *signal_often(void *thread)
{
    const struct timespec pause = {0, 2000000};
    while (!must_stop && !pthread_kill(*(pthread_t *)thread, SIGUSR1))
        nanosleep(&pause, NULL);
    return NULL;
}

/* Also from the threads of other workers, which block all signals in the kernel. */
static void signal_first(void)
{
    enum { SENDERS = 4 };
    pthread_t self = pthread_self(), senders[SENDERS];
    struct pollfd nothing = {.fd = -1};
    sigset_t mask;
    handled = 0;
    set(SIGUSR1, only_count, 0);
    for (int i = 0; i < SENDERS; i++) {
        must_stop = 0;
        pthread_create(&senders[i], NULL, signal_often, &self);
        int result = poll(&nothing, 1, 60000);
        printf("poll %d, %s\n", result, strerror(errno));
        must_stop = 1;
        pthread_join(senders[i], NULL);
    }
    printf("handled %d\n", handled >= SENDERS);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &mask, NULL);
    must_stop = 0;
    pthread_create(&senders[0], NULL, signal_often, &self);
    int number = 0, err = sigwait(&mask, &number);
    must_stop = 1;
    pthread_join(senders[0], NULL);
    printf("sigwait %d, %d\n", err, number == SIGUSR1);
}

int main(void)
{
    wake_by_handler();
    interrupt_first();
    signal_threads();
    signal_first();
    return 0;
}
