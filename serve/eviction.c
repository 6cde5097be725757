#include "serve/eviction.h"

#include "serve/error_log.h"

#include <gossamer/clock.h>

#define REPORT_NS (60 * GS_SECOND)

void serve_eviction_count(struct serve_evictions *evictions)
{
    uint64_t count = atomic_fetch_add(&evictions->count, 1) + 1;
    uint64_t now_ns = gs_clock_now(), due_ns = atomic_load(&evictions->report_ns);
    if (now_ns >= due_ns &&
        atomic_compare_exchange_strong(&evictions->report_ns, &due_ns, now_ns + REPORT_NS))
        serve_warn("--max-connections are open, idle ones are closed for others (%llu until now)",
                   (unsigned long long)count);
}
