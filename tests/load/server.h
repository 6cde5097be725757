/* A server within the test's process, with a kernel thread per connection that runs a function of
 * the test. */
#ifndef GS_TESTS_LOAD_SERVER_H
#define GS_TESTS_LOAD_SERVER_H

#include "tests/test.h"

struct server;

/* Serves a connection, which is closed when the function returns. index: number of the connection,
 * from 0. */
typedef void serve_fn(struct server *server, int fd, size_t index);

struct server {
    serve_fn *serve;
    int fd, family;
    unsigned port;
    size_t connections, requests; /* accessed atomically */
    uint32_t peers[64];           /* IPv4 addresses of the first clients */
    size_t live_count;
    pthread_mutex_t lock;
    pthread_cond_t all_closed;
    pthread_t acceptor;
    pthread_t last_ended; /* thread of a connection; valid if has_ended */
    bool has_ended;
};

struct server_connection {
    struct server *server;
    int fd;
    size_t index;
};

/* Each thread joins the one that ended before it, so that joining the last one joins all: none of
 * them may still free memory when the process forks. */
static void *server_run_connection(void *data)
{
    struct server_connection connection = *(struct server_connection *)data;
    struct server *server = connection.server;
    free(data);
    server->serve(server, connection.fd, connection.index);
    close(connection.fd);
    pthread_mutex_lock(&server->lock);
    bool must_join = server->has_ended;
    pthread_t before = server->last_ended;
    server->has_ended = true;
    server->last_ended = pthread_self();
    if (--server->live_count == 0)
        pthread_cond_signal(&server->all_closed);
    pthread_mutex_unlock(&server->lock);
    if (must_join)
        pthread_join(before, NULL);
    return NULL;
}

static void server_start_connection(struct server *server, int fd,
                                    const struct sockaddr_storage *peer)
{
    struct server_connection *connection = malloc(sizeof *connection);
    size_t index = __atomic_fetch_add(&server->connections, 1, __ATOMIC_SEQ_CST);
    if (index < 64 && peer->ss_family == AF_INET)
        server->peers[index] = ntohl(((const struct sockaddr_in *)peer)->sin_addr.s_addr);
    *connection = (struct server_connection){server, fd, index};
    pthread_mutex_lock(&server->lock);
    server->live_count++;
    pthread_mutex_unlock(&server->lock);
    pthread_t thread;
    if (pthread_create(&thread, NULL, server_run_connection, connection))
        abort();
}

static void *server_accept(void *data)
{
    struct server *server = data;
    for (;;) {
        struct sockaddr_storage peer;
        socklen_t length = sizeof peer;
        int fd = accept(server->fd, (struct sockaddr *)&peer, &length);
        if (fd < 0)
            return NULL;
        server_start_connection(server, fd, &peer);
    }
}

/* Listen on a free port of the loopback address. Returns false if the system does not support the
 * address family. */
static bool server_start_family(struct server *server, serve_fn *serve, int family)
{
    *server = (struct server){.serve = serve, .family = family};
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->all_closed, NULL);
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool is_ipv6 = family == AF_INET6;
    struct sockaddr *address = is_ipv6 ? (struct sockaddr *)&in6 : (struct sockaddr *)&in;
    socklen_t length = is_ipv6 ? sizeof in6 : sizeof in;
    server->fd = socket(family, SOCK_STREAM, 0);
    if (server->fd < 0 || bind(server->fd, address, length)) {
        close(server->fd);
        return false;
    }
    CHECK_EQ(listen(server->fd, 1024), 0);
    CHECK_EQ(getsockname(server->fd, address, &length), 0);
    server->port = ntohs(is_ipv6 ? in6.sin6_port : in.sin_port);
    CHECK_EQ(pthread_create(&server->acceptor, NULL, server_accept, server), 0);
    return true;
}

/* Bind a port without listening: connections to it are refused, and no other program can take it.
 * Closing the descriptor releases it. */
static inline void server_reserve_port(struct server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    *server = (struct server){.family = AF_INET, .fd = socket(AF_INET, SOCK_STREAM, 0)};
    CHECK(server->fd >= 0);
    CHECK_EQ(bind(server->fd, (struct sockaddr *)&address, length), 0);
    CHECK_EQ(getsockname(server->fd, (struct sockaddr *)&address, &length), 0);
    server->port = ntohs(address.sin_port);
}

static inline void server_start(struct server *server, serve_fn *serve)
{
    CHECK(server_start_family(server, serve, AF_INET));
}

/* Requires that the serve functions return, because the clients have closed or by themselves. */
static inline void server_stop(struct server *server)
{
    shutdown(server->fd, SHUT_RDWR);
    pthread_join(server->acceptor, NULL);
    close(server->fd);
    pthread_mutex_lock(&server->lock);
    while (server->live_count)
        pthread_cond_wait(&server->all_closed, &server->lock);
    pthread_mutex_unlock(&server->lock);
    if (server->has_ended)
        pthread_join(server->last_ended, NULL);
    pthread_mutex_destroy(&server->lock);
    pthread_cond_destroy(&server->all_closed);
}

/* Read a request without a body into `text`. Returns false if the client has closed the
 * connection. */
static inline bool server_read(struct server *server, int fd, char *text, size_t size)
{
    size_t n = 0;
    while (n + 1 < size) {
        ssize_t received = recv(fd, text + n, size - 1 - n, 0);
        if (received <= 0)
            return false;
        n += (size_t)received;
        text[n] = '\0';
        if (n >= 4 && !strcmp(text + n - 4, "\r\n\r\n")) {
            __atomic_fetch_add(&server->requests, 1, __ATOMIC_SEQ_CST);
            return true;
        }
    }
    return false;
}

static inline void server_write(int fd, const char *text)
{
    size_t n = strlen(text);
    while (n) {
        ssize_t sent = send(fd, text, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        text += sent;
        n -= (size_t)sent;
    }
}

/* Let close() send a reset instead of an orderly shutdown. */
static inline void server_reset(int fd)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}

#define SERVER_OK "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

/* Send a valid response to every request. */
static inline void serve_hello(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    while (server_read(server, fd, text, sizeof text))
        server_write(fd, SERVER_OK);
}

/* Like serve_hello(), with `delay_ms` before each response. */
static inline void serve_after(struct server *server, int fd, unsigned delay_ms)
{
    char text[4096];
    while (server_read(server, fd, text, sizeof text)) {
        usleep(delay_ms * 1000);
        server_write(fd, SERVER_OK);
    }
}

#endif
