/* A server of gs_http_serve and its clients, in one program. */
#ifndef GS_TESTS_HTTP_SERVER_SERVING_H
#define GS_TESTS_HTTP_SERVER_SERVING_H

#include "tests/thread/io/connection.h"

#include <gossamer/http_server.h>

#define PATIENCE_NS (30 * GS_SECOND)

static struct gs_http_server server; /* set before the start */
static struct sockaddr_in server_address;
static int server_listener;
static struct gs_thread *server_thread;

static void *run_server(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)gs_http_serve(server_listener, &server);
}

static inline void start_server(void)
{
    server_listener = listen_anywhere(&server_address);
    server_thread = spawn(run_server, NULL);
}

static inline void stop_server(void)
{
    gs_thread_cancel(server_thread);
    MUST_EQ((intptr_t)join(server_thread), 0);
    gs_close(server_listener);
}

static inline int connect_client(void)
{
    int fd = gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    MUST(fd >= 0);
    MUST_EQ(gs_connect(fd, (struct sockaddr *)&server_address, sizeof server_address,
                       after(PATIENCE_NS)),
            0);
    return fd;
}

static inline void say(int fd, const char *text)
{
    MUST_EQ(gs_send_all(fd, text, strlen(text), after(PATIENCE_NS)), strlen(text));
}

/* A text of responses, with a NUL. */
struct heard {
    size_t n;
    char bytes[100000];
};

/* Receive until the text contains `wanted`; NULL: until the end of the stream. Returns 0, or the
 * error with which the connection ended. */
static inline int hear(int fd, struct heard *heard, const char *wanted)
{
    heard->bytes[heard->n] = '\0';
    while (!wanted || !strstr(heard->bytes, wanted)) {
        ssize_t n = gs_recv(fd, heard->bytes + heard->n, sizeof heard->bytes - 1 - heard->n, 0,
                            after(PATIENCE_NS));
        MUST(n != -ETIMEDOUT);
        if (n <= 0) {
            MUST(n < 0 || !wanted);
            return (int)n;
        }
        heard->n += (size_t)n;
        heard->bytes[heard->n] = '\0';
    }
    return 0;
}

/* Send the text on a new connection; return all that is received. The result is valid until the
 * next call. */
static inline const char *ask(const char *text)
{
    static struct heard heard;
    heard.n = 0;
    int fd = connect_client();
    say(fd, text);
    MUST_EQ(hear(fd, &heard, NULL), 0);
    gs_close(fd);
    return heard.bytes;
}

static inline bool ends_with(const char *text, const char *end)
{
    return strlen(text) >= strlen(end) && !strcmp(text + strlen(text) - strlen(end), end);
}

/* Receive a response with the body "hello", or less if the connection ends. */
static inline void hear_or_not(int fd, struct heard *heard)
{
    ssize_t n = 0;
    heard->n = 0;
    heard->bytes[0] = '\0';
    while (!ends_with(heard->bytes, "hello") &&
           (n = gs_recv(fd, heard->bytes + heard->n, 1000, 0, after(PATIENCE_NS))) > 0) {
        heard->n += (size_t)n;
        heard->bytes[heard->n] = '\0';
    }
    MUST(n != -ETIMEDOUT);
}

static inline unsigned count_of(const char *text, const char *part)
{
    unsigned count = 0;
    while ((text = strstr(text, part))) {
        text += strlen(part);
        count++;
    }
    return count;
}

static inline bool begins_with(const char *text, const char *start)
{
    return !strncmp(text, start, strlen(start));
}

#define MUST_CONTAIN(text_, part_)                                                                 \
    do {                                                                                           \
        const char *found_in_ = (text_);                                                           \
        if (!strstr(found_in_, part_)) {                                                           \
            fprintf(stderr, "%s:%d: no \"%s\" in \"%s\"\n", __FILE__, __LINE__, part_, found_in_); \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* Run the clients against a server with this handler. */
static inline void serve_with(const struct gs_http_server *options, gs_thread_fn *clients)
{
    server = *options;
    run_both(clients);
}

/* A test whose body is the clients of a server with these options, which runs meanwhile. */
#define SERVE_TEST(name_, ...)                                                                     \
    THREAD_FIXTURE_TEST(name_, run_both, stop_server(), server = __VA_ARGS__, start_server())

#endif
