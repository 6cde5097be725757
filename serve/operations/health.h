/* A page for those who only ask whether the server answers, such as a load balancer: it is not
 * logged, and does not count for --requests-per-connection. */
#ifndef GS_SERVE_HEALTH_H
#define GS_SERVE_HEALTH_H

#include <gossamer/http.h>

/* path: below the root, without a leading slash; borrowed. */
struct gs_http_generator serve_health_generator(const char *path);

#endif
