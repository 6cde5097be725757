/* A name server in a kernel thread of the test, at a free port of 127.0.0.1, by UDP and TCP. The
 * first label of a name says how it answers:
 *
 *     n<NUMBER>   10.x.y.z and 2001:db8::xy:z, which are the number
 *     four, six   one family only
 *     empty       no address
 *     missing, failing, refused, unsupported   NXDOMAIN, SERVFAIL, REFUSED, NOTIMP
 *     alias       a chain of three aliases, and two addresses
 *     cut         truncated by UDP; 200 addresses by TCP
 *     cutforever  truncated by both
 *     silent      nothing
 *     lost        as n1, at the second time
 *     held        as n1, once server.may_answer_held is set
 *     wrongid, wrongquestion   with another id or question, and nothing else
 *     garbage     bytes that do not follow the header's counts
 *     mutated     an answer in which server.mutations bytes were changed
 */
#ifndef GS_TESTS_DNS_SERVER_H
#define GS_TESTS_DNS_SERVER_H

#include "tests/test.h"

#include <strings.h>

enum {
    TYPE_A = 1,
    TYPE_CNAME = 5,
    TYPE_AAAA = 28,
    HEADER = 12,
    HELD_MAX = 32768,
    MESSAGE_MAX = 8192
};

struct held {
    struct sockaddr_in from;
    socklen_t from_length;
    uint16_t size;
    unsigned char bytes[64];
};

static struct server {
    int udp, tcp, stop[2];
    uint16_t port;
    pthread_t thread;
    atomic_uint queries, held_queries, tcp_queries;
    atomic_bool may_answer_held;
    atomic_uint mutations;
    uint32_t random;
    bool has_lost[65536];
    struct held *held;
    unsigned held_count;
    pthread_mutex_t mutex;
    char last_name[256]; /* guarded by the mutex */
} server;

struct message {
    size_t size, answers;
    unsigned char bytes[MESSAGE_MAX];
};

/* ---- Messages ---- */

static inline void put(struct message *message, const void *bytes, size_t n)
{
    if (message->size + n > sizeof message->bytes)
        n = sizeof message->bytes - message->size;
    memcpy(message->bytes + message->size, bytes, n);
    message->size += n;
}

static inline void put16(struct message *message, unsigned number)
{
    put(message, (unsigned char[]){(unsigned char)(number >> 8), (unsigned char)number}, 2);
}

static inline void put_name(struct message *message, const char *name)
{
    while (*name) {
        size_t length = strcspn(name, ".");
        put(message, (unsigned char[]){(unsigned char)length}, 1);
        put(message, name, length);
        name += length + (name[length] == '.');
    }
    put(message, "", 1);
}

static inline void put_record(struct message *message, const char *name, unsigned type,
                              const void *bytes, size_t n)
{
    put_name(message, name);
    put16(message, type);
    put16(message, 1);
    put(message, "\0\0\0\5", 4);
    put16(message, (unsigned)n);
    put(message, bytes, n);
    message->answers++;
}

static inline void put_alias(struct message *message, const char *name, const char *to)
{
    struct message target = {0};
    put_name(&target, to);
    put_record(message, name, TYPE_CNAME, target.bytes, target.size);
}

static inline void put_address(struct message *message, const char *name, unsigned type,
                               uint32_t number)
{
    unsigned char four[4] = {10}, six[16] = {0x20, 0x01, 0x0d, 0xb8};
    for (int i = 0; i < 3; i++)
        four[3 - i] = six[15 - i] = (unsigned char)(number >> 8 * i);
    if (type == TYPE_A)
        put_record(message, name, type, four, 4);
    else if (type == TYPE_AAAA)
        put_record(message, name, type, six, 16);
}

/* ---- What it answers ---- */

struct query {
    char name[256];
    unsigned type;
    bool is_tcp;
    const unsigned char *bytes; /* the header and the question */
    size_t size;
};

static inline bool is_query(const struct query *query, const char *label)
{
    size_t length = strlen(label);
    return !strncasecmp(query->name, label, length) &&
           (query->name[length] == '.' || !query->name[length]);
}

static inline bool parse_query(const unsigned char *bytes, size_t n, struct query *query)
{
    size_t at = HEADER, length = 0;
    while (at < n && bytes[at]) {
        size_t label = bytes[at];
        if (at + 1 + label >= n || length + label + 2 > sizeof query->name)
            return false;
        memcpy(query->name + length, bytes + at + 1, label);
        length += label;
        query->name[length++] = '.';
        at += 1 + label;
    }
    if (at + 5 > n || !length)
        return false;
    query->name[length - 1] = '\0';
    query->type = (unsigned)bytes[at + 1] << 8 | bytes[at + 2];
    query->bytes = bytes;
    query->size = at + 5;
    return true;
}

