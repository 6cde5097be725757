/* A server that sends what a test wants, in user threads of the same run as the client. */
#ifndef GS_TESTS_HTTP_CLIENT_SCRIPTED_H
#define GS_TESTS_HTTP_CLIENT_SCRIPTED_H

#include "tests/thread/io/connection.h"

#include <gossamer/http_client.h>
#include <gossamer/net.h>
#include <stdlib.h>

#define PATIENCE_NS (30 * GS_SECOND)

/* How each connection answers each request. */
struct script {
    const char *reply;
    size_t reply_n; /* 0: the reply is a string */
    size_t cut;     /* close behind this many bytes of the reply; 0: do not */
    size_t step;    /* bytes at a time, with others running in between; 0: all at once */
    bool closes;    /* behind the reply */
    /* In place of all this. `number` counts the connections from 0. */
    void (*serve)(int fd, unsigned number);
};

#define SEEN_MAX 64u

static struct script script;
static int script_listener;
static struct sockaddr_in script_address;
static char script_url[64]; /* "http://127.0.0.1:PORT" */
static struct gs_thread *script_thread;
static struct gs_wait_group script_connections;
static _Atomic(unsigned) connection_count, request_count;
static char seen[SEEN_MAX][4000]; /* the requests, as far as their bodies have arrived with them */

/* What the test has written before it sends a request is seen by the server that has received it,
 * and what the server has read or written before it sends comes before what the test does then. The
 * thread sanitizer does not know that of sockets. */
static struct gs_mutex script_lock;

static inline void synchronise(void)
{
    gs_mutex_lock(&script_lock, GS_NEVER);
    gs_mutex_unlock(&script_lock);
}

/* Read a request, up to the end of its head, and its body if its length is known. Returns whether
 * there was one. */
static inline bool read_request(int fd, char *text, size_t size)
{
    size_t n = 0, wanted = 0;
    text[0] = '\0';
    while (!wanted || n < wanted) {
        ssize_t more = gs_recv(fd, text + n, size - 1 - n, 0, after(PATIENCE_NS));
        MUST(more != -ETIMEDOUT);
        if (more <= 0)
            return false;
        n += (size_t)more;
        text[n] = '\0';
        const char *end = strstr(text, "\r\n\r\n"), *length = strcasestr(text, "content-length: ");
        if (end && strcasestr(text, "transfer-encoding: chunked"))
            wanted = strstr(end, "\r\n0\r\n\r\n") ? n : n + 1;
        else if (end)
            wanted = (size_t)(end + 4 - text) + (length ? strtoul(length + 16, NULL, 10) : 0);
        MUST(n < size - 1);
    }
    return true;
}

static inline bool next_request(int fd)
{
    char *text = malloc(sizeof seen[0]);
    bool is_there = read_request(fd, text, sizeof seen[0]);
    gs_mutex_lock(&script_lock, GS_NEVER);
    if (is_there) /* of many requests at once, several may have the same place */
        memcpy(seen[request_count++ % SEEN_MAX], text, sizeof seen[0]);
    gs_mutex_unlock(&script_lock);
    free(text);
    return is_there;
}

/* Returns whether the client took all. */
static inline bool send_text(int fd, const char *text, size_t n)
{
    bool is_slow = script.step;
    size_t step = is_slow ? script.step : n;
    synchronise();
    for (size_t at = 0; at < n; at += step) {
        size_t part = n - at < step ? n - at : step;
        if (gs_send_all(fd, text + at, part, after(PATIENCE_NS)) < 0)
            return false;
        if (is_slow)
            gs_thread_end_turn();
    }
    return true;
}

static inline bool say(int fd, const char *text)
{
    return send_text(fd, text, strlen(text));
}

static inline void follow_script(int fd)
{
    while (next_request(fd)) {
        size_t n = script.reply_n ? script.reply_n : strlen(script.reply);
        bool is_cut = script.cut && script.cut <= n, closes = script.closes;
        if (!send_text(fd, script.reply, is_cut ? script.cut : n) || is_cut || closes)
            return;
    }
}

struct accepted {
    int fd;
    unsigned number;
};

static inline void *serve_accepted(void *argument)
{
    struct accepted accepted = *(struct accepted *)argument;
    gs_mutex_lock(&script_lock, GS_NEVER);
    void (*serve)(int, unsigned) = script.serve;
    gs_mutex_unlock(&script_lock);
    free(argument);
    if (serve)
        serve(accepted.fd, accepted.number);
    else
        follow_script(accepted.fd);
    gs_close(accepted.fd);
    gs_wait_group_done(&script_connections);
    return NULL;
}

