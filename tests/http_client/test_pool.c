/* Kept connections: which are used again, which are not, and how many there are. */
#include "tests/http_client/scripted.h"

static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

SCRIPT_TEST(a_connection_whose_body_was_not_read_is_kept_if_it_has_arrived)
{
    script.reply = ok;
    for (int i = 0; i < 3; i++)
        gs_http_response_free(get("/"));
    MUST_EQ(connection_count, 1);
    script.reply = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nok";
    for (int i = 0; i < 3; i++)
        gs_http_response_free(get("/"));
    MUST_EQ(connection_count, 3);
}

/* Serve one request for each connection, and close then, without having said so. */
static void serve_one(int fd, unsigned number)
{
    (void)number;
    if (next_request(fd))
        say(fd, ok);
}

SCRIPT_TEST(a_kept_connection_that_was_closed_is_not_used)
{
    script.serve = serve_one;
    for (unsigned i = 1; i <= 3; i++) {
        must_get("/", "ok");
        MUST_EQ(gs_wait_group_wait(&script_connections, after(PATIENCE_NS)), 0);
        MUST_EQ(connection_count, i);
    }
}

/* Serve a request, and break the connection at the second. */
static bool has_begun_answer;
static void break_second(int fd, unsigned number)
{
    if (!next_request(fd))
        return;
    say(fd, ok);
    if (number % 2 == 0 && next_request(fd) && has_begun_answer)
        say(fd, "H");
    else if (number % 2)
        while (next_request(fd))
            say(fd, ok);
}

static int fetch_error(const char *method, const char *body, gs_reader_fn *read_body)
{
    struct gs_http_response *response = NULL;
    const struct gs_http_client_request request = {.method = method,
                                                   .url = url_of("/"),
                                                   .body = body,
                                                   .body_n = body ? strlen(body) : 0,
                                                   .read_body = read_body};
    int err = gs_http_fetch(client, &request, after(PATIENCE_NS), &response);
    gs_http_response_free(response);
    return err;
}

static ssize_t read_nothing(void *data, void *bytes, size_t n, uint64_t deadline_ns)
{
    (void)data, (void)bytes, (void)n, (void)deadline_ns;
    return 0;
}

SCRIPT_TEST(a_request_on_a_kept_connection_is_repeated_once_if_that_is_safe)
{
    static const struct {
        const char *method, *body;
        gs_reader_fn *read_body;
        bool is_repeated;
    } cases[] = {{"GET", NULL, NULL, true},         {"HEAD", NULL, NULL, true},
                 {"PUT", "data", NULL, true},       {"DELETE", NULL, NULL, true},
                 {"OPTIONS", NULL, NULL, true},     {"POST", "data", NULL, false},
                 {"PATCH", "data", NULL, false},    {"LOCK", NULL, NULL, false},
                 {"PUT", NULL, read_nothing, false}};
    script.serve = break_second;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        connection_count = request_count = 0;
        new_client(NULL);
        must_get("/", "ok");
        int err = fetch_error(cases[i].method, cases[i].body, cases[i].read_body);
        MUST(cases[i].is_repeated ? !err : err == -ECONNRESET || err == -EPIPE);
        MUST_EQ(connection_count, cases[i].is_repeated ? 2 : 1);
    }
}

SCRIPT_TEST(a_request_is_not_repeated_after_a_byte_of_the_response_nor_on_a_new_connection)
{
    script.serve = break_second;
    has_begun_answer = true;
    must_get("/", "ok");
    MUST_EQ(get_error("/"), -ECONNRESET);
    MUST_EQ(connection_count, 1);
    has_begun_answer = false;
    script.serve = NULL;
    script.reply = ok;
    script.cut = 1;
    connection_count = 0;
    MUST_EQ(get_error("/"), -ECONNRESET);
    MUST_EQ(connection_count, 1);
}

static void say_more(int fd, unsigned number)
{
    (void)number;
    while (next_request(fd))
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n"
                "Content-Length: 4\r\n\r\nevil");
}

SCRIPT_TEST(a_response_that_nobody_has_asked_for_is_not_taken_for_the_next)
{
    script.serve = say_more;
    for (unsigned i = 1; i <= 3; i++) {
        must_get("/", "ok");
        MUST_EQ(connection_count, i);
    }
}

/* ---- Limits ---- */

