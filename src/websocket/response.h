/* A client's side of the handshake of WebSocket (RFC 6455, 4.1): its URL, and the answer. */
#ifndef GS_WEBSOCKET_RESPONSE_H
#define GS_WEBSOCKET_RESPONSE_H

#include "websocket/extension.h"
#include "websocket/key.h"

/* The parts of a URL, which point into it or are constants. */
struct gs_websocket_url {
    bool is_secure;                /* wss */
    struct gs_http_text authority; /* for the Host field */
    const char *port;              /* to be appended, with its colon; "": there is one */
    const char *slash;             /* "/" if the target does not begin with one; or "" */
    struct gs_http_text target;    /* path and query */
};

/* Returns false if it is no URL of ws or wss. */
bool gs_websocket_url_read(const char *url, struct gs_websocket_url *ret_url);

/* What a server has answered. */
struct gs_websocket_response {
    unsigned status;              /* 101, or the others are not set */
    struct gs_http_text protocol; /* no bytes: none */
    struct gs_websocket_agreement agreement;
};

/* Read the head of a response, which is complete (http/head_end.h). is_offered: the request had
 * GS_WEBSOCKET_EXTENSION_OFFER. Returns NULL; or why this is no answer to the key. */
const char *gs_websocket_response_read(struct gs_http_text head, const char key[GS_WEBSOCKET_KEY],
                                       bool is_offered, struct gs_websocket_response *ret_response);

#endif
