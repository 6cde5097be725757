#include "load/limit.h"

#include <sys/resource.h>

/* Descriptors that are no connections: the standard ones and some inherited, and those of each
 * loop. */
enum { OF_PROCESS = 16, OF_LOOP = 8 };

int gs_load_limit_check(const struct load_settings *settings)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files))
        return 0;
    rlim_t soft = files.rlim_cur;
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files))
        files.rlim_cur = soft;
    uint64_t limit = files.rlim_cur, others = OF_PROCESS + OF_LOOP * (settings->threads + 1);
    if (settings->connections <= limit && settings->connections + others <= limit)
        return 0;
    uint64_t room = limit > others ? limit - others : 0;
    return cli_fail(
        &gs_load_command,
        "%llu connections are more than the limit of %llu open files allows: %llu at most",
        (unsigned long long)settings->connections, (unsigned long long)limit,
        (unsigned long long)room);
}
