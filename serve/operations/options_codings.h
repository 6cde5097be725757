/* Options for compression. */
#ifndef GS_SERVE_OPTIONS_CODINGS_H
#define GS_SERVE_OPTIONS_CODINGS_H

#include "serve/operations/options.h"

/* Take the codings of a list; NULL: none. Where workers share no memory, there are none, and a line
 * on stderr says so. Returns 0, or -EINVAL after one line on stderr. */
GS_MUST_CHECK int serve_options_choose_codings(struct serve_options *options, const char *list);

#endif