static inline uint32_t next_random(void)
{
    server.random = server.random * 1664525u + 1013904223u;
    return server.random >> 8;
}

static inline void answer_aliases(const struct query *query, struct message *message)
{
    put_alias(message, query->name, "second.test");
    put_alias(message, "second.test", "third.test");
    put_alias(message, "third.test", "end.test");
    put_address(message, "end.test", query->type, 1);
    put_address(message, "end.test", query->type, 2);
}

static inline void answer_cut(const struct query *query, struct message *message)
{
    if (!query->is_tcp || is_query(query, "cutforever")) {
        message->bytes[2] |= 2;
        return;
    }
    for (uint32_t i = 1; i <= 200; i++)
        put_address(message, query->name, query->type, i);
}

static inline void mutate(struct message *message)
{
    for (unsigned i = atomic_load(&server.mutations); i > 0; i--) {
        size_t at = 2 + next_random() % (message->size - 2);
        message->bytes[at] = (unsigned char)next_random();
    }
    if (!(next_random() % 8))
        message->size = 2 + next_random() % (message->size - 2);
}

static inline unsigned code_of(const struct query *query)
{
    return is_query(query, "missing")       ? 3
           : is_query(query, "failing")     ? 2
           : is_query(query, "refused")     ? 5
           : is_query(query, "unsupported") ? 4
                                            : 0;
}

static inline void add_answers(const struct query *query, struct message *message)
{
    if ((query->name[0] | 32) == 'n' && query->name[1] >= '0' && query->name[1] <= '9')
        put_address(message, query->name, query->type, (uint32_t)atoi(query->name + 1));
    else if (is_query(query, "held") || is_query(query, "lost") || is_query(query, "wrongid") ||
             is_query(query, "wrongquestion") || is_query(query, "mutated") ||
             (is_query(query, "four") && query->type == TYPE_A) ||
             (is_query(query, "six") && query->type == TYPE_AAAA))
        put_address(message, query->name, query->type, 1);
    else if (is_query(query, "alias"))
        answer_aliases(query, message);
    else if (is_query(query, "cut") || is_query(query, "cutforever"))
        answer_cut(query, message);
}

static inline void make_answer(const struct query *query, struct message *message)
{
    *message = (struct message){0};
    put(message, query->bytes, query->size);
    memset(message->bytes + 6, 0, 6);
    message->bytes[2] |= 0x80;
    message->bytes[3] = (unsigned char)(0x80 | code_of(query));
    add_answers(query, message);
    message->bytes[6] = (unsigned char)(message->answers >> 8);
    message->bytes[7] = (unsigned char)message->answers;
    if (is_query(query, "wrongid"))
        message->bytes[1] ^= 1;
    if (is_query(query, "wrongquestion"))
        message->bytes[HEADER + 1] ^= 1;
    if (is_query(query, "garbage")) {
        message->bytes[7] = 9;
        put(message, "\xc0\xff\xff\xff garbage", 12);
    }
    if (is_query(query, "mutated"))
        mutate(message);
}

/* Whether the query is not answered now. */
static inline bool is_ignored(const struct query *query)
{
    if (is_query(query, "silent"))
        return true;
    if (!is_query(query, "lost"))
        return false;
    bool *has_lost = &server.has_lost[query->type];
    *has_lost = !*has_lost;
    return *has_lost;
}

/* ---- The kernel thread ---- */

static inline void answer_udp(const struct query *query, const struct sockaddr_in *to,
                              socklen_t to_length)
{
    struct message message;
    make_answer(query, &message);
    size_t size = query->name[0] == 'c' && message.size > 512 ? 512 : message.size;
    sendto(server.udp, message.bytes, size, 0, (const struct sockaddr *)to, to_length);
}

static inline void hold(const struct query *query, const struct sockaddr_in *from,
                        socklen_t from_length)
{
    struct held *held = &server.held[server.held_count];
    if (server.held_count == HELD_MAX || query->size > sizeof held->bytes)
        return;
    *held = (struct held){*from, from_length, (uint16_t)query->size, {0}};
    memcpy(held->bytes, query->bytes, query->size);
    server.held_count++;
    atomic_fetch_add(&server.held_queries, 1);
}

static inline void receive_udp(void)
{
    unsigned char bytes[1024];
    struct sockaddr_in from;
    struct query query = {0};
    socklen_t length = sizeof from;
    ssize_t n =
        recvfrom(server.udp, bytes, sizeof bytes, MSG_DONTWAIT, (struct sockaddr *)&from, &length);
    if (n <= 0 || !parse_query(bytes, (size_t)n, &query))
        return;
    pthread_mutex_lock(&server.mutex);
    strcpy(server.last_name, query.name);
    pthread_mutex_unlock(&server.mutex);
    atomic_fetch_add(&server.queries, 1);
    bool is_held = strstr(query.name, "held") && !atomic_load(&server.may_answer_held);
    if (is_held)
        hold(&query, &from, length);
    else if (!is_ignored(&query))
        answer_udp(&query, &from, length);
}

