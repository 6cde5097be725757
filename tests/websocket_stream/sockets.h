/* A server of WebSocket and its clients, in one program. */
#ifndef GS_TESTS_WEBSOCKET_STREAM_SOCKETS_H
#define GS_TESTS_WEBSOCKET_STREAM_SOCKETS_H

#include "tests/http_server/serving.h"

#include <gossamer/websocket.h>

static inline uint64_t patience(void)
{
    return after(PATIENCE_NS);
}

/* Connect to the server. Returns 0 or -errno. */
static inline int dial_with(const struct gs_websocket_options *options, const char *path,
                            struct gs_websocket **ret_socket)
{
    char url[100], text[GS_WEBSOCKET_TEXT_SIZE] = "";
    snprintf(url, sizeof url, "ws://127.0.0.1:%d%s", ntohs(server_address.sin_port), path);
    int err = gs_websocket_connect(url, options, patience(), ret_socket, text);
    MUST_EQ(err != 0, *text != 0);
    return err;
}

static inline struct gs_websocket *dial(const struct gs_websocket_options *options,
                                        const char *path)
{
    struct gs_websocket *socket;
    MUST_EQ(dial_with(options, path, &socket), 0);
    return socket;
}

static inline void send_text(struct gs_websocket *socket, const char *text)
{
    MUST_EQ(gs_websocket_send(socket, GS_WEBSOCKET_TEXT, text, strlen(text), patience()), 0);
}

static inline void must_receive(struct gs_websocket *socket, const char *text)
{
    struct gs_websocket_message message;
    MUST_EQ(gs_websocket_receive(socket, &message, patience()), 0);
    MUST_EQ(message.type, GS_WEBSOCKET_TEXT);
    MUST_EQ(message.n, strlen(text));
    MUST(!strcmp(message.bytes, text));
}

static inline void must_close(struct gs_websocket *socket)
{
    MUST_EQ(gs_websocket_close(socket, GS_WEBSOCKET_NORMAL, "bye", patience()), 0);
}

/* Echo messages until the end. Returns it. */
static inline int echo_all(struct gs_websocket *socket)
{
    struct gs_websocket_message message;
    int err = 0;
    while (!err) {
        err = gs_websocket_receive(socket, &message, GS_NEVER);
        if (!err)
            err = gs_websocket_send(socket, message.type, message.bytes, message.n, patience());
    }
    return err;
}

#endif
