/* `gossamer serve --check`: what the start would find wrong, without a start. */
#ifndef GS_SERVE_CHECK_H
#define GS_SERVE_CHECK_H

#include "serve/operations/options.h"

/* Check addresses, directories, certificates and the user. Nothing is opened that anyone else
 * notices. Prints OK, or lines on stderr. Returns the exit status. */
int serve_check(const struct serve_options *options);

#endif
