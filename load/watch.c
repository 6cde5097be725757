#include "load/watch.h"

#include <gossamer/io.h>

#include <stdio.h>
#include <unistd.h>

static const uint64_t interval_ns = 250 * GS_MILLISECOND;

/* ---- Signals ---- */

static void wait_for(struct load_watch *watch, int number)
{
    watch->waiting++;
    if (!gs_wait_signal(number, GS_NEVER))
        watch->interrupt(watch->data);
}

static void *wait_for_interrupt(void *watch)
{
    wait_for(watch, SIGINT);
    return NULL;
}

static void *wait_for_termination(void *watch)
{
    wait_for(watch, SIGTERM);
    return NULL;
}

/* ---- Progress ---- */

static void *show_progress(void *argument)
{
    struct load_watch *watch = argument;
    uint64_t begun_ns = gs_clock_now(), last_ns = begun_ns, last_requests = 0;
    while (!gs_thread_sleep(gs_clock_after(last_ns, interval_ns))) {
        uint64_t now_ns = gs_clock_now();
        struct load_counts counts = watch->count(watch->data);
        double elapsed = (double)(now_ns - begun_ns) / (double)GS_SECOND;
        double since = (double)(now_ns - last_ns) / (double)GS_SECOND;
        double rate = (double)(counts.requests - last_requests) / since;
        fprintf(stderr, "\r\033[K%6.1f s  %llu requests  %.0f/s  %llu errors", elapsed,
                (unsigned long long)counts.requests, rate, (unsigned long long)counts.errors);
        last_ns = now_ns;
        last_requests = counts.requests;
    }
    fputs("\r\033[K", stderr);
    return NULL;
}

/* ---- Beginning and end ---- */

static int start(struct load_watch *watch, const char *name, gs_thread_fn *fn)
{
    const struct gs_thread_attributes attributes = {
        .name = name, .priority = GS_PRIORITY_HIGH, .worker = 1};
    int err = gs_thread_spawn(&attributes, fn, watch, &watch->threads[watch->count_of_threads]);
    watch->count_of_threads += !err;
    return err;
}

int gs_load_watch_start(struct load_watch *watch, const sigset_t *mask)
{
    int err = start(watch, "interrupt", wait_for_interrupt);
    if (!err)
        err = start(watch, "termination", wait_for_termination);
    if (!err && watch->count && isatty(STDERR_FILENO))
        err = start(watch, "progress", show_progress);
    while (!err && watch->waiting < 2)
        gs_thread_yield();
    pthread_sigmask(SIG_SETMASK, mask, NULL);
    if (err)
        gs_load_watch_stop(watch);
    return err;
}

void gs_load_watch_stop(struct load_watch *watch)
{
    for (unsigned i = 0; i < watch->count_of_threads; i++) {
        gs_thread_cancel(watch->threads[i]);
        (void)!gs_thread_join(watch->threads[i], GS_NEVER, NULL);
    }
    watch->count_of_threads = 0;
}