static _Atomic(unsigned) active, most_active;
static struct gs_semaphore may_answer;
static unsigned order[64];
static _Atomic(unsigned) order_n;

static void answer_later(int fd, unsigned number)
{
    (void)number;
    while (next_request(fd)) {
        unsigned now = ++active, most = most_active;
        while (now > most && !atomic_compare_exchange_weak(&most_active, &most, now))
            ;
        MUST_EQ(gs_semaphore_wait(&may_answer, after(PATIENCE_NS)), 0);
        active--;
        say(fd, ok);
    }
}

static struct gs_wait_group getters;
static void *get_and_note(void *number)
{
    must_get("/", "ok");
    order[order_n++ % 64] = (unsigned)(uintptr_t)number;
    gs_wait_group_done(&getters);
    return NULL;
}

static void start_getters(unsigned count)
{
    active = most_active = order_n = 0;
    may_answer = (struct gs_semaphore){0};
    script.serve = answer_later;
    gs_wait_group_add(&getters, count);
    for (uintptr_t i = 0; i < count; i++) {
        MUST_EQ(gs_thread_spawn(NULL, get_and_note, (void *)i, NULL), 0);
        gs_thread_yield();
    }
}

static void answer_all(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        gs_semaphore_post(&may_answer);
    MUST_EQ(gs_wait_group_wait(&getters, after(PATIENCE_NS)), 0);
}

SCRIPT_TEST(no_more_connections_to_a_host_than_the_limit_exist)
{
    new_client(&(struct gs_http_client_options){.max_host_connections = 3});
    start_getters(30);
    answer_all(30);
    MUST(most_active <= 3);
    MUST(connection_count <= 3);
}

SCRIPT_TEST_WITH(those_that_wait_for_a_connection_get_it_in_order, run_on_one)
{
    new_client(&(struct gs_http_client_options){.max_host_connections = 1});
    start_getters(20);
    answer_all(20);
    for (unsigned i = 0; i < 20; i++)
        MUST_EQ(order[i], i);
    MUST_EQ(connection_count, 1);
}

SCRIPT_TEST(who_waits_for_a_connection_gives_up_at_its_deadline)
{
    struct gs_http_response *response = NULL;
    new_client(&(struct gs_http_client_options){.max_host_connections = 1});
    script.reply = ok;
    struct gs_http_response *first = get("/");
    MUST_EQ(gs_http_get(client, url_of("/"), after(GS_MILLISECOND), &response), -ETIMEDOUT);
    MUST_CONTAIN(gs_http_client_error(), "no connection to http://127.0.0.1:");
    gs_http_response_free(first);
    must_get("/", "ok");
    MUST_EQ(connection_count, 1);
}

SCRIPT_TEST(no_more_connections_are_kept_than_the_limits)
{
    new_client(&(struct gs_http_client_options){.max_host_idle = 2});
    start_getters(6);
    answer_all(6);
    unsigned before = connection_count;
    start_getters(6);
    answer_all(6);
    MUST(connection_count <= 2 * before);
    new_client(&(struct gs_http_client_options){.max_idle = 1, .max_host_idle = 5});
    script.serve = NULL;
    script.reply = ok;
    struct gs_http_response *first = get("/"), *second = get("/");
    gs_http_response_free(first);
    gs_http_response_free(second);
    connection_count = 0;
    first = get("/");
    second = get("/");
    MUST_EQ(connection_count, 1);
    gs_http_response_free(first);
    gs_http_response_free(second);
}

SCRIPT_TEST(a_connection_that_was_idle_for_too_long_is_closed)
{
    new_client(&(struct gs_http_client_options){.idle_timeout_ns = 1});
    script.reply = ok;
    must_get("/", "ok");
    gs_thread_sleep(after(GS_MILLISECOND));
    must_get("/", "ok");
    MUST_EQ(connection_count, 2);
}

/* ---- After the run ---- */

static void *get_and_leave(void *unused)
{
    start_script();
    script.reply = ok;
    must_get("/", "ok");
    struct gs_http_client *left = client;
    client = NULL;
    script.closes = true;
    gs_thread_cancel(script_thread);
    join(script_thread);
    gs_close(script_listener);
    client = left;
    gs_threads_cancel_all();
    return unused;
}

TEST(a_client_may_be_freed_after_the_run)
{
    run_both(get_and_leave);
    gs_http_client_free(client);
    client = NULL;
}
