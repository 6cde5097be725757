#include "tests/fault/session.h"

#include "tests/fault/client.h"

#include <gossamer/clock.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HOST " HTTP/1.1\r\nHost: a\r\n"
#define COUNT(array_) (sizeof(array_) / sizeof *(array_))
#define TEXT(text_) .body = (text_), .body_n = sizeof(text_) - 1

#define CROWD_MAX 8

/* Of 200 us: only a server that hangs makes a client wait as long, also on a busy machine. */
#define PATIENT_TRIES 50000

struct play {
    unsigned port;
    bool strict;
    bool failed;
};

struct exchange {
    const char *request;
    struct client_answer answer;
};

static const struct client_answer small = {
    .status = 200, .body = server_small, .body_n = SERVER_SMALL};
static const struct client_answer large = {
    .status = 200, .body = server_large, .body_n = SERVER_LARGE};

/* Returns whether the exchange can continue. */
static bool ok(struct play *play, enum client_result result)
{
    play->failed |= result == CLIENT_WRONG || (play->strict && result != CLIENT_RIGHT);
    return !play->failed && result != CLIENT_BROKEN;
}

static bool ask(struct play *play, struct client *client, const char *request,
                const struct client_answer *answer)
{
    return ok(play, client_send(client, request)) && ok(play, client_receive(client, answer));
}

static bool ask_all(struct play *play, struct client *client, const struct exchange *exchanges,
                    size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!ask(play, client, exchanges[i].request, &exchanges[i].answer))
            return false;
    return true;
}

/* ---- One client ---- */

static void keep_alive(struct play *play, struct client *client)
{
    static const struct exchange exchanges[] = {
        {"GET /small.txt" HOST "\r\n", {200, server_small, SERVER_SMALL}},
        {"HEAD /small.txt" HOST "\r\n", {200, .is_head = true}},
        {"GET /missing" HOST "\r\n", {404, TEXT("404 Not Found\n")}},
        {"GET /folder" HOST "\r\n", {301, TEXT("301 Moved Permanently\n")}},
        {"GET /folder/" HOST "\r\n", {200, TEXT(SERVER_INDEX)}},
        {"GET /empty/" HOST "\r\n", {403, TEXT("403 Forbidden\n")}},
        {"GET /small.txt" HOST "If-None-Match: *\r\n\r\n", {304, TEXT("")}},
        {"GET /small.txt" HOST "Range: bytes=5-14\r\n\r\n", {206, server_small + 5, 10}},
        {"OPTIONS *" HOST "\r\n", {200, TEXT("")}},
    };
    ask_all(play, client, exchanges, COUNT(exchanges));
}