static inline void answer_held(void)
{
    struct query query = {0};
    for (unsigned i = 0; i < server.held_count; i++) {
        const struct held *held = &server.held[i];
        if (parse_query(held->bytes, held->size, &query))
            answer_udp(&query, &held->from, held->from_length);
    }
    server.held_count = 0;
}

/* Returns false if the connection is to be closed. */
static inline bool answer_tcp(int fd)
{
    unsigned char bytes[1024], length[2];
    struct query query = {.is_tcp = true};
    struct message message;
    if (recv(fd, length, 2, MSG_WAITALL) != 2)
        return false;
    size_t n = (size_t)length[0] << 8 | length[1];
    if (n > sizeof bytes || recv(fd, bytes, n, MSG_WAITALL) != (ssize_t)n ||
        !parse_query(bytes, n, &query))
        return false;
    atomic_fetch_add(&server.tcp_queries, 1);
    make_answer(&query, &message);
    unsigned char size[2] = {(unsigned char)(message.size >> 8), (unsigned char)message.size};
    return send(fd, size, 2, MSG_NOSIGNAL) == 2 &&
           send(fd, message.bytes, message.size, MSG_NOSIGNAL) == (ssize_t)message.size;
}

enum { UDP, TCP, STOP, CONNECTIONS, FDS_MAX = CONNECTIONS + 256 };

static inline void *serve(void *unused)
{
    struct pollfd fds[FDS_MAX] = {[UDP] = {.fd = server.udp, .events = POLLIN},
                                  [TCP] = {.fd = server.tcp, .events = POLLIN},
                                  [STOP] = {.fd = server.stop[0], .events = POLLIN}};
    nfds_t count = CONNECTIONS;
    while (!fds[STOP].revents) {
        poll(fds, count, server.held_count ? 1 : -1);
        for (nfds_t i = CONNECTIONS; i < count; i++)
            if (fds[i].revents && !answer_tcp(fds[i].fd)) {
                close(fds[i].fd);
                fds[i--] = fds[--count];
            }
        if (fds[UDP].revents)
            receive_udp();
        if (fds[TCP].revents && count < FDS_MAX)
            fds[count++] = (struct pollfd){.fd = accept(server.tcp, NULL, NULL), .events = POLLIN};
        if (server.held_count && atomic_load(&server.may_answer_held))
            answer_held();
    }
    while (count > CONNECTIONS)
        close(fds[--count].fd);
    return unused;
}

static inline int bind_at(int type, uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    if (!bind(fd, (const struct sockaddr *)&address, sizeof address))
        return fd;
    close(fd);
    return -1;
}

/* 0: one that is free for both protocols. */
static uint16_t server_port;

static inline void bind_both(void)
{
    do {
        struct sockaddr_in address;
        socklen_t length = sizeof address;
        server.udp = bind_at(SOCK_DGRAM, htons(server_port));
        CHECK(server.udp >= 0);
        CHECK_EQ(getsockname(server.udp, (struct sockaddr *)&address, &length), 0);
        server.port = ntohs(address.sin_port);
        server.tcp = bind_at(SOCK_STREAM, address.sin_port);
        if (server.tcp < 0)
            close(server.udp);
    } while (server.tcp < 0);
    CHECK_EQ(listen(server.tcp, 100), 0);
    int size = 8 << 20; /* as a name server has it that is asked much */
    if (setsockopt(server.udp, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size))
        setsockopt(server.udp, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
}

static inline void start_server(void)
{
    memset(&server, 0, sizeof server);
    pthread_mutex_init(&server.mutex, NULL);
    server.random = 1;
    server.held = malloc(HELD_MAX * sizeof *server.held);
    CHECK(server.held);
    bind_both();
    CHECK_EQ(pipe(server.stop), 0);
    CHECK_EQ(pthread_create(&server.thread, NULL, serve, NULL), 0);
}

/* Whether this is the name that was asked last. */
static inline bool was_asked(const char *name)
{
    pthread_mutex_lock(&server.mutex);
    bool is_same = !strcmp(server.last_name, name);
    pthread_mutex_unlock(&server.mutex);
    return is_same;
}

static inline void stop_server(void)
{
    CHECK_EQ(write(server.stop[1], "", 1), 1);
    pthread_join(server.thread, NULL);
    close(server.udp);
    close(server.tcp);
    close(server.stop[0]);
    close(server.stop[1]);
    free(server.held);
}

#endif
