#include "tests/thread/fixture.h"

static int sockets[2];
static struct sockaddr_in addresses[2];

static void open_sockets(void)
{
    for (int i = 0; i < 2; i++) {
        socklen_t length = sizeof addresses[i];
        addresses[i] =
            (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        sockets[i] = gs_sys_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        MUST(sockets[i] >= 0);
        MUST_EQ(gs_sys_bind(sockets[i], (struct sockaddr *)&addresses[i], length), 0);
        MUST_EQ(gs_sys_getsockname(sockets[i], (struct sockaddr *)&addresses[i], &length), 0);
    }
}

static void close_sockets(void)
{
    for (int i = 0; i < 2; i++)
        gs_close(sockets[i]);
}

static ssize_t send_to(int which, const char *text)
{
    return gs_sendto(sockets[!which], text, strlen(text), 0, (struct sockaddr *)&addresses[which],
                     sizeof addresses[which], after(20 * GS_SECOND));
}

/* Answer each datagram, up to an empty one, with the same text. */
THREAD(echo_datagrams)
{
    char bytes[100];
    ssize_t n;
    do {
        struct sockaddr_storage from;
        socklen_t length = sizeof from;
        n = gs_recvfrom(sockets[0], bytes, sizeof bytes, 0, (struct sockaddr *)&from, &length,
                        after(20 * GS_SECOND));
        MUST(n >= 0);
        MUST_EQ(length, sizeof(struct sockaddr_in));
        MUST(!memcmp(&from, &addresses[1], sizeof addresses[1]));
        MUST_EQ(gs_sendto(sockets[0], bytes, (size_t)n, 0, (struct sockaddr *)&from, length,
                          after(20 * GS_SECOND)),
                n);
    } while (n);
}

THREAD_TEST(datagrams_are_exchanged_with_their_addresses, run_both)
{
    open_sockets();
    struct gs_thread *echo = spawn(echo_datagrams, NULL);
    const char *texts[] = {"one", "and another", ""};
    for (int i = 0; i < 3; i++) {
        char bytes[100];
        ssize_t n = (ssize_t)strlen(texts[i]);
        MUST_EQ(send_to(0, texts[i]), n);
        MUST_EQ(gs_recvfrom(sockets[1], bytes, sizeof bytes, 0, NULL, NULL, after(20 * GS_SECOND)),
                n);
        MUST(!memcmp(bytes, texts[i], (size_t)n));
    }
    join(echo);
    close_sockets();
}

static void *receive_canceled(void *unused)
{
    char byte;
    (void)unused;
    return (void *)(intptr_t)gs_recvfrom(sockets[0], &byte, 1, 0, NULL, NULL, GS_NEVER);
}

THREAD_TEST(datagram_is_waited_for_until_the_deadline_or_cancellation, run_both)
{
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    char bytes[4];
    open_sockets();
    struct sockaddr *address = (struct sockaddr *)&from;
    MUST_EQ(gs_recvfrom(sockets[0], bytes, 4, 0, address, &length, 0), -ETIMEDOUT);
    MUST_EQ(gs_recvfrom(sockets[0], bytes, 4, 0, address, &length, after(10 * GS_MILLISECOND)),
            -ETIMEDOUT);
    MUST_EQ(length, sizeof from);
    for (int i = 0; i < 2; i++) {
        struct gs_thread *thread = spawn(receive_canceled, NULL);
        if (i)
            MUST_EQ(gs_thread_sleep(after(20 * GS_MILLISECOND)), 0);
        gs_thread_cancel(thread);
        MUST_EQ((intptr_t)join(thread), -ECANCELED);
    }
    MUST_EQ(send_to(0, "too long"), 8);
    MUST_EQ(gs_recvfrom(sockets[0], bytes, 4, MSG_TRUNC, address, &length, after(20 * GS_SECOND)),
            8);
    MUST_EQ(length, sizeof(struct sockaddr_in));
    MUST_EQ(gs_sendto(sockets[0], "x", 1, 0, NULL, 0, GS_NEVER), -EDESTADDRREQ);
    MUST_EQ(gs_sendto(-1, "x", 1, 0, NULL, 0, GS_NEVER), -EBADF);
    close_sockets();
}

/* ---- A receiver whose queue is full ---- */

static struct sockaddr_un place; /* in the abstract namespace */
static socklen_t place_length;
static int queued;

/* The receiver is sockets[0]; `filler` has filled its queue. */
static int open_full_receiver(void)
{
    place = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(place.sun_path + 1, sizeof place.sun_path - 1, "gossamer-test-%d", getpid());
    place_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    int filler = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    for (int i = 0; i < 2; i++)
        sockets[i] = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    MUST_EQ(bind(sockets[0], (struct sockaddr *)&place, place_length), 0);
    MUST_EQ(connect(filler, (struct sockaddr *)&place, place_length), 0);
    for (queued = 0; send(filler, "filler", 6, MSG_DONTWAIT) == 6; queued++)
        ;
    return filler;
}

THREAD(empty_queue_later)
{
    char bytes[16];
    MUST_EQ(gs_thread_sleep(after(50 * GS_MILLISECOND)), 0);
    while (queued--)
        MUST_EQ(recv(sockets[0], bytes, sizeof bytes, MSG_DONTWAIT), 6);
}

static void must_receive_hello(void)
{
    char bytes[16];
    MUST_EQ(gs_recv(sockets[0], bytes, sizeof bytes, 0, after(20 * GS_SECOND)), 5);
    MUST(!memcmp(bytes, "hello", 5));
    MUST_EQ(gs_recv(sockets[0], bytes, sizeof bytes, 0, 0), -ETIMEDOUT);
}

THREAD(send_to_full_peer)
{
    for (int i = 0; i < 2; i++) {
        int filler = open_full_receiver();
        MUST_EQ(connect(sockets[1], (struct sockaddr *)&place, place_length), 0);
        struct gs_thread *receiver = spawn(empty_queue_later, NULL);
        ssize_t n = i ? gs_send(sockets[1], "hello", 5, 0, GS_NEVER)
                      : gs_sendto(sockets[1], "hello", 5, 0, NULL, 0, GS_NEVER);
        MUST_EQ(n, 5);
        join(receiver);
        must_receive_hello();
        gs_sys_close(filler);
        close_sockets();
    }
}

static atomic_uint tries;

static long count_tries(long number, void *data)
{
    (void)data;
    if (number == SYS_sendmsg)
        atomic_fetch_add(&tries, 1);
    return 0;
}

static ssize_t send_hello(uint64_t deadline_ns)
{
    return gs_sendto(sockets[1], "hello", 5, 0, (struct sockaddr *)&place, place_length,
                     deadline_ns);
}

static void *send_canceled(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)send_hello(GS_NEVER);
}