static void send_bodies(struct play *play, struct client *client)
{
    static const struct client_answer refused = {405, TEXT("405 Method Not Allowed\n")},
                                      go_on = {100, TEXT("")};
    if (!ok(play, client_send(client,
                              "POST /small.txt" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nhel")))
        return;
    if (!ask(play, client, "lo\r\n3\r\nabc\r\n0\r\n\r\n", &refused))
        return;
    if (!ask(play, client,
             "GET /small.txt" HOST "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n", &go_on))
        return;
    ask(play, client, "hello", &small);
}

static void take_large(struct play *play, struct client *client)
{
    ask(play, client, "GET /large.bin" HOST "\r\n", &large);
}

#define ANY_4 "\001\001\001\001"
#define BOUNDARY "--gossamer-" ANY_4 ANY_4 ANY_4 ANY_4
#define PART BOUNDARY "\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes "

static void take_ranges(struct play *play, struct client *client)
{
    char body[512];
    int n = snprintf(body, sizeof body,
                     PART "0-9/200000\r\n\r\n%.10s\r\n" PART
                          "100000-100019/200000\r\n\r\n%.20s\r\n" BOUNDARY "--\r\n",
                     server_large, server_large + 100000);
    struct client_answer answer = {206, body, (size_t)n};
    ask(play, client, "GET /large.bin" HOST "Range: bytes=0-9, 100000-100019\r\n\r\n", &answer);
}

static void pipeline(struct play *play, struct client *client)
{
    static const char get[] = "GET /small.txt" HOST "\r\n";
    char text[6 * sizeof get];
    int n = snprintf(text, sizeof text, "%s%s%s%s%.20s", get, get, get, get, get);
    if (n < 0 || !ok(play, client_send(client, text)))
        return;
    for (int i = 0; i < 4; i++)
        if (!ok(play, client_receive(client, &small)))
            return;
    ask(play, client, get + 20, &small);
}

/* A header that arrives in parts, each received before the next one is sent, and that outgrows the
 * buffer for the first part. */
static void ask_in_parts(struct play *play, struct client *client)
{
    static const char *const parts[] = {"GET /small.txt HTTP/1.1\r\nHo", "st: a\r\nLong: "};
    char rest[1501];
    for (size_t i = 0; i < COUNT(parts); i++) {
        unsigned before = fault_made(FAULT_RECV);
        if (!ok(play, client_send(client, parts[i])))
            return;
        for (int tries = 0; tries < PATIENT_TRIES && fault_made(FAULT_RECV) == before; tries++) {
            if (client_hears(client))
                return;
            usleep(200);
        }
    }
    memset(rest, 'x', sizeof rest - 5);
    memcpy(rest + sizeof rest - 5, "\r\n\r\n", 5);
    ask(play, client, rest, &small);
}

static void ask_once(struct play *play, struct client *client)
{
    if (ask(play, client, "GET /small.txt" HOST "Connection: close\r\n\r\n", &small))
        ok(play, client_receive_end(client));
}

static void ask_badly(struct play *play, struct client *client)
{
    static const struct client_answer refused = {400, TEXT("400 Bad Request\n")};
    if (ask(play, client, "GET /small.txt HTTP/1.1\nHost: a\n\nmore", &refused))
        ok(play, client_receive_end(client));
}

/* The client resets the connection while the server has more to send than the sockets buffer. */
static void reset_early(struct play *play, struct client *client)
{
    if (ok(play, client_send(client, "GET /large.bin" HOST "\r\n")) &&
        ok(play, client_wait(client, 1)))
        client_reset(client);
}

typedef void exchange_fn(struct play *play, struct client *client);

static void run_exchange(struct play *play, exchange_fn *run, bool small_buffer)
{
    struct client client;
    if (ok(play, client_open(&client, play->port, small_buffer)))
        run(play, &client);
    client_close(&client);
}

/* ---- Several clients at a time ---- */

/* All clients send their request before any of them receives. huge: the clients leave most of their
 * responses unread, and the server must keep them, because a multipart response continues with text
 * after the file. */
static void crowd(struct play *play, size_t count, bool huge)
{
    const char *request = huge ? "GET /huge.bin" HOST "Range: bytes=0-9999999, -9999999\r\n\r\n"
                               : "GET /small.txt" HOST "\r\n";
    struct client clients[CROWD_MAX];
    bool is_open[CROWD_MAX];
    for (size_t i = 0; i < count; i++)
        is_open[i] = ok(play, client_open(&clients[i], play->port, huge)) &&
                     ok(play, client_send(&clients[i], request));
    for (size_t i = 0; i < count; i++)
        if (is_open[i])
            ok(play, huge ? client_wait(&clients[i], 1) : client_receive(&clients[i], &small));
    for (size_t i = 0; i < count; i++)
        client_close(&clients[i]);
}

/* Move the server's clock while its threads wait: a busy thread may still use the earlier time. */
static void pass_when_idle(uint64_t ns)
{
    for (int tries = 0; tries < PATIENT_TRIES && fault_waiting() != 2; tries++)
        usleep(200);
    fault_pass(ns);
}

/* A header that is never completed is refused after its timeout. The server sleeps in the kernel's
 * time, so a request wakes it after its clock has moved. */
static void send_too_slowly(struct play *play, struct client *client)
{
    static const struct client_answer refused = {408, TEXT("408 Request Timeout\n")};
    struct pollfd event = {.fd = client->fd, .events = POLLIN};
    if (!ok(play, client_send(client, "GET /small.txt HTT")))
        return;
    for (int tries = 0; tries < 100; tries++) {
        run_exchange(play, ask_once, false);
        pass_when_idle(1001 * GS_SECOND);
        run_exchange(play, ask_once, false);
        if (poll(&event, 1, 10) > 0)
            break;
    }
    if (ok(play, client_receive(client, &refused)))
        ok(play, client_receive_end(client));
}

/* ---- Sessions ---- */

static const char *result_of(const struct play *play)
{
    if (!play->failed)
        return NULL;
    return client_problem()[0] ? client_problem() : "a connection broke, or a request was refused";
}

/* Make the cached pages stale. */
static void make_stale(void)
{
    server_touch();
    fault_pass(GS_SECOND);
}

const char *session_warm(const struct server *server)
{
    struct play play = {.port = server->port, .strict = true};
    crowd(&play, CROWD_MAX, true);
    return result_of(&play);
}

const char *session_play(const struct server *server, bool strict)
{
    static const struct {
        exchange_fn *run;
        bool small_buffer;
    } exchanges[] = {{keep_alive, false},     {send_bodies, false}, {take_large, true},
                     {take_ranges, false},    {pipeline, false},    {ask_in_parts, false},
                     {ask_once, false},       {ask_badly, false},   {reset_early, true},
                     {send_too_slowly, false}};
    struct play play = {.port = server->port, .strict = strict};
    make_stale();
    for (size_t i = 0; i < COUNT(exchanges) && !play.failed; i++)
        run_exchange(&play, exchanges[i].run, exchanges[i].small_buffer);
    if (!play.failed)
        crowd(&play, 4, false);
    return result_of(&play);
}

#define GOOD HOST "User-Agent: " SESSION_MARK "\r\n"

static void ask_well(struct play *play, struct client *client)
{
    static const struct exchange exchanges[] = {
        {"GET /small.txt" GOOD "\r\n", {200, server_small, SERVER_SMALL}},
        {"HEAD /huge.bin" GOOD "\r\n", {200, .is_head = true}},
        {"GET /folder/" GOOD "\r\n", {200, TEXT(SERVER_INDEX)}},
        {"GET /large.bin" GOOD "Range: bytes=1000-1999\r\n\r\n", {206, server_large + 1000, 1000}},
        {"GET /missing" GOOD "\r\n", {404, TEXT("404 Not Found\n")}},
    };
    char text[2048];
    size_t n = 0;
    for (size_t i = 0; i < COUNT(exchanges); i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s", exchanges[i].request);
    for (int round = 0; round < 4; round++) {
        if (!ok(play, client_send(client, text)))
            return;
        for (size_t i = 0; i < COUNT(exchanges); i++)
            if (!ok(play, client_receive(client, &exchanges[i].answer)))
                return;
    }
}

const char *session_good(const struct server *server)
{
    struct play play = {.port = server->port, .strict = true};
    make_stale();
    for (int i = 0; i < SESSION_GOOD / 20 && !play.failed; i++)
        run_exchange(&play, ask_well, false);
    return result_of(&play);
}

const char *session_ask(const struct server *server, bool strict)
{
    struct play play = {.port = server->port, .strict = strict};
    run_exchange(&play, ask_once, false);
    return result_of(&play);
}
