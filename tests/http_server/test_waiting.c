/* Connections that wait for a request: they have no threads, and whatever ends a wait may meet
 * bytes that arrive at that moment. */
#include "tests/http_server/counted_waits.h"
#include "tests/http_server/serving.h"
#include "tests/thread/schedule/forking.h"

#include <gossamer/resumable.h>
#include <netinet/tcp.h>

#define GET "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
#define CLIENTS 24

static void greet(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    MUST_EQ(gs_http_respond(exchange, 200, NULL, "hello", 5), 0);
}

static uint64_t live_threads(void)
{
    struct gs_threads_stats stats;
    gs_threads_stats(&stats);
    return stats.live;
}

static void connect_all(int fds[CLIENTS])
{
    static struct heard heard;
    for (int i = 0; i < CLIENTS; i++) {
        heard.n = 0;
        fds[i] = connect_client();
        say(fds[i], GET);
        MUST_EQ(hear(fds[i], &heard, "hello"), 0);
    }
}

static void close_all(const int fds[CLIENTS])
{
    for (int i = 0; i < CLIENTS; i++)
        gs_close(fds[i]);
}

/* ---- No thread, no stack ---- */

THREAD(be_idle)
{
    int fds[CLIENTS];
    struct gs_threads_stats stats;
    uint64_t before = live_threads(), keepers = gs_threads_workers();
    start_server();
    connect_all(fds);
    /* A resumable counts as a thread: one for each connection, and no other. */
    while (live_threads() != before + 1 + keepers + CLIENTS)
        gs_thread_end_turn();
    gs_threads_stats(&stats);
    MUST(stats.stacks < CLIENTS || keepers > 1); /* each worker keeps some for reuse */
    close_all(fds);
    while (live_threads() != before + 1 + keepers)
        gs_thread_end_turn();
    stop_server();
}

TEST(connections_that_wait_have_no_stacks)
{
    serve_with(&(struct gs_http_server){.handler = greet}, be_idle);
}

SERVE_TEST(a_head_in_small_parts_needs_no_thread_for_each,
           (struct gs_http_server){.handler = greet})
{
    static const char head[] = GET;
    static struct heard heard;
    struct gs_threads_stats stats;
    int fds[CLIENTS];
    connect_all(fds);
    for (int i = 0; i < CLIENTS; i++)
        gs_sys_setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    for (size_t at = 0; head[at]; at++) {
        for (int i = 0; i < CLIENTS; i++)
            MUST_EQ(gs_send_all(fds[i], &head[at], 1, GS_NEVER), 1);
        gs_thread_end_turn();
    }
    for (int i = 0; i < CLIENTS; i++) {
        heard.n = 0;
        MUST_EQ(hear(fds[i], &heard, "hello"), 0);
        MUST_EQ(count_of(heard.bytes, "HTTP/1.1 200"), 1);
    }
    gs_threads_stats(&stats);
    MUST(stats.spawned < (uint64_t)10 * CLIENTS); /* not one for each byte */
    close_all(fds);
}

/* ---- Bytes that arrive as the wait ends ---- */

/* A request on a connection that may end meanwhile is answered completely, or not at all. */
static bool is_answered(int fd, struct heard *heard)
{
    (void)!gs_send_all(fd, GET, strlen(GET), after(PATIENCE_NS));
    hear_or_not(fd, heard);
    MUST(!heard->n || ends_with(heard->bytes, "\r\n\r\nhello"));
    return heard->n;
}

static void *meet_timeouts(void *number)
{
    struct heard *heard = malloc(sizeof *heard);
    MUST(heard);
    for (uintptr_t i = 0; i < 3; i++) {
        int fd = connect_client();
        while (is_answered(fd, heard))
            gs_thread_sleep(after((1 + ((uintptr_t)number + i) % 4) * GS_MILLISECOND / 2));
        gs_close(fd);
    }
    free(heard);
    return NULL;
}

SERVE_TEST(a_request_as_the_time_runs_out_is_answered_or_the_connection_is_closed,
           (struct gs_http_server){
               .handler = greet, .idle_timeout_ns = GS_MILLISECOND, .header_timeout_ns = GS_SECOND})
{
    struct gs_thread *clients[CLIENTS];
    for (uintptr_t i = 0; i < CLIENTS; i++)
        clients[i] = spawn(meet_timeouts, (void *)i);
    for (int i = 0; i < CLIENTS; i++)
        join(clients[i]);
}

/* The worker is busy until the time is over, but the request came before. */
static int other_client; /* -1: none */
static unsigned entered_busy;