static void *receive_nothing(void *unused)
{
    char byte;
    (void)unused;
    return (void *)(intptr_t)gs_recv(sockets[1], &byte, 1, 0, GS_NEVER);
}

/* A thread that receives has the sender's socket watched, so that each try causes an event. */
THREAD(send_to_full_place)
{
    int filler = open_full_receiver();
    struct gs_thread *reader = spawn(receive_nothing, NULL);
    MUST_EQ(send_hello(0), -ETIMEDOUT);
    atomic_store(&tries, 0);
    MUST_EQ(send_hello(after(200 * GS_MILLISECOND)), -ETIMEDOUT);
    MUST(atomic_load(&tries) < 20);
    struct gs_thread *receiver = spawn(empty_queue_later, NULL);
    MUST_EQ(send_hello(GS_NEVER), 5);
    join(receiver);
    must_receive_hello();
    while (send(filler, "filler", 6, MSG_DONTWAIT) == 6)
        ;
    struct gs_thread *sender = spawn(send_canceled, NULL);
    MUST_EQ(gs_thread_sleep(after(20 * GS_MILLISECOND)), 0);
    gs_thread_cancel(sender);
    MUST_EQ((intptr_t)join(sender), -ECANCELED);
    sender = spawn(send_canceled, NULL);
    MUST_EQ(gs_thread_sleep(after(20 * GS_MILLISECOND)), 0);
    gs_close(sockets[1]); /* first: without a receiver, the error is another one */
    MUST_EQ((intptr_t)join(sender), -EBADF);
    MUST_EQ((intptr_t)join(reader), -EBADF);
    gs_close(sockets[0]);
    gs_sys_close(filler);
}

TEST(full_queue_of_the_receiver_does_not_keep_the_worker_busy)
{
    gs_sys_set_fault(count_tries, NULL);
    run_both(send_to_full_place);
    gs_sys_set_fault(NULL, NULL);
}

TEST(datagram_that_has_to_wait_is_sent_whole_by_every_poller)
{
    run_both(send_to_full_peer);
    setenv("GS_POLLER", "io_uring", 1);
    run_both(send_to_full_peer);
    unsetenv("GS_POLLER");
}
