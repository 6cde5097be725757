/* Accepts that would find no connection are not tried. */
#include "tests/thread/io/connection.h"

#define CLIENTS 3

static atomic_uint accepts;
static int listener;
static struct sockaddr_in address;
static int clients[CLIENTS], accepted[CLIENTS];

static long count_accepts(long number, void *unused)
{
    (void)unused;
    atomic_fetch_add(&accepts, number == SYS_accept4);
    return 0;
}

static void connect_client(unsigned i)
{
    clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST(clients[i] >= 0);
    MUST_EQ(connect(clients[i], (struct sockaddr *)&address, sizeof address), 0);
}

static void close_all(void)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        gs_close(accepted[i]);
        gs_sys_close(clients[i]);
    }
    gs_close(listener);
}

static int accept_until(uint64_t deadline_ns)
{
    return gs_accept(listener, NULL, NULL, SOCK_CLOEXEC, deadline_ns);
}

/* Whether the kernel tells the lengths of accept queues; an emulator does not. */
static bool lengths_are_known(void)
{
    struct sockaddr_in unused;
    int fd = listen_anywhere(&unused);
    bool is_known = gs_sys_accept_queue(fd) == 0;
    gs_sys_close(fd);
    return is_known;
}

THREAD(accept_those_there)
{
    listener = listen_anywhere(&address);
    for (unsigned i = 0; i < CLIENTS; i++)
        connect_client(i);
    for (unsigned i = 0; i < CLIENTS; i++) {
        accepted[i] = accept_until(i ? GS_NEVER : 0);
        MUST(accepted[i] >= 0);
    }
    MUST_EQ(accept_until(0), -ETIMEDOUT);
    MUST_EQ(accept_until(after(GS_MILLISECOND)), -ETIMEDOUT);
    MUST_EQ(accept_until(0), -ETIMEDOUT);
    close_all();
}

TEST(empty_accept_queue_is_not_tried)
{
    if (!lengths_are_known())
        SKIP("the kernel does not tell the length of an accept queue");
    for (unsigned workers = 1; workers <= 2; workers++) {
        const struct gs_threads_options options = {.workers = workers};
        atomic_store(&accepts, 0);
        gs_sys_set_fault(count_accepts, NULL);
        CHECK_EQ(gs_threads_run(&options, accept_those_there, NULL, NULL), 0);
        gs_sys_set_fault(NULL, NULL);
        CHECK(atomic_load(&accepts) <= CLIENTS);
    }
}

THREAD(accept_each)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        accepted[i] = accept_until(GS_NEVER);
        MUST(accepted[i] >= 0);
    }
}

/* The thread waits for each of them, after it has found that there are no more. */
THREAD_TEST(connection_that_comes_later_is_accepted, run_both)
{
    listener = listen_anywhere(&address);
    struct gs_thread *acceptor = spawn(accept_each, NULL);
    for (unsigned i = 0; i < CLIENTS; i++) {
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
        connect_client(i);
    }
    join(acceptor);
    close_all();
}

/* The connections that were known to wait have been taken by another process, as it were. */
THREAD_TEST(connection_taken_by_others_is_no_error, run_both)
{
    listener = listen_anywhere(&address);
    for (unsigned i = 0; i < CLIENTS; i++)
        connect_client(i);
    accepted[0] = accept_until(0);
    accepted[1] = gs_sys_accept(listener, NULL, NULL, SOCK_CLOEXEC);
    accepted[2] = gs_sys_accept(listener, NULL, NULL, SOCK_CLOEXEC);
    MUST(accepted[0] >= 0 && accepted[1] >= 0 && accepted[2] >= 0);
    MUST_EQ(accept_until(0), -ETIMEDOUT);
    MUST_EQ(accept_until(after(GS_MILLISECOND)), -ETIMEDOUT);
    close_all();
}

/* A call on a number that is not open finds out nothing about the file that gets it then. */
THREAD(accept_before_and_after_it_listens)
{
    const struct sockaddr_un unnamed = {.sun_family = AF_UNIX};
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST_EQ(close(listener), 0);
    MUST_EQ(accept_until(GS_NEVER), -EBADF);
    MUST_EQ(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), listener);
    MUST_EQ(bind(listener, (const struct sockaddr *)&unnamed, sizeof(sa_family_t)), 0);
    MUST_EQ(listen(listener, 1), 0);
    MUST_EQ(accept_until(after(GS_MILLISECOND)), -ETIMEDOUT);
    gs_close(listener);
}

TEST(accept_of_a_number_that_is_not_open_has_no_effect_on_the_next_file)
{
    for (unsigned workers = 1; workers < 4; workers += 2)
        run_unwatched(workers, accept_before_and_after_it_listens);
}

TEST(length_of_an_accept_queue)
{
    const struct sockaddr_un unnamed = {.sun_family = AF_UNIX};
    listener = listen_anywhere(&address);
    CHECK_EQ(gs_sys_accept_queue(listener), lengths_are_known() ? 0 : 1); /* 1: unknown */
    for (unsigned i = 0; i < CLIENTS; i++)
        connect_client(i);
    CHECK_EQ(gs_sys_accept_queue(listener), lengths_are_known() ? CLIENTS : 1);
    CHECK_EQ(gs_sys_accept_queue(clients[0]), 1); /* does not listen */
    CHECK_EQ(gs_sys_accept_queue(-1), 1);
    for (unsigned i = 0; i < CLIENTS; i++)
        gs_sys_close(clients[i]);
    gs_sys_close(listener);
    listener = gs_sys_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(gs_sys_bind(listener, (const struct sockaddr *)&unnamed, sizeof(sa_family_t)), 0);
    CHECK_EQ(gs_sys_listen(listener, 1), 0);
    CHECK_EQ(gs_sys_accept_queue(listener), 1); /* unknown */
    gs_sys_close(listener);
}