static void ask_and_be_busy(struct gs_http_exchange *exchange, void *unused)
{
    char byte;
    int fd = other_client;
    other_client = -1;
    if (fd >= 0 && recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0) {
        MUST_EQ(send(fd, GET, strlen(GET), 0), (ssize_t)strlen(GET));
        uint64_t end_ns = gs_clock_now() + 2 * server.idle_timeout_ns;
        while (gs_clock_now() < end_ns)
            ;
        entered_busy++;
    }
    greet(exchange, unused);
}

THREAD(be_seen_late)
{
    static struct heard heard;
    start_server();
    for (entered_busy = 0; !entered_busy;) {
        other_client = -1;
        int busy = connect_client(), late = connect_client();
        MUST(is_answered(late, &heard));
        other_client = late;
        if (is_answered(busy, &heard) && entered_busy) {
            hear_or_not(late, &heard);
            MUST(ends_with(heard.bytes, "\r\n\r\nhello"));
        }
        gs_close(busy);
        gs_close(late);
    }
    stop_server();
}

TEST(a_request_that_arrives_in_time_is_served_although_the_worker_is_busy_until_later)
{
    server =
        (struct gs_http_server){.handler = ask_and_be_busy, .idle_timeout_ns = 20 * GS_MILLISECOND};
    run_with(1, be_seen_late);
}

static void *meet_drain(void *fd)
{
    struct heard *heard = malloc(sizeof *heard);
    MUST(heard);
    is_answered((int)(intptr_t)fd, heard);
    gs_close((int)(intptr_t)fd);
    free(heard);
    return NULL;
}

THREAD(drain_as_requests_arrive)
{
    struct gs_thread *clients[CLIENTS];
    int fds[CLIENTS];
    for (int round = 0; round < 6; round++) {
        start_server();
        connect_all(fds);
        for (intptr_t i = 0; i < CLIENTS; i++) {
            clients[i] = spawn(meet_drain, (void *)(intptr_t)fds[i]);
            if (i == (intptr_t)CLIENTS / 6 * round)
                gs_thread_cancel(server_thread);
        }
        MUST_EQ((intptr_t)join(server_thread), 0);
        gs_close(server_listener);
        for (int i = 0; i < CLIENTS; i++)
            join(clients[i]);
    }
}

TEST(a_request_as_the_server_drains_is_answered_or_the_connection_is_closed)
{
    for (int migrates = 0; migrates < 2; migrates++)
        serve_with(&(struct gs_http_server){.handler = greet,
                                            .migrates = migrates,
                                            .drain_timeout_ns = PATIENCE_NS},
                   drain_as_requests_arrive);
}

THREAD(drain_half_a_head)
{
    static struct heard heard;
    start_server();
    int half = connect_client(), other = connect_client();
    say(half, "GET / HT");
    say(other, GET);
    heard.n = 0;
    MUST_EQ(hear(other, &heard, "hello"), 0);
    stop_server();
    heard.n = 0;
    MUST_EQ(hear(half, &heard, NULL), 0);
    MUST_EQ(heard.n, 0);
    gs_close(half);
    gs_close(other);
}

TEST(half_a_head_is_waited_for_until_the_time_for_draining_is_over)
{
    serve_with(&(struct gs_http_server){.handler = greet, .drain_timeout_ns = 200 * GS_MILLISECOND},
               drain_half_a_head);
}

static struct gs_semaphore may_greet;

static void greet_and_go_on(struct gs_http_exchange *exchange, void *unused)
{
    greet(exchange, unused);
    MUST_EQ(gs_semaphore_wait(&may_greet, GS_NEVER), 0);
}

/* The keepers have ended the idle connection, and so have seen that the server drains. */
THREAD(drain_while_served)
{
    static struct heard heard;
    start_server();
    int served = connect_client(), idle = connect_client();
    say(served, GET);
    heard.n = 0;
    MUST_EQ(hear(served, &heard, "hello"), 0);
    gs_thread_cancel(server_thread);
    MUST_EQ(hear(idle, &heard, NULL), 0);
    gs_semaphore_post(&may_greet);
    heard.n = 0;
    MUST_EQ(hear(served, &heard, NULL), 0);
    gs_close(served);
    gs_close(idle);
    MUST_EQ((intptr_t)join(server_thread), 0);
    gs_close(server_listener);
}

TEST(a_connection_that_begins_to_wait_when_the_server_has_drained_is_closed)
{
    serve_with(&(struct gs_http_server){.handler = greet_and_go_on, .drain_timeout_ns = GS_NEVER},
               drain_while_served);
}

/* ---- Giving way ---- */

static atomic_bool may_end;

static void greet_from_worker(struct gs_http_exchange *exchange, void *unused)
{
    char text[] = "hello from 0";
    (void)unused;
    while (exchange->path[1] && !atomic_load(&may_end))
        ;
    text[sizeof text - 2] = (char)('0' + gs_threads_worker());
    MUST_EQ(gs_http_respond(exchange, 200, NULL, text, sizeof text - 1), 0);
}

