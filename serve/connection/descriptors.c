#include "serve/connection/descriptors.h"

#include <gossamer/http.h>
#include <stdatomic.h>

static uint64_t limit = UINT64_MAX;
static _Atomic(uint64_t) used;

void serve_descriptors_limit(uint64_t max)
{
    limit = max;
}

void serve_descriptors_accepted(void)
{
    atomic_fetch_add_explicit(&used, 2, memory_order_relaxed);
}

void serve_descriptors_answered(void)
{
    atomic_fetch_sub_explicit(&used, 1, memory_order_relaxed);
}

void serve_descriptors_closed(bool has_answered)
{
    atomic_fetch_sub_explicit(&used, has_answered ? 1 : 2, memory_order_relaxed);
}

bool serve_descriptors_are_ample(void)
{
    uint64_t sockets = atomic_load_explicit(&used, memory_order_relaxed);
    return sockets + gs_http_open_files() + limit / 4 <= limit;
}

bool serve_descriptors_are_short(void)
{
    uint64_t sockets = atomic_load_explicit(&used, memory_order_relaxed);
    return sockets && sockets + gs_http_open_files() + 2 > limit;
}
