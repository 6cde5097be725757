/* A client of HTTP/2, by libnghttp2, whose peer is the connection of a driver (tests/http/drive.h).
 *
 *     client_start(&client, NULL);
 *     int32_t id = client_get(&client, "GET", "/f", NULL, NULL);
 *     client_exchange(&client);
 *     client.streams[id].status                                 200 */
#ifndef GS_TESTS_HTTP2_CLIENT_H
#define GS_TESTS_HTTP2_CLIENT_H

#include "http2/http2.h"
#include "tests/http/drive.h"

#include <nghttp2/nghttp2.h>

#define CLIENT_STREAMS 512
#define CLIENT_FRAMES 64

struct client_stream {
    unsigned status;
    size_t body_n;
    bool is_closed;
    uint32_t error;
    bool awaits_continue; /* before it sends its body */
    char fields[600];     /* "name: value\n" */
    char body[64];        /* its beginning */
};

struct client {
    struct drive drive;
    nghttp2_session *session;
    size_t taken; /* of the driver's output */
    unsigned goaways, pings;
    int32_t frames[CLIENT_FRAMES]; /* the streams of the first frames of DATA */
    unsigned frame_count;
    struct client_stream streams[CLIENT_STREAMS]; /* by number */
};

/* Start the driver and the session. options: NULL for the defaults. */
void client_start(struct client *client, const struct gs_http_options *options);

/* The same with another connection of the driver. settings: of the client. */
void client_reopen(struct client *client, const nghttp2_settings_entry *settings, size_t count);

/* Returns the number of leaked descriptors. */
int client_stop(struct client *client);

/* Send a request, with another field unless name is NULL. Returns its stream. */
int32_t client_get(struct client *client, const char *method, const char *path, const char *name,
                   const char *value);

/* Send a request with these fields alone, names and values in turn, which end with NULL. */
int32_t client_send_fields(struct client *client, const char *const *fields);

/* The same as client_get with a body of n bytes. */
int32_t client_post(struct client *client, const char *path, size_t n);

/* The same, and the body waits for status 100. */
int32_t client_post_expecting(struct client *client, const char *path, size_t n);

/* Whether the connection sends nothing more. */
bool client_is_over(const struct client *client);

/* Send and receive until neither has anything to send. */
void client_exchange(struct client *client);

#endif