/* A connection that waits at the worker, which knows that it does: so the order of calls is that in
 * which connections may give way. */
static int connect_at(unsigned worker)
{
    static struct heard heard;
    for (;;) {
        unsigned known = atomic_load(&waits[GS_HTTP_WAITS_NEXT]);
        int fd = connect_client();
        say(fd, GET);
        heard.n = 0;
        MUST_EQ(hear(fd, &heard, "hello from "), 0);
        await_waits(GS_HTTP_WAITS_NEXT, known + 1);
        if (worker == (unsigned)(heard.bytes[heard.n - 1] - '0'))
            return fd;
        gs_close(fd);
    }
}

static void close_three(int a, int b, int c)
{
    gs_close(a);
    gs_close(b);
    gs_close(c);
}

/* The oldest connection waits at a worker that has become busy, the next one at the caller's. After
 * a second both may give way. */
struct crowd {
    unsigned here;
    int oldest, next, busy;
};

static struct crowd crowd_two_workers(void)
{
    struct crowd crowd = {.here = gs_threads_worker()};
    unsigned there = 3 - crowd.here;
    const struct gs_thread_attributes beside = {.worker = crowd.here};
    atomic_store(&may_end, false);
    server_listener = listen_anywhere(&server_address);
    MUST_EQ(gs_thread_spawn(&beside, run_server, NULL, &server_thread), 0);
    /* After a second the oldest one may give way to another that connects. */
    for (;;) {
        uint64_t end_ns = after(GS_SECOND / 2);
        crowd.oldest = connect_at(there);
        crowd.next = connect_at(crowd.here);
        crowd.busy = connect_at(there);
        if (gs_clock_now() < end_ns)
            break;
        close_three(crowd.oldest, crowd.next, crowd.busy);
    }
    say(crowd.busy, "GET /busy HTTP/1.1\r\nHost: h\r\n\r\n");
    gs_thread_sleep(after(GS_SECOND + 10 * GS_MILLISECOND));
    return crowd;
}

static void leave(const struct crowd *crowd, int fd)
{
    close_three(crowd->oldest, crowd->next, crowd->busy);
    gs_close(fd);
    stop_server();
}

THREAD(give_way_beside_a_busy_worker)
{
    static struct heard heard;
    const struct crowd crowd = crowd_two_workers();
    int fd = connect_at(crowd.here);
    MUST_EQ(hear(crowd.next, &heard, NULL), 0); /* it gave way */
    atomic_store(&may_end, true);
    heard.n = 0;
    MUST_EQ(hear(crowd.busy, &heard, "hello"), 0);
    leave(&crowd, fd);
}

TEST(connections_of_a_busy_worker_do_not_keep_others_from_giving_way)
{
    server = (struct gs_http_server){.handler = greet_from_worker, .max_connections = 3};
    run_with(2, give_way_beside_a_busy_worker);
}

/* The client's place is looked for again and again while the worker is late. */
THREAD(give_way_late)
{
    static struct heard heard;
    const struct crowd crowd = crowd_two_workers();
    int fd = connect_client();
    say(fd, GET);
    gs_thread_sleep(after(100 * GS_MILLISECOND));
    atomic_store(&may_end, true);
    heard.n = 0;
    MUST_EQ(hear(fd, &heard, "hello"), 0);
    heard.n = 0;
    MUST_EQ(hear(crowd.oldest, &heard, NULL), 0); /* it gave way, and no other */
    heard.n = 0;
    say(crowd.next, GET);
    MUST_EQ(hear(crowd.next, &heard, "hello"), 0);
    leave(&crowd, fd);
}

TEST(one_connection_gives_way_to_one_client_although_its_worker_is_late)
{
    server = (struct gs_http_server){.handler = greet_from_worker, .max_connections = 3};
    run_with(2, give_way_late);
}

THREAD(leave_a_place_free)
{
    static struct heard heard;
    int fds[3];
    start_server();
    for (int i = 0; i < 3; i++) {
        fds[i] = connect_client();
        heard.n = 0;
        say(fds[i], GET);
        MUST_EQ(hear(fds[i], &heard, "hello"), 0);
        if (i == 1) {
            gs_close(fds[0]);
            gs_thread_sleep(after(GS_SECOND + 10 * GS_MILLISECOND));
        }
    }
    gs_thread_sleep(after(5 * GS_MILLISECOND));
    MUST(is_answered(fds[1], &heard));
    gs_close(fds[1]);
    gs_close(fds[2]);
    stop_server();
}

TEST(no_connection_gives_way_when_a_place_is_free)
{
    server = (struct gs_http_server){.handler = greet, .max_connections = 2};
    run_with(1, leave_a_place_free);
}

/* ---- A child of fork ---- */

