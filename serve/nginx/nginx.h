/* Configurations of nginx: what of them is about static files becomes a file for --config.
 *
 *     struct serve_report report = {.out = stderr};
 *     int err = serve_nginx_convert("/etc/nginx/nginx.conf", stdout, &report);
 *
 * A directive that cannot be said is reported with its file and line, and left out. */
#ifndef GS_SERVE_NGINX_H
#define GS_SERVE_NGINX_H

#include "serve/config/report.h"

#include <gossamer/api.h>

/* Returns 0; or -errno after a report, if a file cannot be read, or is no configuration. */
GS_MUST_CHECK int serve_nginx_convert(const char *file, FILE *out, struct serve_report *report);

#endif