static inline void *run_script(void *unused)
{
    int fd;
    while ((fd = gs_accept(script_listener, NULL, NULL, SOCK_CLOEXEC, GS_NEVER)) >= 0) {
        struct accepted *accepted = malloc(sizeof *accepted);
        *accepted = (struct accepted){fd, connection_count++};
        gs_wait_group_add(&script_connections, 1);
        MUST_EQ(gs_thread_spawn(NULL, serve_accepted, accepted, NULL), 0);
    }
    return unused;
}

static struct gs_http_client *client;

static inline void new_client(const struct gs_http_client_options *options)
{
    gs_http_client_free(client);
    client = NULL;
    MUST_EQ(gs_http_client_new(options, &client), 0);
    synchronise();
}

static inline void listen_for_script(void)
{
    script_listener = gs_listen("127.0.0.1:0", NULL);
    MUST(script_listener >= 0);
    socklen_t length = sizeof script_address;
    MUST_EQ(getsockname(script_listener, (struct sockaddr *)&script_address, &length), 0);
    snprintf(script_url, sizeof script_url, "http://127.0.0.1:%u", ntohs(script_address.sin_port));
}

static inline void start_script(void)
{
    listen_for_script();
    connection_count = request_count = 0;
    script = (struct script){0};
    script_thread = spawn(run_script, NULL);
    new_client(NULL);
}

static inline void stop_script(void)
{
    gs_http_client_free(client);
    client = NULL;
    gs_thread_cancel(script_thread);
    join(script_thread);
    MUST_EQ(gs_wait_group_wait(&script_connections, after(PATIENCE_NS)), 0);
    gs_close(script_listener);
}

/* A test whose body is a thread beside the server. */
#define SCRIPT_TEST_WITH(name_, run_)                                                              \
    THREAD_FIXTURE_TEST(name_, run_, stop_script(), start_script())
#define SCRIPT_TEST(name_) SCRIPT_TEST_WITH(name_, run_both)

/* ---- The client ---- */

/* The URL of the server with this path, for a request to be sent. Valid until the next call. */
static inline const char *url_of(const char *path)
{
    static char url[2048];
    synchronise();
    snprintf(url, sizeof url, "%s%s", script_url, path);
    return url;
}

static inline struct gs_http_response *get(const char *path)
{
    struct gs_http_response *response = NULL;
    char url[2048];
    snprintf(url, sizeof url, "%s%s", script_url, path);
    synchronise();
    int err = gs_http_get(client, url, after(PATIENCE_NS), &response);
    synchronise();
    if (err)
        fprintf(stderr, "%s\n", gs_http_client_error());
    MUST_EQ(err, 0);
    return response;
}

static inline struct gs_http_response *fetch(const struct gs_http_client_request *request)
{
    struct gs_http_response *response = NULL;
    synchronise();
    int err = gs_http_fetch(client, request, after(PATIENCE_NS), &response);
    synchronise();
    if (err)
        fprintf(stderr, "%s\n", gs_http_client_error());
    MUST_EQ(err, 0);
    return response;
}

#define MUST_CONTAIN(text_, part_)                                                                 \
    do {                                                                                           \
        const char *found_in_ = (text_);                                                           \
        if (!strstr(found_in_, part_)) {                                                           \
            fprintf(stderr, "%s:%d: no \"%s\" in \"%s\"\n", __FILE__, __LINE__, part_, found_in_); \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#define MUST_STR(actual_, expected_)                                                               \
    do {                                                                                           \
        const char *is_ = (actual_), *should_ = (expected_);                                       \
        if (!is_ || strcmp(is_, should_)) {                                                        \
            fprintf(stderr, "%s:%d: %s is \"%s\", expected \"%s\"\n", __FILE__, __LINE__,          \
                    #actual_, is_ ? is_ : "NULL", should_);                                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* Read the rest of the body, which must be this, and free the response. */
static inline void must_end_with(struct gs_http_response *response, const char *body)
{
    char *text;
    ssize_t n = gs_http_response_read_all(response, 1 << 20, after(PATIENCE_NS), &text);
    synchronise();
    if (n < 0)
        fprintf(stderr, "%s\n", gs_http_client_error());
    MUST(n >= 0);
    MUST_STR(text, body);
    free(text);
    gs_http_response_free(response);
}

/* The page of this path must be this. */
static inline void must_get(const char *path, const char *body)
{
    must_end_with(get(path), body);
}

/* Returns the error with which a page cannot be got, be it the head or the body. */
static inline int get_error(const char *path)
{
    struct gs_http_response *response = NULL;
    char *text = NULL;
    ssize_t err = gs_http_get(client, url_of(path), after(PATIENCE_NS), &response);
    if (!err)
        err = gs_http_response_read_all(response, 1 << 20, after(PATIENCE_NS), &text);
    gs_http_response_free(response);
    free(text);
    synchronise();
    return err < 0 ? (int)err : 0;
}

#endif
