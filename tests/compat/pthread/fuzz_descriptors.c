/* Descriptors of random threads: pipes, sockets, events and timers, and how they end. */
#include "tests/compat/pthread/program.h"
#include "tests/compat/pthread/program_fuzz.h"

#include <sys/timerfd.h>

enum { BYTES = 4096 };

static void make_pair(struct fuzz *fuzz, int ret_ends[2])
{
    if (fuzz_next(fuzz) % 2)
        EXPECT(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ret_ends));
    else
        EXPECT(!pipe(ret_ends));
}

static void *drain(void *argument)
{
    char bytes[BYTES];
    long sum = 0, n;
    while ((n = RETRIED(read(*(int *)argument, bytes, sizeof bytes))) > 0)
        sum += n;
    return (void *)(n ? n : sum); // NOLINT(performance-no-int-to-ptr)
}

/* More than a pipe holds, so both sides wait; then one end is closed. */
static long stream(struct fuzz *fuzz)
{
    char bytes[BYTES] = {0};
    int ends[2];
    long turns = fuzz_next(fuzz) % 60, sum = 0;
    make_pair(fuzz, ends);
    pthread_t reader = start(drain, &ends[0]);
    for (long i = 0; i < turns; i++) {
        size_t size = 1 + fuzz_next(fuzz) % BYTES;
        for (size_t done = 0; done < size;) {
            long n = RETRIED(write(ends[1], bytes, size - done));
            EXPECT(n > 0);
            done += (size_t)n;
        }
        sum += (long)size;
    }
    EXPECT(!close(ends[1]));
    EXPECT(finish(reader) == sum);
    EXPECT(!close(ends[0]));
    return sum % 1000;
}

static void *echo_once(void *argument)
{
    char byte;
    int fd = (int)RETRIED(accept(*(int *)argument, NULL, NULL));
    if (fd < 0)
        return NULL;
    while (RETRIED(recv(fd, &byte, 1, 0)) == 1)
        EXPECT(RETRIED(send(fd, &byte, 1, MSG_NOSIGNAL)) == 1);
    close(fd);
    return argument;
}

static int listen_on(struct sockaddr_in *ret_address)
{
    socklen_t length = sizeof *ret_address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *ret_address = (struct sockaddr_in){.sin_family = AF_INET};
    ret_address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT(fd >= 0 && !bind(fd, (struct sockaddr *)ret_address, length) && !listen(fd, 8));
    EXPECT(!getsockname(fd, (struct sockaddr *)ret_address, &length));
    return fd;
}

static long converse(struct fuzz *fuzz)
{
    struct sockaddr_in address;
    int listener = listen_on(&address), fd = socket(AF_INET, SOCK_STREAM, 0);
    long n = fuzz_next(fuzz) % 10;
    pthread_t server = start(echo_once, &listener);
    EXPECT(!RETRIED(connect(fd, (struct sockaddr *)&address, sizeof address)));
    for (long i = 0; i < n; i++) {
        char byte = (char)i, back = -1;
        EXPECT(RETRIED(send(fd, &byte, 1, 0)) == 1 && RETRIED(recv(fd, &back, 1, 0)) == 1);
        EXPECT(back == byte);
    }
    EXPECT(!close(fd));
    EXPECT(finish(server));
    EXPECT(!close(listener));
    return n;
}

/* A thread that waits to accept goes on when its socket is shut down. */
static long shut_down(struct fuzz *fuzz)
{
    struct sockaddr_in address;
    int listener = listen_on(&address);
    pthread_t server = start(echo_once, &listener);
    if (fuzz_next(fuzz) % 2)
        sleep_ms(1);
    EXPECT(!shutdown(listener, SHUT_RD));
    EXPECT(!finish(server));
    EXPECT(!close(listener));
    return 1;
}

static void *notify(void *argument)
{
    uint64_t one = 1;
    EXPECT(write(*(int *)argument, &one, sizeof one) == sizeof one);
    return NULL;
}

static long wait_for_events(struct fuzz *fuzz)
{
    uint64_t value = 0;
    int event = eventfd(0, EFD_CLOEXEC), epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event known = {.events = EPOLLIN, .data.fd = event}, found;
    struct pollfd polls = {.fd = event, .events = POLLIN};
    EXPECT(event >= 0 && !epoll_ctl(epoll, EPOLL_CTL_ADD, event, &known));
    int timeout_ms = (int)(fuzz_next(fuzz) % 2);
    EXPECT(!RETRIED(epoll_wait(epoll, &found, 1, timeout_ms)));
    pthread_t other = start(notify, &event);
    switch (fuzz_next(fuzz) % 3) {
    case 0:
        EXPECT(RETRIED(epoll_wait(epoll, &found, 1, -1)) == 1 && found.data.fd == event);
        break;
    case 1:
        EXPECT(RETRIED(poll(&polls, 1, -1)) == 1 && polls.revents == POLLIN);
        break;
    default:
        break;
    }
    EXPECT(RETRIED(read(event, &value, sizeof value)) == sizeof value && value == 1);
    EXPECT(!finish(other));
    EXPECT(!close(epoll) && !close(event));
    return 1;
}

static long wait_for_timer(struct fuzz *fuzz)
{
    uint64_t expirations = 0;
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    struct itimerspec at = {.it_value.tv_nsec = 1 + fuzz_next(fuzz) % 1000000};
    EXPECT(fd >= 0 && !timerfd_settime(fd, 0, &at, NULL));
    EXPECT(RETRIED(read(fd, &expirations, sizeof expirations)) == sizeof expirations);
    EXPECT(expirations == 1 && !close(fd));
    return 1;
}

/* Other descriptors may have the same numbers at once. */
static long reopen(struct fuzz *fuzz)
{
    int ends[2];
    char byte = 0;
    long n = fuzz_next(fuzz) % 6;
    for (long i = 0; i < n; i++) {
        make_pair(fuzz, ends);
        int again = dup(ends[1]);
        EXPECT(again >= 0 && !close(ends[1]));
        EXPECT(RETRIED(write(again, "a", 1)) == 1 && RETRIED(read(ends[0], &byte, 1)) == 1);
        EXPECT(!close(again) && !RETRIED(read(ends[0], &byte, 1)) && !close(ends[0]));
    }
    return n;
}

const struct fuzz_action fuzz_descriptors[] = {
    {stream}, {converse}, {shut_down}, {wait_for_events}, {wait_for_timer}, {reopen}, {0},
};
