#include "load/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

/* Clients begin at this pace, for a burst of connections would overflow an accept queue. */
static const uint64_t start_interval_ns = GS_MILLISECOND;
enum { CLIENTS_PER_INTERVAL = 128 };

static uint64_t thread_cpu_ns(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    uint64_t seconds = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
    return seconds * GS_SECOND +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * GS_MICROSECOND;
}

/* ---- Beginning and end ---- */

static void begin_measuring(struct load_worker *worker)
{
    worker->is_measuring = true;
    worker->begun_ns = gs_clock_now();
    worker->cpu_ns = thread_cpu_ns();
}

static void end_measuring(struct load_worker *worker)
{
    uint64_t now_ns = gs_clock_now();
    worker->ended_ns = now_ns;
    if (worker->is_measuring)
        worker->cpu_ns = thread_cpu_ns() - worker->cpu_ns;
    else
        worker->begun_ns = now_ns;
    worker->is_measuring = false;
}

static void on_measure(struct gs_timer *timer)
{
    begin_measuring(timer->watcher.data);
}

static void on_end(struct gs_timer *timer)
{
    struct load_worker *worker = timer->watcher.data;
    worker->is_over = true;
}

static void on_stop(struct gs_async *async)
{
    struct load_worker *worker = async->watcher.data;
    worker->is_over = true;
}

static void on_start(struct gs_timer *timer)
{
    struct load_worker *worker = timer->watcher.data;
    uint64_t intervals = (gs_clock_now() - worker->started_ns) / start_interval_ns + 1;
    size_t due = (size_t)intervals * CLIENTS_PER_INTERVAL;
    if (due > worker->client_count)
        due = worker->client_count;
    while (worker->clients_started < due && !worker->failure)
        worker->failure = gs_load_client_start(&worker->clients[worker->clients_started++], worker);
    worker->is_over |= worker->failure != 0;
    if (worker->clients_started == worker->client_count)
        gs_timer_stop(timer);
}

/* ---- For clients ---- */

bool gs_load_worker_claim(struct load_worker *worker, bool *ret_is_counted)
{
    *ret_is_counted = worker->is_measuring;
    if (!worker->is_limited || !worker->is_measuring)
        return true;
    if (!worker->left)
        return false;
    worker->left--;
    return true;
}

bool gs_load_worker_counts(const struct load_worker *worker, bool is_counted)
{
    return worker->is_measuring && (is_counted || !worker->is_limited);
}

void gs_load_worker_retire(struct load_worker *worker)
{
    worker->is_over |= --worker->clients_active == 0;
}

/* ---- Life cycle ---- */

static uint64_t part_of(uint64_t whole, struct load_share share)
{
    return whole / share.count + (share.index < whole % share.count);
}

static int allocate(struct load_worker *worker)
{
    size_t request_count = worker->target->request_count;
    worker->clients = calloc(worker->client_count, sizeof *worker->clients);
    worker->expected = calloc(request_count, sizeof *worker->expected);
    worker->buffer = malloc(LOAD_BUFFER);
    if (!worker->clients || !worker->expected || !worker->buffer)
        return -ENOMEM;
    for (size_t i = 0; i < request_count; i++)
        worker->expected[i] = (struct load_expected){worker->settings->expect_status,
                                                     worker->settings->expect_length};
    int err = gs_load_tally_init(&worker->tally, worker->settings->drop);
    return err ? err : gs_loop_new(&worker->loop);
}

int gs_load_worker_init(struct load_worker *worker, const struct load_settings *settings,
                        const struct load_target *target, struct load_share share)
{
    *worker = (struct load_worker){.settings = settings, .target = target};
    worker->client_count = worker->clients_active = (size_t)part_of(settings->connections, share);
    worker->left = part_of(settings->requests, share);
    worker->is_limited = settings->requests > 0;
    worker->is_head = gs_load_is_head(settings);
    worker->next_request = share.index % target->request_count;
    worker->sources_used = share.index;
    int err = allocate(worker);
    if (err) {
        gs_load_worker_done(worker);
        return err;
    }
    gs_timer_init(&worker->starter, worker->loop, on_start);
    gs_timer_init(&worker->measure, worker->loop, on_measure);
    gs_timer_init(&worker->end, worker->loop, on_end);
    gs_async_init(&worker->stop, worker->loop, on_stop);
    worker->starter.watcher.data = worker->measure.watcher.data = worker;
    worker->end.watcher.data = worker->stop.watcher.data = worker;
    gs_async_start(&worker->stop);
    return 0;
}

void gs_load_worker_done(struct load_worker *worker)
{
    gs_loop_free(worker->loop);
    gs_load_tally_done(&worker->tally);
    free(worker->buffer);
    free(worker->expected);
    free(worker->clients);
}

static int drive(struct load_worker *worker)
{
    int count = 0;
    gs_load_pace_begin();
    while (!worker->is_over && count >= 0)
        count = gs_load_pace_step(&worker->pace, worker->loop);
    return count < 0 ? count : 0;
}

int gs_load_worker_run(struct load_worker *worker)
{
    const struct load_settings *settings = worker->settings;
    uint64_t now_ns = gs_clock_now(), measure_ns = gs_clock_after(now_ns, settings->warmup_ns);
    worker->started_ns = now_ns;
    int err = gs_timer_start_every(&worker->starter, now_ns, start_interval_ns);
    if (!err && settings->warmup_ns)
        err = gs_timer_start(&worker->measure, measure_ns);
    if (!err && settings->duration_ns)
        err = gs_timer_start(&worker->end, gs_clock_after(measure_ns, settings->duration_ns));
    if (err)
        return err;
    if (!settings->warmup_ns)
        begin_measuring(worker);
    err = drive(worker);
    end_measuring(worker);
    for (size_t i = 0; i < worker->clients_started; i++)
        gs_load_client_stop(&worker->clients[i]);
    return err ? err : worker->failure;
}

void gs_load_worker_stop(struct load_worker *worker)
{
    gs_async_send(&worker->stop);
}
