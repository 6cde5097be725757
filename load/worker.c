#include "load/worker.h"
#include "src/base/sanitized.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

/* Clients start at this rate, as a burst of connections would overflow accept queues. A server
 * makes a few handshakes of TLS per millisecond: those of a burst would wait for seconds. */
static const uint64_t start_interval_ns = GS_MILLISECOND;
enum { CLIENTS_PER_INTERVAL = 128, TLS_CLIENTS_PER_INTERVAL = 4 };

/* A sanitizer makes frames larger, and TLS runs here, in place of the worker's stack. */
enum { CLIENT_STACK = GS_ASAN || GS_TSAN ? 128 << 10 : 16 << 10 };

static uint64_t thread_cpu_ns(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    uint64_t seconds = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
    return seconds * GS_SECOND +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * GS_MICROSECOND;
}

/* ---- For clients ---- */

bool gs_load_worker_is_measuring(const struct load_worker *worker, uint64_t at_ns)
{
    return at_ns >= worker->measure_ns && !worker->is_finished;
}

bool gs_load_worker_reserve_request(struct load_worker *worker, uint64_t at_ns,
                                    bool *ret_is_measured)
{
    *ret_is_measured = gs_load_worker_is_measuring(worker, at_ns);
    if (worker->is_finished)
        return false;
    if (!worker->has_request_limit || !*ret_is_measured)
        return true;
    if (!worker->requests_left)
        return false;
    worker->requests_left--;
    return true;
}

bool gs_load_worker_is_counted(const struct load_worker *worker, bool is_measured, uint64_t end_ns)
{
    return gs_load_worker_is_measuring(worker, end_ns) &&
           (is_measured || !worker->has_request_limit);
}

/* ---- The run ---- */

static void start_measuring(struct load_worker *worker)
{
    worker->start_ns = worker->measure_ns;
    worker->cpu_ns = thread_cpu_ns();
    worker->idle_ns = worker->poll.idle_ns;
    if (gs_load_is_open_loop(worker->settings))
        worker->start_lag_ns = gs_load_schedule_lag(&worker->schedule, worker->start_ns);
}

static void stop_measuring(struct load_worker *worker)
{
    worker->ended_ns = gs_clock_now();
    worker->is_finished = true;
    if (worker->start_ns) {
        worker->cpu_ns = thread_cpu_ns() - worker->cpu_ns;
        worker->idle_ns = worker->poll.idle_ns - worker->idle_ns;
    } else {
        worker->start_ns = worker->ended_ns;
    }
}

/* Sleep until at_ns, and start measuring if the measured time begins by then. Returns 0 or
 * -ECANCELED. */
static int sleep_until(struct load_worker *worker, uint64_t at_ns)
{
    int err = 0;
    if (!worker->start_ns && worker->measure_ns <= at_ns) {
        err = gs_thread_sleep(worker->measure_ns);
        if (!err)
            start_measuring(worker);
    }
    return err ? err : gs_thread_sleep(at_ns);
}

/* Start clients from next_ns on. Returns 0, -ECANCELED, or the error of a client that could not be
 * started. */
static int start_clients(struct load_worker *worker, unsigned number, uint64_t next_ns)
{
    const struct gs_thread_attributes attributes = {
        .name = "client", .stack_size = CLIENT_STACK, .worker = number};
    gs_thread_fn *run = worker->settings->is_http2 ? gs_load_http2_client_run : gs_load_client_run;
    int err = 0;
    size_t burst = worker->target->tls.context ? TLS_CLIENTS_PER_INTERVAL : CLIENTS_PER_INTERVAL;
    size_t *started = &worker->clients_started;
    while (!err && *started < worker->client_count && next_ns <= worker->end_ns) {
        if (*started % burst == 0) {
            err = sleep_until(worker, next_ns);
            next_ns = gs_clock_after(gs_clock_now(), start_interval_ns);
        }
        if (!err)
            err = gs_thread_spawn(&attributes, run, worker, &worker->clients[*started]);
        *started += !err;
    }
    return err;
}

/* Join the clients from *next on, and advance *next. Returns 0, or -ETIMEDOUT or -ECANCELED if
 * clients from *next on still run. */
static int join_clients(struct load_worker *worker, uint64_t deadline_ns, size_t *next)
{
    int err = 0;
    while (!err && *next < worker->clients_started) {
        err = gs_thread_join(worker->clients[*next], deadline_ns, NULL);
        *next += !err;
    }
    return err;
}

