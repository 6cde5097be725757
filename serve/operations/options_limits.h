/* Limits that follow from those of the process. */
#ifndef GS_SERVE_OPTIONS_LIMITS_H
#define GS_SERVE_OPTIONS_LIMITS_H

#include "serve/operations/options.h"

/* Raise the limit of open files as far as possible, and check that there are descriptors for the
 * connections that were asked for. Returns 0, or -EINVAL after one line on stderr. */
GS_MUST_CHECK int serve_options_limit_connections(struct serve_options *options);

#endif
