/* What the server did and does, as a page in Prometheus's text format: counts of all workers and processes, what the kernel knows of
 * them, and the stages and queues of architectures that have such. */
#ifndef GS_SERVE_METRICS_H
#define GS_SERVE_METRICS_H

#include <gossamer/http.h>

struct serve_server;

/* path: below the root, without a slash in front; borrowed. */
struct gs_http_maker serve_metrics_maker(const struct serve_server *server, const char *path);

#endif
