/* A handler jumps to where a thread goes on that waits: the usual limit of time of old programs.
 * The first thread does so by a timer, and another one for a signal that was sent to it. */
#include "program.h"

static sigjmp_buf limit, told;
static int ends[2];
static sem_t never, done;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static atomic_int stop, tries;

static void on_alarm(int number)
{
    siglongjmp(limit, number);
}

static void on_told(int number)
{
    siglongjmp(told, number);
}

static void *wait_for_done(void *result)
{
    sem_wait(&done);
    return result;
}

static void *keep_busy(void *unused)
{
    while (!stop)
        tries++;
    return unused;
}

enum way {
    SEMAPHORE,
    JOIN,
    MUTEX,
    COND,
    WRITER,
    BARRIER,
    READ,
    POLL,
    STREAM,
    SLEEP,
    PAUSE,
    LOOP,
    WAYS
};

static void wait_by(enum way way, pthread_t thread)
{
    char byte;
    struct pollfd both[] = {{.fd = ends[0], .events = POLLIN}, {.fd = 0, .events = POLLIN}};
    switch (way) {
    case SEMAPHORE:
        sem_wait(&never);
        break;
    case JOIN:
        pthread_join(thread, NULL);
        break;
    case MUTEX:
        pthread_mutex_lock(&mutex);
        break;
    case COND:
        pthread_cond_wait(&cond, &mutex);
        break;
    case WRITER:
        pthread_rwlock_wrlock(&rwlock);
        break;
    case BARRIER:
        pthread_barrier_wait(&barrier);
        break;
    case READ:
        read(ends[0], &byte, 1);
        break;
    case POLL:
        poll(both, 2, -1);
        break;
    case STREAM:
        getchar();
        break;
    case SLEEP:
        sleep(1000);
        break;
    case PAUSE:
        pause();
        break;
    default:
        while (!stop)
            tries++;
    }
}

static void time_out(enum way way, pthread_t thread)
{
    const struct itimerval soon = {.it_value.tv_usec = 5000};
    sigset_t mask;
    if (!sigsetjmp(limit, 1)) {
        setitimer(ITIMER_REAL, &soon, NULL);
        wait_by(way, thread);
        puts("returned");
        return;
    }
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    printf("way %d timed out, blocked %d\n", way, sigismember(&mask, SIGALRM));
}

/* Without a saved mask the signal stays blocked. */
static void time_out_blocked(void)
{
    sigset_t mask;
    const struct itimerval soon = {.it_value.tv_usec = 5000};
    if (!sigsetjmp(limit, 0)) {
        setitimer(ITIMER_REAL, &soon, NULL);
        sem_wait(&never);
        return;
    }
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    printf("blocked %d\n", sigismember(&mask, SIGALRM));
    sigdelset(&mask, SIGALRM);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

static sem_t ready;

static enum way told_way;

static void *be_told(void *unused)
{
    if (!sigsetjmp(told, 1)) {
        sem_post(&ready);
        wait_by(told_way, pthread_self());
        puts("returned");
        return NULL;
    }
    puts("told");
    return unused;
}

static void tell_another(enum way way)
{
    pthread_t thread;
    void *result;
    told_way = way;
    pthread_create(&thread, NULL, be_told, &told);
    sem_wait(&ready);
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, &result);
    printf("joined %d\n", result == &told);
}

/* A function with variable arguments that waits for a descriptor: it is interrupted, or not. */
static atomic_int handled, has_returned;

static void on_signal(int number)
{
    (void)number;
    handled++;
}

static ssize_t read_some(int fd, ...)
{
    char byte;
    return read(fd, &byte, 1);
}

static void *read_once(void *unused)
{
    ssize_t n = read_some(ends[0], 1);
    printf("read %zd %d\n", n, n < 0 && errno == EINTR);
    has_returned = 1;
    return unused;
}

static void interrupt(int flags)
{
    const struct timespec soon = {.tv_nsec = 1000000};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    pthread_t thread;
    handled = has_returned = 0;
    sigaction(SIGUSR2, &action, NULL);
    pthread_create(&thread, NULL, read_once, NULL);
    while (flags ? handled < 5 : !has_returned) {
        pthread_kill(thread, SIGUSR2);
        nanosleep(&soon, NULL);
    }
    if (flags)
        write(ends[1], "a", 1);
    pthread_join(thread, NULL);
}

int main(void)
{
    pthread_t thread, busy;
    struct sigaction alarms = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct sigaction others = {.sa_handler = on_told};
    sigaction(SIGALRM, &alarms, NULL);
    sigaction(SIGUSR1, &others, NULL);
    pipe(ends);
    dup2(ends[0], 0);
    sem_init(&never, 0, 0);
    sem_init(&done, 0, 0);
    sem_init(&ready, 0, 0);
    pthread_mutex_lock(&mutex);
    pthread_rwlock_rdlock(&rwlock);
    pthread_barrier_init(&barrier, NULL, 99);
    pthread_create(&thread, NULL, wait_for_done, &done);
    for (int way = 0; way < WAYS; way++)
        if (way != COND)
            time_out(way, thread);
    time_out_blocked();
    const enum way told_ways[] = {SEMAPHORE, READ, SLEEP};
    for (int i = 0; i < 3; i++)
        tell_another(told_ways[i]);
    interrupt(0);
    interrupt(SA_RESTART);
    pthread_create(&busy, NULL, keep_busy, NULL);
    for (int way = 0; way < WAYS; way++)
        if (way != COND)
            time_out(way, thread);
    time_out(COND, thread);
    stop = 1;
    pthread_join(busy, NULL);
    sem_post(&done);
    pthread_join(thread, NULL);
    return 0;
}
