#include "load/limit.h"

#include <sys/resource.h>

/* Descriptors that are no connections: the standard ones and some inherited, and those of each
 * loop. */
enum { OF_PROCESS = 16, OF_LOOP = 8 };

static uint64_t raise_limit(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files))
        return RLIM_INFINITY;
    rlim_t soft = files.rlim_cur;
    files.rlim_cur = files.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &files) ? soft : files.rlim_cur;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t divide_up(uint64_t whole, uint64_t part)
{
    return whole / part + (whole % part > 0);
}

int gs_load_limit_check(struct load_settings *settings)
{
    uint64_t limit = raise_limit(), connections = settings->connections;
    uint64_t others = OF_PROCESS + OF_LOOP * (settings->workers + 1);
    uint64_t room = limit > others ? limit - others : 0;
    uint64_t most = settings->processes ? settings->processes : LOAD_MOST_PROCESSES;
    uint64_t in_all = room * most;
    if (!room || divide_up(connections, most) > room)
        return cli_fail(&gs_load_command,
                        "%llu connections are more than the limit of %llu open files allows: %llu "
                        "at most in %llu processes",
                        (unsigned long long)connections, (unsigned long long)limit,
                        (unsigned long long)in_all, (unsigned long long)most);
    if (!settings->processes)
        settings->processes = divide_up(connections, room);
    settings->processes = least(settings->processes, connections);
    settings->workers = least(settings->workers, connections / settings->processes);
    return 0;
}
