/* The server's metrics, as a page in Prometheus's text format: counts of all workers and processes,
 * the kernel's counts for them, and the stages and queues of architectures that have any. */
#ifndef GS_SERVE_METRICS_H
#define GS_SERVE_METRICS_H

#include <gossamer/http.h>

struct serve_server;

/* path: below the root, without a leading slash; borrowed. */
struct gs_http_generator serve_metrics_generator(const struct serve_server *server,
                                                 const char *path);

#endif
