/* How many files a process may have open. */
#ifndef GS_LOAD_LIMIT_H
#define GS_LOAD_LIMIT_H

#include "load/settings.h"

/* Raise the limit as far as this process may, and check that the connections and all else fit.
 * Returns 0, or -EINVAL after a line on stderr. */
GS_MUST_CHECK int gs_load_limit_check(const struct load_settings *settings);

#endif
