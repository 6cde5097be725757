/* The life of a server: many clients, limits, exhaustion, and its end. */
#include "tests/http_server/counted_waits.h"
#include "tests/http_server/serving.h"
#include "thread/schedule/worker.h"

#define GET "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
#define CLIENTS 20

static void start_counting_server(void)
{
    for (int i = 0; i < GS_HTTP_WAITS; i++)
        atomic_store(&waits[i], 0);
    start_server();
}

static void greet(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    MUST_EQ(gs_http_respond(exchange, 200, NULL, "hello", 5), 0);
}

/* While others wait for a place, a connection that has been silent for a second is closed. On a
 * busy machine its client may be about to ask again: then it connects again. */
THREAD(be_client)
{
    struct heard *heard = malloc(sizeof *heard);
    MUST(heard);
    int fd = connect_client();
    uint64_t asked_ns = gs_clock_now();
    for (int answers = 0; answers < 30;) {
        uint64_t silent_since_ns = asked_ns;
        asked_ns = gs_clock_now();
        (void)!gs_send_all(fd, GET, strlen(GET), after(PATIENCE_NS));
        hear_or_not(fd, heard);
        if (ends_with(heard->bytes, "hello")) {
            answers++;
            continue;
        }
        MUST(server.max_connections && !heard->n && after(0) - silent_since_ns >= GS_SECOND);
        gs_close(fd);
        fd = connect_client();
    }
    gs_close(fd);
    free(heard);
}

THREAD(be_clients)
{
    struct gs_thread *clients[CLIENTS];
    start_server();
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = spawn(be_client, NULL);
    for (int i = 0; i < CLIENTS; i++)
        join(clients[i]);
    stop_server();
}

TEST(many_clients_are_served_at_the_same_time)
{
    serve_with(&(struct gs_http_server){.handler = greet}, be_clients);
}

TEST(connections_may_migrate)
{
    serve_with(&(struct gs_http_server){.handler = greet, .migrates = true}, be_clients);
}

TEST(more_clients_than_connections_are_served_one_after_the_other)
{
    serve_with(&(struct gs_http_server){.handler = greet, .max_connections = 2}, be_clients);
}

/* They say nothing, or begin a request, and do not close. */
THREAD(be_clients_among_silent_ones)
{
    static struct heard heard;
    int silent[3], fds[2];
    char byte;
    start_counting_server();
    for (int i = 0; i < 3; i++)
        silent[i] = connect_client();
    await_waits(GS_HTTP_WAITS_FIRST, 3);
    say(silent[1], "G");
    await_waits(GS_HTTP_WAITS_HEAD, 1);
    say(silent[2], "GET / HT");
    await_waits(GS_HTTP_WAITS_HEAD, 2);
    for (int i = 0; i < 2; i++) {
        fds[i] = connect_client();
        heard.n = 0;
        say(fds[i], GET);
        MUST_EQ(hear(fds[i], &heard, "hello"), 0);
        MUST_EQ(gs_recv(silent[i], &byte, 1, 0, GS_NEVER), 0); /* it gave way */
        say(fds[i], "G"); /* the last one to give way, however long all this takes */
        await_waits(GS_HTTP_WAITS_HEAD, 3 + (unsigned)i);
    }
    heard.n = 0;
    say(silent[2], "TP/1.1\r\nHost: h\r\n\r\n"); /* it did not: its request began later */
    MUST_EQ(hear(silent[2], &heard, "hello"), 0);
    for (int i = 0; i < 3; i++)
        gs_close(silent[i]);
    for (int i = 0; i < 2; i++)
        gs_close(fds[i]);
    stop_server();
}

TEST(silent_connections_give_way_to_clients_idle_ones_first)
{
    serve_with(&(struct gs_http_server){.handler = greet, .max_connections = 3},
               be_clients_among_silent_ones);
}

SERVE_TEST(servers_with_the_same_listener_end_one_by_one, (struct gs_http_server){.handler = greet})
{
    struct gs_thread *first = server_thread;
    server_thread = spawn(run_server, NULL);
    be_client(NULL);
    gs_thread_cancel(first);
    MUST_EQ((intptr_t)join(first), 0);
    be_client(NULL);
}

