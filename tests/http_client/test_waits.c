/* Deadlines and cancellation at each wait, and many requests in flight. */
#include "tests/http_client/scripted.h"

static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/* ---- Where a request can wait ---- */

static struct gs_wait_group reached; /* the server is at the place */
static struct gs_semaphore leave;

static void stay(void)
{
    gs_wait_group_done(&reached);
    MUST_EQ(gs_semaphore_wait(&leave, after(PATIENCE_NS)), 0);
}

static void say_nothing(int fd, unsigned number)
{
    (void)number;
    if (next_request(fd))
        stay();
}

static void say_half_a_head(int fd, unsigned number)
{
    (void)number;
    if (next_request(fd) && say(fd, "HTTP/1.1 200 OK\r\nContent-"))
        stay();
}

static void say_half_a_body(int fd, unsigned number)
{
    (void)number;
    if (next_request(fd) && say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234"))
        stay();
}

static void say_half_a_chunk(int fd, unsigned number)
{
    (void)number;
    if (next_request(fd) &&
        say(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n1"))
        stay();
}

static void read_nothing(int fd, unsigned number)
{
    (void)number;
    (void)fd;
    stay();
}

static const struct place {
    void (*serve)(int fd, unsigned number);
    bool sends; /* a body that does not fit into the socket */
} places[] = {{say_nothing, false},
              {say_half_a_head, false},
              {say_half_a_body, false},
              {say_half_a_chunk, false},
              {read_nothing, true}};

static char large[16 << 20];

/* Returns the error that ends the request. */
static int be_at(const struct place *place, uint64_t deadline_ns)
{
    struct gs_http_response *response = NULL;
    char *body = NULL;
    const struct gs_http_client_request request = {.url = url_of("/"),
                                                   .body = place->sends ? large : NULL,
                                                   .body_n = place->sends ? sizeof large : 0};
    ssize_t err = gs_http_fetch(client, &request, deadline_ns, &response);
    if (!err)
        err = gs_http_response_read_all(response, 1 << 20, deadline_ns, &body);
    gs_http_response_free(response);
    free(body);
    return (int)err;
}

SCRIPT_TEST(each_wait_ends_at_the_deadline)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        script.serve = places[i].serve;
        gs_wait_group_add(&reached, 1);
        MUST_EQ(be_at(&places[i], after(20 * GS_MILLISECOND)), -ETIMEDOUT);
        MUST_CONTAIN(gs_http_client_error(), "Connection timed out");
        MUST_EQ(gs_wait_group_wait(&reached, after(PATIENCE_NS)), 0);
        gs_semaphore_post(&leave);
    }
}

static void *be_canceled(void *place)
{
    return (void *)(intptr_t)be_at(place, GS_NEVER);
}

SCRIPT_TEST(each_wait_ends_when_the_thread_is_canceled)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        script.serve = places[i].serve;
        gs_wait_group_add(&reached, 1);
        struct gs_thread *thread = spawn(be_canceled, (void *)&places[i]);
        MUST_EQ(gs_wait_group_wait(&reached, after(PATIENCE_NS)), 0);
        for (int turns = 0; turns < 3; turns++)
            gs_thread_end_turn();
        gs_thread_cancel(thread);
        MUST_EQ((intptr_t)join(thread), -ECANCELED);
        gs_semaphore_post(&leave);
    }
    new_client(&(struct gs_http_client_options){.max_host_connections = 1});
    script.serve = NULL;
    script.reply = ok;
    struct gs_http_response *first = get("/");
    struct gs_thread *thread = spawn(be_canceled, (void *)&places[0]);
    gs_thread_yield();
    gs_thread_cancel(thread);
    MUST_EQ((intptr_t)join(thread), -ECANCELED);
    gs_http_response_free(first);
    must_get("/", "ok");
}

