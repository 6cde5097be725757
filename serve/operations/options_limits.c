#include "serve/operations/options_limits.h"

#include "serve/arch/arch.h"

#include <sched.h>
#include <sys/resource.h>

/* Descriptors that are not connections: listeners, logs, pollers, cached files. */
#define OTHER_DESCRIPTORS 64

/* Of each worker, at most a quarter in all: so that those who download the same files
 * share them. */
#define CACHED_DESCRIPTORS_MIN 8

uint64_t serve_processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : (uint64_t)CPU_COUNT(&set);
}

static uint64_t descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return 1024;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_max;
}

int serve_options_limit_connections(struct serve_options *options)
{
    uint64_t loops = options->arch->has_single_listener ? 1 : options->workers;
    uint64_t others =
        OTHER_DESCRIPTORS + options->config.hosts.count + loops * (4 + options->listen.count);
    uint64_t limit = descriptors();
    uint64_t max = limit > others ? limit - others : 1;
    if (options->max_connections > max)
        return serve_options_refuse(
            "--max-connections %llu is more than the limit of %llu open files allows: %llu",
            (unsigned long long)options->max_connections, (unsigned long long)limit,
            (unsigned long long)max);
    uint64_t max_default = max < 10000 ? max : 10000;
    if (!options->max_connections)
        options->max_connections = max_default;
    if (options->arch->has_worker_per_connection && options->workers > options->max_connections)
        options->workers = options->max_connections;
    uint64_t left = (max - options->max_connections) / options->workers;
    uint64_t least = max / 4 / options->workers;
    least = least < CACHED_DESCRIPTORS_MIN ? least : CACHED_DESCRIPTORS_MIN;
    left = left < least ? least : left;
    options->http.max_cached_descriptors = (unsigned)(left < 256 ? left : 256);
    options->max_descriptors = max;
    return 0;
}
