/* Whether the options of TLS fit together. */
#ifndef GS_SERVE_OPTIONS_TLS_H
#define GS_SERVE_OPTIONS_TLS_H

#include "serve/operations/options.h"

/* logs_tls: its fields are asked for in the log. Returns 0, or -EINVAL after one line on stderr. */
GS_MUST_CHECK int serve_options_choose_tls(const struct serve_options *options, bool logs_tls);

#endif
