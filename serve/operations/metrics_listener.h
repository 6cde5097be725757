/* A listener for the page of metrics alone (--metrics-listen): what the server counts is then told
 * to those who reach this address, and nobody else. Its connections are served by the loop of the
 * main thread, in every architecture, and count for nothing. */
#ifndef GS_SERVE_METRICS_LISTENER_H
#define GS_SERVE_METRICS_LISTENER_H

#include "serve/accept/address.h"
#include "serve/operations/options.h"

#include <gossamer/http.h>
#include <gossamer/loop.h>

struct serve_server;

#define SERVE_METRICS_CONNECTIONS 16

struct serve_metrics_connection {
    struct gs_http_conn http;
    struct gs_io io;
    struct gs_timer expiry;
    struct serve_metrics_listener *listener;
};

struct serve_metrics_listener {
    struct serve_address address;
    int fd; /* -1: there is none */
    struct gs_http_counts counts;
    struct gs_http_service *service;
    struct gs_io io;
    unsigned open;
    struct serve_metrics_connection *connections[SERVE_METRICS_CONNECTIONS];
};

/* Listen at the address of the options, if there is one. Returns 0 or -errno. */
GS_MUST_CHECK int serve_metrics_listener_open(struct serve_metrics_listener *listener,
                                              const struct serve_options *options);

/* Serve the metrics, by this loop. Returns 0 or -errno. */
GS_MUST_CHECK int serve_metrics_listener_start(struct serve_metrics_listener *listener,
                                               const struct serve_server *server,
                                               struct gs_loop *loop);

/* Close all connections; the loop is not freed yet. */
void serve_metrics_listener_stop(struct serve_metrics_listener *listener);

void serve_metrics_listener_close(struct serve_metrics_listener *listener);

#endif