/* ---- Exhaustion ---- */

static _Atomic(unsigned) accepts;

static long refuse_accepts(long number, void *error)
{
    return number == SYS_accept4 && accepts++ < 5 ? *(const int *)error : 0;
}

static void *be_accepted_late(void *error)
{
    accepts = 0;
    start_server();
    gs_sys_set_fault(refuse_accepts, error);
    be_client(NULL);
    gs_sys_set_fault(NULL, NULL);
    MUST(accepts > 5);
    stop_server();
    return NULL;
}

TEST(connections_wait_while_descriptors_or_memory_are_exhausted)
{
    static int errors[] = {-EMFILE, -ENFILE, -ENOMEM, -ENOBUFS, -ECONNABORTED};
    server = (struct gs_http_server){.handler = greet};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        CHECK_EQ(gs_threads_run(NULL, be_accepted_late, &errors[i], NULL), 0);
}

THREAD(serve_nothing)
{
    struct gs_http_server no_handler = {0};
    struct sockaddr_in address;
    int listener = listen_anywhere(&address);
    int other = gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST_EQ(gs_http_serve(listener, &no_handler), -EINVAL);
    MUST_EQ(gs_http_serve(other, &server), -EINVAL);
    MUST_EQ(gs_http_serve(-1, &server), -EBADF);
    MUST_EQ(gs_http_serve(0, &server), -ENOTSOCK);
    gs_sys_close(other);
    gs_close(listener);
}

TEST(what_does_not_listen_is_an_error)
{
    int fd = open("/dev/null", O_RDONLY);
    CHECK(fd >= 0 && dup2(fd, 0) == 0);
    serve_with(&(struct gs_http_server){.handler = greet}, serve_nothing);
    close(fd);
}

THREAD(close_listener)
{
    start_server();
    be_client(NULL);
    gs_close(server_listener);
    MUST_EQ((intptr_t)join(server_thread), -EBADF);
}

TEST(closing_the_listener_ends_the_server)
{
    serve_with(&(struct gs_http_server){.handler = greet}, close_listener);
}

/* ---- Draining ---- */

static struct gs_semaphore entered, may_answer;
static atomic_int handler_result;

static void answer_later(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    gs_semaphore_post(&entered);
    atomic_store(&handler_result, gs_semaphore_wait(&may_answer, GS_NEVER));
    (void)!gs_http_respond(exchange, 200, NULL, "done", 4);
}

static void *drain(void *unused)
{
    static struct heard heard;
    start_server();
    int new = connect_client(), busy = connect_client(), idle = connect_client();
    say(idle, GET);
    gs_semaphore_post(&may_answer);
    heard.n = 0;
    MUST_EQ(hear(idle, &heard, "done"), 0);
    say(busy, GET);
    MUST_EQ(gs_semaphore_wait(&entered, GS_NEVER), 0);
    MUST_EQ(gs_semaphore_wait(&entered, GS_NEVER), 0);
    gs_thread_cancel(server_thread);
    heard.n = 0;
    MUST_EQ(hear(idle, &heard, NULL), 0);
    MUST_EQ(hear(new, &heard, NULL), 0);
    MUST_EQ(heard.n, 0);
    gs_semaphore_post(&may_answer);
    MUST_EQ(hear(busy, &heard, NULL), 0);
    MUST_CONTAIN(heard.bytes, "Connection: close\r\nContent-Length: 4\r\n\r\ndone");
    MUST_EQ(atomic_load(&handler_result), 0);
    gs_close(new);
    gs_close(busy);
    gs_close(idle);
    MUST_EQ((intptr_t)join(server_thread), 0);
    gs_close(server_listener);
    return unused;
}

TEST(draining_server_closes_idle_connections_and_completes_the_others)
{
    serve_with(&(struct gs_http_server){.handler = answer_later, .drain_timeout_ns = PATIENCE_NS},
               drain);
}

THREAD(drain_too_long)
{
    start_server();
    int fd = connect_client();
    say(fd, GET);
    MUST_EQ(gs_semaphore_wait(&entered, GS_NEVER), 0);
    stop_server();
    MUST_EQ(atomic_load(&handler_result), -ECANCELED);
    gs_close(fd);
}

