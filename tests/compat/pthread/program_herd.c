/* Many threads that wait for the same descriptor: each event is for one of those that read, and for
 * all that poll; what the chosen one leaves is for the next. */
#include "tests/compat/pthread/program.h"

enum { READERS = 300, ACCEPTORS = 8, CONNECTIONS = 40 };

static void add(int fd, uint64_t n)
{
    if (write(fd, &n, sizeof n) != (ssize_t)sizeof n)
        abort();
}

static atomic_int begun;

static void wait_for_begun(int n)
{
    while (atomic_load(&begun) < n)
        sleep_ms(1);
    sleep_ms(5); /* most of them wait then */
    atomic_store(&begun, 0);
}

/* ---- Readers ---- */

static void *read_eight(void *fd)
{
    uint64_t value = 0;
    atomic_fetch_add(&begun, 1);
    long n = read(*(int *)fd, &value, sizeof value);
    return (void *)(n == sizeof value ? (long)value : -1); // NOLINT(performance-no-int-to-ptr)
}

static void *read_one(void *fd)
{
    char byte = 0;
    atomic_fetch_add(&begun, 1);
    return (void *)(long)read(*(int *)fd, &byte, 1); // NOLINT(performance-no-int-to-ptr)
}

static void *poll_for_input(void *fd)
{
    struct pollfd poll_input = {.fd = *(int *)fd, .events = POLLIN};
    atomic_fetch_add(&begun, 1);
    return (void *)(long)poll(&poll_input, 1, -1); // NOLINT(performance-no-int-to-ptr)
}

static void *wait_by_epoll(void *fd)
{
    struct epoll_event event;
    atomic_fetch_add(&begun, 1);
    long n = epoll_wait(*(int *)fd, &event, 1, -1);
    return (void *)n; // NOLINT(performance-no-int-to-ptr)
}

static void start_many(pthread_t *threads, int n, void *(*fn)(void *), int *fd)
{
    for (int i = 0; i < n; i++)
        threads[i] = start(fn, fd);
    wait_for_begun(n);
}

static long finish_many(const pthread_t *threads, int n)
{
    long sum = 0;
    for (int i = 0; i < n; i++)
        sum += finish(threads[i]);
    return sum;
}

static bool is_readable(int fd)
{
    struct pollfd poll_input = {.fd = fd, .events = POLLIN};
    return poll(&poll_input, 1, 0) == 1;
}

/* A write for each, or one of a semaphore, which each leaves readable for the next. */
static void event_is_read_by_each(int flags)
{
    pthread_t threads[READERS];
    int fd = eventfd(0, flags);
    uint64_t n = flags & EFD_SEMAPHORE ? READERS : 1;
    start_many(threads, READERS, read_eight, &fd);
    for (uint64_t i = 0; i < READERS; i += n) {
        add(fd, n);
        while (!(flags & EFD_SEMAPHORE) && is_readable(fd))
            sched_yield();
    }
    SHOW(finish_many(threads, READERS));
    close(fd);
}

static void pipe_is_read_by_each(void)
{
    pthread_t threads[READERS];
    static const char bytes[READERS];
    int ends[2];
    SHOW(pipe(ends));
    start_many(threads, READERS, read_one, &ends[0]);
    SHOW(write(ends[1], bytes, READERS - 10));
    SHOW(close(ends[1])); /* the rest find the end */
    SHOW(finish_many(threads, READERS));
    close(ends[0]);
}

static void pollers_and_readers_are_woken(void)
{
    pthread_t pollers[10], readers[2], waiters[3];
    int fd = eventfd(0, EFD_SEMAPHORE), epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    uint64_t n = 3;
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    start_many(readers, 2, read_eight, &fd);
    start_many(pollers, 10, poll_for_input, &fd);
    start_many(waiters, 3, wait_by_epoll, &epoll);
    SHOW(write(fd, &n, sizeof n));
    SHOW(finish_many(pollers, 10));
    SHOW(finish_many(waiters, 3));
    SHOW(finish_many(readers, 2));
    SHOW(read(fd, &n, sizeof n));
    close(fd);
    close(epoll);
}

/* ---- The chosen one is gone ---- */

static void a_canceled_reader_takes_nothing(void)
{
    pthread_t threads[READERS];
    int fd = eventfd(0, EFD_SEMAPHORE);
    uint64_t one = 1;
    long canceled = 0;
    void *result;
    start_many(threads, READERS, read_eight, &fd);
    /* Each write is for one thread, which is canceled at the same time, or for the next one. */
    for (int i = 0; i < READERS / 2; i++) {
        add(fd, one);
        pthread_cancel(threads[i]);
    }
    for (int i = 0; i < READERS / 2; i++) {
        pthread_join(threads[i], &result);
        canceled += result == PTHREAD_CANCELED;
    }
    /* As many are left as were canceled, less those that have read in their place. */
    SHOW(canceled <= READERS / 2);
    for (int i = 0; i < READERS - READERS / 2; i++)
        add(fd, one);
    SHOW(finish_many(threads + READERS / 2, READERS - READERS / 2));
    close(fd);
}

static void nothing(int number)
{
    (void)number;
}

static void *read_with_interruptions(void *fd)
{
    uint64_t value = 0;
    atomic_fetch_add(&begun, 1);
    while (read(*(int *)fd, &value, sizeof value) < 0 && errno == EINTR)
        ;
    return (void *)(long)value; // NOLINT(performance-no-int-to-ptr)
}

static void an_interrupted_reader_hands_on(void)
{
    enum { INTERRUPTED = 40 };
    pthread_t threads[INTERRUPTED];
    struct sigaction action = {.sa_handler = nothing};
    int fd = eventfd(0, EFD_SEMAPHORE);
    uint64_t one = 1;
    sigaction(SIGUSR1, &action, NULL);
    start_many(threads, INTERRUPTED, read_with_interruptions, &fd);
    for (int i = 0; i < INTERRUPTED; i++) {
        add(fd, one);
        pthread_kill(threads[i], SIGUSR1);
    }
    SHOW(finish_many(threads, INTERRUPTED));
    close(fd);
}

/* ---- Acceptors ---- */

static void *accept_some(void *listener)
{
    long n = 0;
    atomic_fetch_add(&begun, 1);
    for (int fd; (fd = accept(*(int *)listener, NULL, NULL)) >= 0; n++)
        close(fd);
    return (void *)n; // NOLINT(performance-no-int-to-ptr)
}

static void connections_are_accepted_once(void)
{
    pthread_t threads[ACCEPTORS];
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    char byte;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    SHOW(bind(listener, (struct sockaddr *)&address, length));
    SHOW(listen(listener, CONNECTIONS));
    getsockname(listener, (struct sockaddr *)&address, &length);
    start_many(threads, ACCEPTORS, accept_some, &listener);
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&address, length))
            printf("%d is not connected\n", i);
        if (i % 2)
            SHOW(read(fd, &byte, 1)); /* it was accepted and closed */
        close(fd);
    }
    /* Those that wait are all woken. */
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    SHOW(connect(fd, (struct sockaddr *)&address, length));
    SHOW(read(fd, &byte, 1));
    SHOW(shutdown(listener, SHUT_RD));
    SHOW(finish_many(threads, ACCEPTORS));
    close(fd);
    close(listener);
}

int main(void)
{
    event_is_read_by_each(EFD_SEMAPHORE);
    event_is_read_by_each(0);
    pipe_is_read_by_each();
    pollers_and_readers_are_woken();
    a_canceled_reader_takes_nothing();
    an_interrupted_reader_hands_on();
    connections_are_accepted_once();
    return 0;
}