static void cancel_clients(struct load_worker *worker, size_t next)
{
    bool was_cancelable = gs_thread_set_cancelable(false);
    for (size_t i = next; i < worker->clients_started; i++)
        gs_thread_cancel(worker->clients[i]);
    (void)!join_clients(worker, GS_NEVER, &next);
    gs_thread_set_cancelable(was_cancelable);
}

/* The time reserved for the connections of an open loop, before its first request is scheduled. The
 * number of clients per worker differs by at most one. A TLS handshake takes a server up to a
 * millisecond. */
static uint64_t connect_time_ns(const struct load_worker *worker)
{
    uint64_t connections = worker->settings->connections;
    uint64_t clients = connections / worker->share.count;
    uint64_t handshakes_ns = worker->target->tls.context ? connections * GS_MILLISECOND : 0;
    return (clients / CLIENTS_PER_INTERVAL + 10) * start_interval_ns + handshakes_ns;
}

int gs_load_worker_run(struct load_worker *worker, unsigned number, uint64_t start_ns)
{
    const struct load_settings *settings = worker->settings;
    size_t next = 0;
    gs_load_busy_poll_set_timer_slack();
    gs_load_schedule_init(&worker->schedule, settings, worker->share,
                          start_ns +
                              (gs_load_is_open_loop(settings) ? connect_time_ns(worker) : 0));
    worker->measure_ns = gs_clock_after(worker->schedule.start_ns, settings->warmup_ns);
    worker->end_ns = settings->duration_ns
                         ? gs_clock_after(worker->measure_ns, settings->duration_ns)
                         : GS_NEVER;
    int err = start_clients(worker, number, start_ns);
    if (!err && !sleep_until(worker, worker->measure_ns))
        (void)!join_clients(worker, worker->end_ns, &next);
    stop_measuring(worker);
    cancel_clients(worker, next);
    return err == -ECANCELED ? 0 : err;
}

/* A lag below this is no sign of busy clients. */
static const uint64_t min_lag_ns = GS_MILLISECOND;

/* Of a time t, the schedule advanced by t less the growth of its lag. With -n, the time ends when
 * the last request is sent: clients that find none left have advanced the schedule since. */
double gs_load_worker_sent_rate(const struct load_worker *worker)
{
    double rate = worker->settings->rate / (double)worker->share.count;
    bool has_sent_all = worker->has_request_limit && !worker->requests_left;
    uint64_t until_ns = worker->end_ns < worker->ended_ns ? worker->end_ns : worker->ended_ns;
    uint64_t lag_ns;
    if (has_sent_all) {
        until_ns = worker->last_start_ns;
        lag_ns = until_ns > worker->last_scheduled_ns ? until_ns - worker->last_scheduled_ns : 0;
    } else {
        lag_ns = gs_load_schedule_lag(&worker->schedule, until_ns);
    }
    if (until_ns <= worker->start_ns || lag_ns < worker->start_lag_ns + min_lag_ns)
        return rate;
    uint64_t growth_ns = lag_ns - worker->start_lag_ns;
    return rate * (1 - (double)growth_ns / (double)(until_ns - worker->start_ns));
}

/* ---- Life cycle ---- */

static int allocate(struct load_worker *worker)
{
    size_t request_count = worker->target->request_count;
    worker->clients = calloc(worker->client_count, sizeof *worker->clients);
    worker->expected_lengths = calloc(request_count, sizeof *worker->expected_lengths);
    if (!worker->clients || !worker->expected_lengths)
        return -ENOMEM;
    for (size_t i = 0; i < request_count; i++)
        worker->expected_lengths[i] = worker->settings->expect_length;
    return gs_load_metrics_init(&worker->metrics, worker->settings->drop);
}

int gs_load_worker_init(struct load_worker *worker, const struct load_settings *settings,
                        const struct load_target *target, struct load_share share)
{
    *worker = (struct load_worker){.settings = settings, .target = target, .share = share};
    worker->client_count = (size_t)gs_load_share_of(settings->connections, share);
    worker->requests_left = gs_load_share_of(settings->requests, share);
    worker->has_request_limit = settings->requests > 0;
    worker->is_head = gs_load_is_head(settings);
    worker->next_request = share.index % target->request_count;
    worker->sources_used = share.index;
    return allocate(worker);
}

void gs_load_worker_done(struct load_worker *worker)
{
    gs_load_metrics_done(&worker->metrics);
    free(worker->expected_lengths);
    free(worker->clients);
}
