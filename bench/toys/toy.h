/* Minimal web servers, one per concurrency model, to compare only the models. All have the same
 * structure: one thread accepts, and each connection gets a new thread or process, without a pool.
 * The HTTP code is in this header.
 *
 *     NAME [ADDRESS]      listens on a free port of 127.0.0.1 or ADDRESS, prints "listening on
 *                         http://ADDRESS:PORT", and serves a page of 305 bytes for every request
 *
 * A request ends with an empty line; otherwise only "Connection: close" is parsed. */
#ifndef GS_BENCH_TOY_H
#define GS_BENCH_TOY_H

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TOY_BODY_SIZE 305
#define TOY_HEADER "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 305\r\n\r\n"
#define TOY_RESPONSE_SIZE (sizeof TOY_HEADER - 1 + TOY_BODY_SIZE)
#define TOY_REQUEST_MAX 2048
#define TOY_STACK_SIZE (64 << 10)

/* The state of a connection: the part of the request that has been received. */
struct toy {
    size_t n;
    bool is_last;
    char bytes[TOY_REQUEST_MAX];
};

static char toy_response[TOY_RESPONSE_SIZE];

static inline void toy_check(bool ok, const char *call)
{
    if (ok)
        return;
    fprintf(stderr, "toy: %s failed\n", call);
    exit(2);
}

/* Print the address, and return the listening socket. */
static inline int toy_listen(const char *host)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    signal(SIGPIPE, SIG_IGN);
    memcpy(toy_response, TOY_HEADER, sizeof TOY_HEADER - 1);
    memset(toy_response + sizeof TOY_HEADER - 1, 'x', TOY_BODY_SIZE);
    toy_check(inet_pton(AF_INET, host, &address.sin_addr) == 1, "parsing the IPv4 address");
    toy_check(fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) &&
                  !setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) &&
                  !bind(fd, (struct sockaddr *)&address, length) && !listen(fd, 4096) &&
                  !getsockname(fd, (struct sockaddr *)&address, &length),
              "listening");
    printf("listening on http://%s:%u\n", host, ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

/* Returns the free space of the request buffer. */
static inline char *toy_buffer(struct toy *toy, size_t *ret_n)
{
    *ret_n = sizeof toy->bytes - toy->n;
    return toy->bytes + toy->n;
}

enum toy_next { TOY_RECEIVE, TOY_SEND, TOY_END };

/* Process n received bytes. TOY_SEND: the caller must send toy_response. */
static inline enum toy_next toy_received(struct toy *toy, ssize_t n)
{
    static const char close[] = "Connection: close";
    if (n <= 0 || toy->is_last)
        return TOY_END;
    toy->n += (size_t)n;
    if (toy->n < 4 || memcmp(toy->bytes + toy->n - 4, "\r\n\r\n", 4))
        return toy->n == sizeof toy->bytes ? TOY_END : TOY_RECEIVE;
    toy->is_last = memmem(toy->bytes, toy->n, close, sizeof close - 1);
    toy->n = 0;
    return TOY_SEND;
}

/* Process the result of sending toy_response. */
static inline enum toy_next toy_sent(const struct toy *toy, ssize_t n)
{
    return n == (ssize_t)TOY_RESPONSE_SIZE && !toy->is_last ? TOY_RECEIVE : TOY_END;
}

/* Serve a connection with blocking calls. */
#define TOY_SERVE(receive_, send_, socket_)                                                        \
    do {                                                                                           \
        struct toy toy_;                                                                           \
        size_t room_;                                                                              \
        enum toy_next next_ = TOY_RECEIVE;                                                         \
        toy_.n = 0;                                                                                \
        toy_.is_last = false;                                                                      \
        while (next_ != TOY_END) {                                                                 \
            char *bytes_ = toy_buffer(&toy_, &room_);                                              \
            next_ = toy_received(&toy_, receive_(socket_, bytes_, room_));                         \
            if (next_ == TOY_SEND)                                                                 \
                next_ = toy_sent(&toy_, send_(socket_, toy_response, TOY_RESPONSE_SIZE));          \
        }                                                                                          \
    } while (0)

#endif
