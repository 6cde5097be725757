#include "tests/fault/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define CLIENTS_MAX 10
#define BUFFER (1 << 19)
#define HEAD_MAX 4096

/* Only a server that does not answer takes so long, also on a busy machine. */
#define CLIENT_TIMEOUT_S 20

/* The clients share these buffers, because new pages for each client would dominate the run
 * time. */
static char buffers[CLIENTS_MAX][BUFFER + 1];
static bool is_taken[CLIENTS_MAX];

static char problem[512];

const char *client_problem(void)
{
    return problem;
}

static enum client_result wrong(const struct client *client, const char *what)
{
    snprintf(problem, sizeof problem, "%s: \"%.200s\"", what, client->bytes + client->used);
    return CLIENT_WRONG;
}

static char *take_buffer(void)
{
    for (int i = 0; i < CLIENTS_MAX; i++) {
        if (is_taken[i])
            continue;
        is_taken[i] = true;
        buffers[i][0] = '\0';
        return buffers[i];
    }
    abort();
}

enum client_result client_open(struct client *client, unsigned port, bool small)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)port)};
    struct timeval timeout = {.tv_sec = CLIENT_TIMEOUT_S};
    int bytes = 4096, on = 1;
    *client = (struct client){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
                              .bytes = take_buffer()};
    if (client->fd < 0)
        abort();
    setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (small)
        setsockopt(client->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    if (!connect(client->fd, (struct sockaddr *)&address, sizeof address))
        return CLIENT_RIGHT;
    return wrong(client, "no connection");
}

void client_close(struct client *client)
{
    if (client->fd < 0)
        return;
    close(client->fd);
    is_taken[(client->bytes - buffers[0]) / (BUFFER + 1)] = false;
    *client = (struct client){.fd = -1};
}

void client_reset(struct client *client)
{
    struct linger linger = {.l_onoff = 1};
    setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    client_close(client);
}

enum client_result client_send(struct client *client, const char *text)
{
    size_t n = strlen(text);
    while (n) {
        ssize_t sent = send(client->fd, text, n, MSG_NOSIGNAL);
        if (sent < 0)
            return CLIENT_BROKEN;
        text += sent;
        n -= (size_t)sent;
    }
    return CLIENT_RIGHT;
}

/* Receive some bytes. Returns false at the end of the stream, on an error and on a timeout;
 * *ret_late is true after a timeout. */
static bool receive(struct client *client, bool *ret_late)
{
    ssize_t n = recv(client->fd, client->bytes + client->n, BUFFER - client->n, 0);
    *ret_late = n < 0 && errno == EAGAIN;
    if (n <= 0)
        return false;
    client->n += (size_t)n;
    client->bytes[client->n] = '\0';
    return true;
}

enum client_result client_wait(struct client *client, size_t n)
{
    bool late = false;
    while (client->n - client->used < n)
        if (!receive(client, &late))
            return late ? wrong(client, "the response does not arrive") : CLIENT_BROKEN;
    return CLIENT_RIGHT;
}

bool client_hears(const struct client *client)
{
    struct pollfd event = {.fd = client->fd, .events = POLLIN};
    return poll(&event, 1, 0) != 0;
}

static bool is_body(const char *body, const char *expected, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (body[i] != expected[i] && expected[i] != CLIENT_ANY)
            return false;
    return true;
}

static size_t length_of(const char *head, unsigned status)
{
    const char *field = strcasestr(head, "\r\nContent-Length: ");
    return field && status != 304 ? strtoul(field + 18, NULL, 10) : 0;
}

/* Wait for a complete head and store its length in *ret_n. */
static enum client_result receive_head(struct client *client, size_t *ret_n)
{
    static const char start[] = "HTTP/1.1 ";
    const char *head = client->bytes + client->used, *end;
    while (!(end = strstr(head, "\r\n\r\n"))) {
        size_t n = client->n - client->used;
        if (n > HEAD_MAX || strncmp(head, start, n < 9 ? n : 9) != 0)
            return wrong(client, "not the beginning of a response");
        enum client_result result = client_wait(client, n + 1);
        if (result != CLIENT_RIGHT)
            return result;
    }
    *ret_n = (size_t)(end + 4 - head);
    return strncmp(head, start, 9) != 0 ? wrong(client, "not a response") : CLIENT_RIGHT;
}

/* The head has been received: receive and check the body of n bytes. With `expected`, check its
 * length too. */
static enum client_result receive_body(struct client *client, size_t head_n, size_t n,
                                       const struct client_answer *expected)
{
    enum client_result result = client_wait(client, head_n + n);
    const char *body = client->bytes + client->used + head_n;
    size_t got = client->n - client->used - head_n;
    if (result == CLIENT_WRONG)
        return result;
    if (expected->body &&
        (expected->body_n != n || !is_body(body, expected->body, got < n ? got : n)))
        return wrong(client, "another body than expected");
    if (result == CLIENT_RIGHT)
        client->used += head_n + n;
    return result;
}

enum client_result client_receive(struct client *client, const struct client_answer *expected)
{
    static const struct client_answer any = {0};
    size_t head_n = 0;
    enum client_result result = receive_head(client, &head_n);
    if (result != CLIENT_RIGHT)
        return result;
    char *head = client->bytes + client->used;
    unsigned status = (unsigned)strtoul(head + 9, NULL, 10);
    bool refused = status != expected->status && (status == 403 || status == 500 || status == 503);
    if (status != expected->status && !refused)
        return wrong(client, "another status than expected");
    head[head_n - 1] = '\0';
    size_t n = expected->is_head || status < 200 ? 0 : length_of(head, status);
    head[head_n - 1] = '\n';
    result = receive_body(client, head_n, n, refused || expected->is_head ? &any : expected);
    return result == CLIENT_RIGHT && refused ? CLIENT_REFUSED : result;
}

enum client_result client_receive_end(struct client *client)
{
    if (client->n > client->used)
        return wrong(client, "more bytes than requested");
    enum client_result result = client_wait(client, 1);
    return result == CLIENT_RIGHT    ? wrong(client, "more bytes than requested")
           : result == CLIENT_BROKEN ? CLIENT_RIGHT
                                     : result;
}