static void fork_and_greet(struct gs_http_exchange *exchange, void *unused)
{
    pid_t pid = exchange->path[1] ? gs_fork() : 0;
    int status = -1;
    MUST(pid >= 0);
    if (!pid) {
        greet(exchange, unused);
        return;
    }
    uint64_t end_ns = after(PATIENCE_NS);
    while (!gs_sys_wait4(pid, &status, WNOHANG) && gs_clock_now() < end_ns)
        gs_thread_sleep(after(GS_MILLISECOND));
    MUST_EQ(status, 0);
    gs_thread_exit(NULL);
}

THREAD(serve_in_a_child)
{
    static struct heard heard;
    start_server();
    int idle = connect_client(), forking = connect_client();
    MUST(is_answered(idle, &heard));
    heard.n = 0;
    say(forking, "GET /fork HTTP/1.1\r\nHost: h\r\n\r\n");
    MUST_EQ(hear(forking, &heard, NULL), 0);
    MUST(ends_with(heard.bytes, "\r\n\r\nhello"));
    MUST(is_answered(idle, &heard));
    gs_close(idle);
    gs_close(forking);
    stop_server();
}

TEST(in_a_child_of_fork_a_connection_ends_with_its_request)
{
    if (GS_TSAN || IS_EMULATED || IS_GCC_ASAN)
        return; /* for the reasons in forking.h */
    pid_t pid = getpid();
    server = (struct gs_http_server){.handler = fork_and_greet};
    run_unwatched(1, serve_in_a_child);
    if (getpid() != pid)
        _exit(0); /* the run has ended in the child */
}

/* ---- No memory for a thread ---- */

static atomic_uint entered;

static void greet_later(struct gs_http_exchange *exchange, void *unused)
{
    atomic_fetch_add(&entered, 1);
    MUST_EQ(gs_semaphore_wait(&may_greet, GS_NEVER), 0);
    greet(exchange, unused);
}

static void let_greet(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        gs_semaphore_post(&may_greet);
}

static atomic_bool are_refused;
static atomic_uint refusals;

static long refuse_stacks(long number, void *unused)
{
    (void)unused;
    if (number != SYS_mmap || !atomic_load(&are_refused))
        return 0;
    atomic_fetch_add(&refusals, 1);
    return -ENOMEM;
}

/* Requests on all connections at once; as many are answered as there are stacks. */
THREAD(want_threads)
{
    static struct heard heard;
    int fds[CLIENTS];
    unsigned answered = 0;
    start_server();
    let_greet(CLIENTS);
    connect_all(fds);
    atomic_store(&entered, 0);
    atomic_store(&refusals, 0);
    atomic_store(&are_refused, true);
    for (int i = 0; i < CLIENTS; i++)
        say(fds[i], GET);
    while (atomic_load(&refusals) + atomic_load(&entered) < CLIENTS)
        gs_thread_end_turn();
    atomic_store(&are_refused, false);
    let_greet(CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        hear_or_not(fds[i], &heard);
        answered += heard.n > 0;
    }
    MUST_EQ(answered, atomic_load(&entered));
    MUST(answered < CLIENTS);
    while (!gs_semaphore_wait(&may_greet, 0))
        ;
    close_all(fds);
    let_greet(CLIENTS);
    connect_all(fds); /* no place was lost */
    close_all(fds);
    stop_server();
}

TEST(without_memory_for_its_thread_a_request_ends_its_connection)
{
    gs_sys_set_fault(refuse_stacks, NULL);
    serve_with(&(struct gs_http_server){.handler = greet_later,
                                        .max_connections = CLIENTS,
                                        .stack_size = 4 << 20},
               want_threads);
    gs_sys_set_fault(NULL, NULL);
}

/* ---- The end of the run ---- */

THREAD(wait_for_each_other)
{
    int fds[CLIENTS];
    start_server();
    let_greet(CLIENTS);
    connect_all(fds);
    while (!gs_semaphore_wait(&may_greet, 0))
        ;
    atomic_store(&entered, 0);
    say(fds[0], GET);
    while (!atomic_load(&entered))
        gs_thread_end_turn();
    gs_thread_cancel(server_thread);
    (void)!gs_thread_join(server_thread, GS_NEVER, NULL);
}

/* In a child, which does not free what the threads had. */
TEST(handlers_that_wait_for_nobody_are_a_deadlock_when_the_server_drains)
{
    for (unsigned workers = 1; workers < 4; workers += 2) {
        pid_t pid = fork();
        if (!pid) {
            const struct gs_threads_options options = {.workers = workers};
            server = (struct gs_http_server){.handler = greet_later, .drain_timeout_ns = GS_NEVER};
            _exit(gs_threads_run(&options, wait_for_each_other, NULL, NULL) != -EDEADLK);
        }
        int status;
        CHECK_EQ(waitpid(pid, &status, 0), pid);
        CHECK_EQ(status, 0);
    }
}