/* Linux drops what arrives for a full accept queue, so the client's attempt waits. */
SCRIPT_TEST(a_connection_has_a_time_limit_of_its_own)
{
    const struct gs_listen_options one = {.backlog = 1};
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    struct gs_http_response *response = NULL;
    int listener = gs_listen("127.0.0.1:0", &one), queued[8];
    char url[64];
    MUST(listener >= 0 && !getsockname(listener, (struct sockaddr *)&address, &length));
    snprintf(url, sizeof url, "http://127.0.0.1:%d/", ntohs(address.sin_port));
    for (size_t i = 0; i < sizeof queued / sizeof *queued; i++) {
        queued[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        MUST(connect(queued[i], (struct sockaddr *)&address, length) && errno == EINPROGRESS);
    }
    new_client(&(struct gs_http_client_options){.connect_timeout_ns = 20 * GS_MILLISECOND});
    MUST_EQ(gs_http_get(client, url, GS_NEVER, &response), -ETIMEDOUT);
    MUST_CONTAIN(gs_http_client_error(), "cannot connect to 127.0.0.1");
    for (size_t i = 0; i < sizeof queued / sizeof *queued; i++)
        close(queued[i]);
    gs_close(listener);
}

SCRIPT_TEST(reading_goes_on_after_a_deadline)
{
    char bytes[10];
    gs_wait_group_add(&reached, 1);
    script.serve = say_half_a_body;
    struct gs_http_response *response = get("/");
    MUST_EQ(gs_http_response_read(response, bytes, 10, after(PATIENCE_NS)), 5);
    MUST_EQ(gs_http_response_read(response, bytes, 10, 0), -ETIMEDOUT);
    MUST_EQ(gs_http_response_read(response, bytes, 10, after(GS_MILLISECOND)), -ETIMEDOUT);
    gs_semaphore_post(&leave);
    MUST_EQ(gs_http_response_read(response, bytes, 10, after(PATIENCE_NS)), -ECONNRESET);
    gs_http_response_free(response);
}

/* ---- Many at once ---- */

#define MANY 300u
#define EACH 20u

static struct gs_wait_group getters;
static void *get_pages(void *unused)
{
    for (unsigned i = 0; i < EACH; i++)
        must_get("/", "ok");
    gs_wait_group_done(&getters);
    return unused;
}

SCRIPT_TEST(many_threads_share_a_client)
{
    new_client(&(struct gs_http_client_options){.max_host_idle = 50, .max_host_connections = 100});
    script.reply = ok;
    gs_wait_group_add(&getters, MANY);
    for (unsigned i = 0; i < MANY; i++)
        MUST_EQ(gs_thread_spawn(NULL, get_pages, NULL, NULL), 0);
    MUST_EQ(gs_wait_group_wait(&getters, after(PATIENCE_NS)), 0);
    MUST_EQ(request_count, MANY * EACH);
}

/* Nobody gets an answer before all have asked. */
#define IN_FLIGHT 400u
static struct gs_barrier all_have_asked;

static void answer_when_all_have_asked(int fd, unsigned number)
{
    (void)number;
    if (next_request(fd) && gs_barrier_wait(&all_have_asked, after(PATIENCE_NS)) >= 0)
        say(fd, ok);
}

static void *get_page(void *unused)
{
    must_get("/", "ok");
    gs_wait_group_done(&getters);
    return unused;
}

SCRIPT_TEST(as_many_requests_as_there_are_threads_are_in_flight)
{
    all_have_asked = (struct gs_barrier){.threads = IN_FLIGHT};
    script.serve = answer_when_all_have_asked;
    gs_wait_group_add(&getters, IN_FLIGHT);
    for (unsigned i = 0; i < IN_FLIGHT; i++)
        MUST_EQ(gs_thread_spawn(NULL, get_page, NULL, NULL), 0);
    MUST_EQ(gs_wait_group_wait(&getters, after(PATIENCE_NS)), 0);
    MUST_EQ(connection_count, IN_FLIGHT);
}
