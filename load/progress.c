#include "load/progress.h"

#include <stdio.h>
#include <unistd.h>

static const uint64_t interval_ns = 250 * GS_MILLISECOND;

static void show(struct gs_timer *timer)
{
    struct load_progress *progress = timer->watcher.data;
    uint64_t now_ns = gs_clock_now();
    struct load_counts counts = progress->count(progress->data);
    double elapsed = (double)(now_ns - progress->begun_ns) / (double)GS_SECOND;
    double since = (double)(now_ns - progress->last_ns) / (double)GS_SECOND;
    double rate = (double)(counts.requests - progress->last_requests) / since;
    fprintf(stderr, "\r\033[K%6.1f s  %llu requests  %.0f/s  %llu errors", elapsed,
            (unsigned long long)counts.requests, rate, (unsigned long long)counts.errors);
    progress->last_ns = now_ns;
    progress->last_requests = counts.requests;
    progress->is_shown = true;
}

int gs_load_progress_start(struct load_progress *progress, struct gs_loop *loop,
                           load_count_fn *count, void *data)
{
    uint64_t now_ns = gs_clock_now();
    *progress =
        (struct load_progress){.count = count, .data = data, .begun_ns = now_ns, .last_ns = now_ns};
    gs_timer_init(&progress->timer, loop, show);
    progress->timer.watcher.data = progress;
    if (!isatty(STDERR_FILENO))
        return 0;
    return gs_timer_start_every(&progress->timer, gs_clock_after(now_ns, interval_ns), interval_ns);
}

void gs_load_progress_stop(struct load_progress *progress)
{
    gs_timer_stop(&progress->timer);
    if (progress->is_shown)
        fputs("\r\033[K", stderr);
}
