/* A TCP connection from which threads read in all ways, and wait in between: what is left, what
 * comes meanwhile and the end must be found by the next wait. */
#include "tests/compat/pthread/program.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/select.h>

enum { TURNS = 200 };

static int ours, peer;

static void connect_both(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&address, &length))
        exit(99);
    peer = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(peer, (struct sockaddr *)&address, length))
        exit(99);
    ours = accept(listener, NULL, NULL);
    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(ours, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    close(listener);
}

static void close_both(void)
{
    close(ours);
    close(peer);
}

static long poll_for(int fd, short events, int timeout_ms)
{
    struct pollfd poll_ = {.fd = fd, .events = events, .revents = -1};
    int result = poll(&poll_, 1, timeout_ms);
    return result * 1000000L + poll_.revents;
}

static void put(const char *bytes)
{
    if (send(peer, bytes, strlen(bytes), 0) != (ssize_t)strlen(bytes))
        exit(98);
}

/* ---- A thread that answers ---- */

static void *answer(void *unused)
{
    char byte;
    while (poll_for(peer, POLLIN, -1) && recv(peer, &byte, 1, 0) == 1)
        if (send(peer, &byte, 1, 0) != 1)
            return &ours;
    return unused;
}

static void test_turns(void)
{
    char bytes[16];
    long sum = 0;
    connect_both();
    pthread_t thread = start(answer, NULL);
    for (int i = 0; i < TURNS; i++) {
        sum += send(ours, "a", 1, 0);
        sum += i % 3 ? poll_for(ours, POLLIN, -1) : 0;
        sum += recv(ours, bytes, sizeof bytes, 0);
    }
    SHOW(sum);
    SHOW(shutdown(ours, SHUT_WR));
    SHOW(finish(thread));
    close_both();
}

/* ---- What is left ---- */

static void *read_parts(void *unused)
{
    char bytes[64];
    for (int i = 0; i < 3; i++) {
        SHOW(poll_for(ours, POLLIN, -1));
        SHOW(recv(ours, bytes, 2, 0)); /* of five, */
        SHOW(poll_for(ours, POLLIN, -1));
        SHOW(recv(ours, bytes, 2, MSG_PEEK));
        SHOW(recv(ours, bytes, sizeof bytes, MSG_PEEK));
        SHOW(poll_for(ours, POLLIN | POLLRDNORM, -1));
        SHOW(recv(ours, bytes, 3, 0)); /* and the rest exactly */
        SHOW(poll_for(ours, POLLIN, 1));
        put("12345");
    }
    SHOW(poll_for(ours, POLLIN, -1));
    SHOW(recv(ours, bytes, 4, MSG_WAITALL));
    SHOW(poll_for(ours, POLLIN | POLLOUT, -1));
    struct iovec two[2] = {{bytes, 1}, {bytes + 1, 20}};
    SHOW(readv(ours, two, 2));
    SHOW(poll_for(ours, POLLIN, 1));
    return unused;
}

static void test_parts(void)
{
    connect_both();
    put("abcde");
    SHOW(finish(start(read_parts, NULL)));
    close_both();
}

static void *count_bytes(void *unused)
{
    char bytes[64];
    long n = 0, sum = 0;
    while (poll_for(ours, POLLIN, -1) && (n = read(ours, bytes, sum % 7 ? 64 : 3)) > 0)
        sum += n;
    SHOW(n);
    SHOW(sum);
    SHOW(poll_for(ours, POLLIN | POLLRDHUP, -1));
    return unused;
}

static void test_end_after_bytes(void)
{
    connect_both();
    pthread_t thread = start(count_bytes, NULL);
    for (int i = 0; i < TURNS; i++) {
        put(i % 2 ? "abc" : "abcdefghijklmnopqrstuvwxyz");
        if (i % 16 == 0)
            sched_yield();
    }
    shutdown(peer, SHUT_WR);
    SHOW(finish(thread));
    close_both();
}

/* ---- Bytes while nobody waits ---- */

static void *sleep_between(void *unused)
{
    char bytes[64];
    SHOW(poll_for(ours, POLLIN, -1));
    for (int i = 0; i < 8; i++) {
        SHOW(recv(ours, bytes, sizeof bytes, 0));
        for (int j = 0; j < 8; j++) {
            put("x");
            sleep_ms(1);
        }
        SHOW(recv(ours, bytes, 8, 0));
        SHOW(recv(ours, bytes, 1, MSG_DONTWAIT));
        put("yy");
        SHOW(poll_for(ours, POLLIN, -1));
    }
    return unused;
}

static void test_ignored(void)
{
    connect_both();
    put("a");
    SHOW(finish(start(sleep_between, NULL)));
    close_both();
}

/* ---- Two threads, and two numbers of one connection ---- */

static int other;
static atomic_long taken;

static void *take_all(void *fd)
{
    char bytes[3];
    ssize_t n;
    while (poll_for(*(int *)fd, POLLIN, -1) && (n = recv(*(int *)fd, bytes, sizeof bytes, 0)) > 0)
        atomic_fetch_add(&taken, n);
    return NULL;
}

static void *take_blocking(void *fd)
{
    char bytes[5];
    ssize_t n;
    while ((n = recv(*(int *)fd, bytes, sizeof bytes, 0)) > 0)
        atomic_fetch_add(&taken, n);
    return NULL;
}