TEST(handlers_are_canceled_when_the_time_for_draining_is_over)
{
    serve_with(
        &(struct gs_http_server){.handler = answer_later, .drain_timeout_ns = 20 * GS_MILLISECOND},
        drain_too_long);
}

THREAD(cancel_everything)
{
    start_server();
    int busy = connect_client(), idle = connect_client();
    say(busy, GET);
    MUST_EQ(gs_semaphore_wait(&entered, GS_NEVER), 0);
    gs_threads_cancel_all();
    MUST_EQ((intptr_t)join(server_thread), 0);
    gs_close(server_listener);
    gs_close(busy);
    gs_close(idle);
}

TEST(cancellation_of_all_threads_ends_the_server)
{
    serve_with(&(struct gs_http_server){.handler = answer_later}, cancel_everything);
}

/* ---- A request that arrives while the server begins to drain ---- */

static void echo(struct gs_http_exchange *exchange, void *unused)
{
    char bytes[10];
    (void)unused;
    ssize_t n = gs_http_read_all(exchange, bytes, sizeof bytes);
    if (n >= 0)
        MUST_EQ(gs_http_respond(exchange, 200, NULL, bytes, (size_t)n), 0);
}

#define POST_HEAD "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n"

THREAD(post_while_draining)
{
    static struct heard heard;
    start_counting_server();
    heard.n = 0;
    int fd = connect_client();
    say(fd, POST_HEAD "ab");
    MUST_EQ(hear(fd, &heard, "ab"), 0);
    await_waits(GS_HTTP_WAITS_NEXT, 1);
    /* With one worker, the server drains before this head is seen. */
    heard.n = 0;
    say(fd, POST_HEAD);
    gs_thread_cancel(server_thread);
    gs_thread_sleep(after(5 * GS_MILLISECOND));
    say(fd, "xy");
    MUST_EQ(hear(fd, &heard, NULL), 0);
    MUST_CONTAIN(heard.bytes, "HTTP/1.1 200 OK");
    MUST(ends_with(heard.bytes, "\r\n\r\nxy"));
    gs_close(fd);
    MUST_EQ((intptr_t)join(server_thread), 0);
    gs_close(server_listener);
}

TEST(draining_server_still_receives_the_body_of_a_request_that_has_begun)
{
    serve_with(&(struct gs_http_server){.handler = echo, .drain_timeout_ns = PATIENCE_NS},
               post_while_draining);
}

/* The head of a request arrives while the draining server looks for one, just before this system
 * call of the connection's worker, on the worker's own stack. The monitor makes such calls, too. A
 * head that the server finds must not be cut from its body. After that the request is not served at
 * all. */
static int late_client;
static atomic_long awaited_call = -1; /* -1: it was made */
static atomic_int echoes;

static void count_and_echo(struct gs_http_exchange *exchange, void *unused)
{
    atomic_fetch_add(&echoes, 1);
    echo(exchange, unused);
}

static long send_head(long number, void *unused)
{
    (void)unused;
    if (atomic_load(&awaited_call) != number || gs_thread_self() || !worker_current() ||
        !atomic_compare_exchange_strong(&awaited_call, &number, -1))
        return 0;
    MUST_EQ(send(late_client, POST_HEAD, strlen(POST_HEAD), 0), (ssize_t)strlen(POST_HEAD));
    uint64_t end_ns = gs_clock_now() + 50 * GS_MILLISECOND;
    while (atomic_load(&echoes) < 2 && gs_clock_now() < end_ns)
        ;
    return 0;
}

/* What is heard after the first request. */
static struct heard late_heard;

static void send_head_at(long call)
{
    start_counting_server();
    late_heard.n = 0;
    atomic_store(&echoes, 0);
    late_client = connect_client();
    say(late_client, POST_HEAD "ab");
    MUST_EQ(hear(late_client, &late_heard, "ab"), 0);
    await_waits(GS_HTTP_WAITS_NEXT, 1);
    late_heard.n = 0;
    atomic_store(&awaited_call, call);
    gs_thread_cancel(server_thread);
    while (atomic_load(&awaited_call) >= 0)
        gs_thread_sleep(after(GS_MILLISECOND));
    gs_thread_sleep(after(5 * GS_MILLISECOND));
    (void)!gs_send(late_client, "xy", 2, 0, after(PATIENCE_NS));
    int err = hear(late_client, &late_heard, NULL);
    MUST(!err || err == -ECONNRESET);
    gs_close(late_client);
    MUST_EQ((intptr_t)join(server_thread), 0);
    gs_close(server_listener);
}

