#include "load/monitor.h"

#include <gossamer/io.h>

#include <stdio.h>
#include <unistd.h>

static const uint64_t interval_ns = 250 * GS_MILLISECOND;

/* ---- Signals ---- */

static void wait_for_signal(struct load_monitor *monitor, int number)
{
    monitor->waiting_count++;
    if (!gs_wait_signal(number, GS_NEVER))
        monitor->on_interrupt(monitor->data);
}

static void *wait_for_interrupt(void *monitor)
{
    wait_for_signal(monitor, SIGINT);
    return NULL;
}

static void *wait_for_termination(void *monitor)
{
    wait_for_signal(monitor, SIGTERM);
    return NULL;
}

/* ---- Progress ---- */

static void *show_progress(void *argument)
{
    struct load_monitor *monitor = argument;
    uint64_t start_ns = gs_clock_now(), last_ns = start_ns, last_requests = 0;
    while (!gs_thread_sleep(gs_clock_after(last_ns, interval_ns))) {
        uint64_t now_ns = gs_clock_now();
        struct load_counts counts = monitor->read_counts(monitor->data);
        double elapsed = (double)(now_ns - start_ns) / (double)GS_SECOND;
        double interval = (double)(now_ns - last_ns) / (double)GS_SECOND;
        double rate = (double)(counts.requests - last_requests) / interval;
        fprintf(stderr, "\r\033[K%6.1f s  %llu requests  %.0f/s  %llu errors", elapsed,
                (unsigned long long)counts.requests, rate, (unsigned long long)counts.errors);
        last_ns = now_ns;
        last_requests = counts.requests;
    }
    fputs("\r\033[K", stderr);
    return NULL;
}

/* ---- Giving up ---- */

static void *give_up(void *argument)
{
    struct load_monitor *monitor = argument;
    if (!gs_thread_sleep(gs_clock_after(gs_clock_now(), monitor->give_up_ns)) &&
        !monitor->read_counts(monitor->data).has_answer)
        monitor->on_give_up(monitor->data);
    return NULL;
}

/* ---- Start and stop ---- */

static int spawn(struct load_monitor *monitor, const char *name, gs_thread_fn *fn)
{
    const struct gs_thread_attributes attributes = {
        .name = name, .priority = GS_PRIORITY_HIGH, .worker = 1};
    int err = gs_thread_spawn(&attributes, fn, monitor, &monitor->threads[monitor->thread_count]);
    monitor->thread_count += !err;
    return err;
}

int gs_load_monitor_start(struct load_monitor *monitor, const sigset_t *mask)
{
    int err = spawn(monitor, "interrupt", wait_for_interrupt);
    if (!err)
        err = spawn(monitor, "termination", wait_for_termination);
    if (!err && monitor->read_counts && isatty(STDERR_FILENO))
        err = spawn(monitor, "progress", show_progress);
    if (!err && monitor->read_counts && monitor->give_up_ns)
        err = spawn(monitor, "give up", give_up);
    while (!err && monitor->waiting_count < 2)
        gs_thread_yield();
    pthread_sigmask(SIG_SETMASK, mask, NULL);
    if (err)
        gs_load_monitor_stop(monitor);
    return err;
}

void gs_load_monitor_stop(struct load_monitor *monitor)
{
    for (unsigned i = 0; i < monitor->thread_count; i++) {
        gs_thread_cancel(monitor->threads[i]);
        (void)!gs_thread_join(monitor->threads[i], GS_NEVER, NULL);
    }
    monitor->thread_count = 0;
}