static void test_several(void)
{
    connect_both();
    other = dup(ours);
    taken = 0;
    pthread_t threads[] = {start(take_all, &ours), start(take_blocking, &ours),
                           start(take_blocking, &other), start(take_all, &other)};
    for (int i = 0; i < 4 * TURNS; i++) {
        put("abcdefg");
        if (i % 8 == 0)
            sched_yield();
    }
    SHOW(shutdown(peer, SHUT_WR));
    for (int i = 0; i < 4; i++)
        finish(threads[i]);
    SHOW(taken);
    close(other);
    close_both();
}

/* ---- The number of another connection ---- */

static void *read_one(void *unused)
{
    char byte = 0;
    SHOW(poll_for(ours, POLLIN, -1));
    SHOW(recv(ours, &byte, 1, 0));
    SHOW(byte);
    return unused;
}

static void *reuse_number(void *unused)
{
    for (int i = 0; i < 6; i++) {
        char bytes[8];
        connect_both();
        put("a");
        SHOW(poll_for(ours, POLLIN, -1));
        SHOW(recv(ours, bytes, sizeof bytes, 0));
        SHOW(poll_for(ours, POLLIN, 1));
        int old = ours, old_peer = peer, number = ours;
        connect_both();
        int fresh = ours;
        if (i % 3 == 0) {
            SHOW(dup2(fresh, number) == number);
        } else if (i % 3 == 1) {
            SHOW(close_range((unsigned)old, (unsigned)old, 0));
            SHOW(fcntl(fresh, F_DUPFD, number) == number);
        } else {
            SHOW(close(old));
            SHOW(dup(fresh) == number);
        }
        ours = number;
        put("b");
        read_one(NULL);
        pthread_t thread = start(read_one, NULL);
        put("c");
        finish(thread);
        close(fresh);
        close(old_peer);
        close_both();
    }
    return unused;
}

/* A thread that waits for what another one closes does not wait for ever. */
static void *read_end(void *unused)
{
    char byte;
    (void)unused;
    return read(ours, &byte, 1) <= 0 ? &ours : NULL;
}

static void test_closed_while_waiting(void)
{
    for (int i = 0; i < 2; i++) {
        int ends[2];
        if (pipe(ends))
            exit(99);
        ours = ends[0];
        pthread_t thread = start(read_end, NULL);
        sleep_ms(5);
        SHOW(i ? close_range((unsigned)ours, (unsigned)ours, 0) : close(ours));
        close(ends[1]);
        SHOW(finish(thread) != 0);
    }
}

/* ---- Ends, urgent data, and other ways to wait ---- */

static void *shut(void *unused)
{
    shutdown(ours, SHUT_RD);
    return unused;
}

static void test_ends(void)
{
    char bytes[16];
    connect_both();
    put("a");
    SHOW(poll_for(ours, POLLIN, -1));
    SHOW(recv(ours, bytes, sizeof bytes, 0));
    pthread_t thread = start(shut, NULL);
    SHOW(poll_for(ours, POLLIN | POLLRDHUP, -1));
    SHOW(recv(ours, bytes, sizeof bytes, 0));
    SHOW(finish(thread));
    close_both();
    connect_both();
    put("a");
    SHOW(poll_for(ours, POLLIN, -1));
    SHOW(recv(ours, bytes, sizeof bytes, 0));
    const struct linger at_once = {1, 0};
    setsockopt(peer, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(peer);
    SHOW(poll_for(ours, POLLIN, -1) > 0);
    SHOW_ERROR(recv(ours, bytes, sizeof bytes, 0));
    close(ours);
}

static void test_urgent(void)
{
    char bytes[16];
    connect_both();
    put("q");
    SHOW(poll_for(ours, POLLIN, -1));
    SHOW(recv(ours, bytes, sizeof bytes, 0));
    put("ab");
    SHOW(send(peer, "c", 1, MSG_OOB));
    put("de");
    SHOW(poll_for(ours, POLLPRI, -1));
    SHOW(poll_for(ours, POLLIN, -1) > 0);
    SHOW(recv(ours, bytes, sizeof bytes, 0));
    SHOW(poll_for(ours, POLLIN, -1) > 0);
    SHOW(recv(ours, bytes, sizeof bytes, MSG_OOB));
    SHOW(recv(ours, bytes, sizeof bytes, 0));
    put("f");
    SHOW(poll_for(ours, POLLIN, -1) > 0);
    SHOW(recv(ours, bytes, sizeof bytes, 0));
    close_both();
}

static void test_other_waits(void)
{
    char bytes[16];
    connect_both();
    for (int i = 0; i < 12; i++) {
        pthread_t thread = start(answer, NULL);
        SHOW(send(ours, "a", 1, 0));
        fd_set set;
        FD_ZERO(&set);
        FD_SET(ours, &set);
        if (i % 3 == 0)
            SHOW(select(ours + 1, &set, NULL, NULL, NULL));
        else if (i % 3 == 1)
            SHOW(poll_for(ours, POLLIN | POLLPRI | POLLRDHUP, -1));
        SHOW(recv(ours, bytes, sizeof bytes, 0));
        shutdown(ours, SHUT_WR);
        finish(thread);
        close_both();
        connect_both();
    }
    close_both();
}

int main(void)
{
    test_turns();
    test_parts();
    test_end_after_bytes();
    test_ignored();
    test_several();
    SHOW(finish(start(reuse_number, NULL)));
    test_closed_while_waiting();
    test_ends();
    test_urgent();
    test_other_waits();
    return 0;
}