THREAD(send_heads_while_draining)
{
    send_head_at(SYS_recvfrom);
    MUST(ends_with(late_heard.bytes, "\r\n\r\nxy"));
    send_head_at(SYS_close);
    MUST_EQ(late_heard.n, 0);
    MUST_EQ(atomic_load(&echoes), 1);
}

TEST(a_head_that_arrives_while_the_server_looks_for_it_is_not_cut_from_its_body)
{
    gs_sys_set_fault(send_head, NULL);
    serve_with(&(struct gs_http_server){.handler = count_and_echo,
                                        .migrates = true,
                                        .drain_timeout_ns = PATIENCE_NS},
               send_heads_while_draining);
    gs_sys_set_fault(NULL, NULL);
}

#define CONNECTS_MAX 100000

static _Atomic(int) connects;
static _Atomic(bool) is_connecting;

/* With each connection that is accepted, another one becomes pending. */
static long connect_another(long number, void *unused)
{
    const struct linger reset = {.l_onoff = 1};
    (void)unused;
    if (number != SYS_accept4 || !is_connecting || connects == CONNECTS_MAX)
        return 0;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&server_address, sizeof server_address))
        return 0;
    connects++;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(fd);
    return 0;
}

THREAD(drain_under_load)
{
    start_server();
    is_connecting = true;
    be_client(NULL);
    gs_thread_cancel(server_thread);
    MUST_EQ((intptr_t)join(server_thread), 0);
    MUST(connects < CONNECTS_MAX);
    gs_close(server_listener);
}

TEST(draining_ends_although_clients_connect_as_fast_as_they_are_accepted)
{
    server = (struct gs_http_server){.handler = greet, .drain_timeout_ns = 20 * GS_MILLISECOND};
    gs_sys_set_fault(connect_another, NULL);
    run_with(3, drain_under_load);
    gs_sys_set_fault(NULL, NULL);
}

/* ---- Handlers that end their thread ---- */

/* Threads end together: a place among the connections is free before the values are destroyed. */
static atomic_int values_destroyed;

static void destroy_value(void *value)
{
    gs_thread_sleep(after(GS_MILLISECOND));
    ++*(atomic_int *)value;
}

static int exit_key;

static void exit_thread(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    MUST_EQ(gs_thread_set_value(exit_key, &values_destroyed), 0);
    if (exchange->path[1] == 'c')
        MUST_EQ(gs_http_respond(exchange, 200, NULL, "complete", 8), 0);
    if (exchange->path[1] == 'i') {
        MUST_EQ(gs_http_start(exchange, 200, NULL, GS_HTTP_UNKNOWN), 0);
        MUST_EQ(gs_http_write(exchange, "incomplete", 10), 0);
    }
    gs_thread_exit(NULL);
}

THREAD(meet_exiting_handlers)
{
    static struct heard heard;
    values_destroyed = 0;
    start_server();
    MUST(ends_with(ask("GET /c HTTP/1.1\r\nHost: h\r\n\r\n"), "\r\n\r\ncomplete"));
    MUST_EQ(strcmp(ask(GET), ""), 0);
    int fd = connect_client();
    say(fd, "GET /i HTTP/1.1\r\nHost: h\r\n\r\n");
    heard.n = 0;
    MUST_EQ(hear(fd, &heard, NULL), -ECONNRESET);
    gs_close(fd);
    stop_server();
    MUST_EQ(values_destroyed, 3);
}

TEST(handler_that_ends_its_thread_ends_its_connection_only)
{
    exit_key = gs_thread_key_new(destroy_value);
    serve_with(&(struct gs_http_server){.handler = exit_thread, .max_connections = 1},
               meet_exiting_handlers);
}
