/* How many files a process may have open, and how many processes that makes. */
#ifndef GS_LOAD_LIMIT_H
#define GS_LOAD_LIMIT_H

#include "load/settings.h"

/* Raise the limit as far as this process may, and set the number of processes if it was not given:
 * each has its share of the connections, which must fit. Nor are there more processes, and workers,
 * than connections. Returns 0, or -EINVAL after a line on stderr. */
GS_MUST_CHECK int gs_load_limit_check(struct load_settings *settings);

#endif
