#include "load/worker.h"

#include "load/client.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

/* Clients begin at this pace, for a burst of connections would overflow an accept queue. */
static const uint64_t start_interval_ns = GS_MILLISECOND;
enum { CLIENTS_PER_INTERVAL = 128, CLIENT_STACK = 16 * 1024 };

static uint64_t cpu_of_thread_ns(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    uint64_t seconds = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
    return seconds * GS_SECOND +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * GS_MICROSECOND;
}

/* ---- For clients ---- */

bool gs_load_worker_measures(const struct load_worker *worker, uint64_t at_ns)
{
    return at_ns >= worker->measure_ns && !worker->is_over;
}

bool gs_load_worker_claim(struct load_worker *worker, uint64_t at_ns, bool *ret_is_counted)
{
    *ret_is_counted = gs_load_worker_measures(worker, at_ns);
    if (worker->is_over)
        return false;
    if (!worker->is_limited || !*ret_is_counted)
        return true;
    if (!worker->left)
        return false;
    worker->left--;
    return true;
}

bool gs_load_worker_counts(const struct load_worker *worker, bool is_counted, uint64_t end_ns)
{
    return gs_load_worker_measures(worker, end_ns) && (is_counted || !worker->is_limited);
}

/* ---- The run ---- */

static void begin_measuring(struct load_worker *worker)
{
    worker->begun_ns = worker->measure_ns;
    worker->cpu_ns = cpu_of_thread_ns();
    worker->idle_ns = worker->pace.idle_ns;
}

static void end_measuring(struct load_worker *worker)
{
    worker->ended_ns = gs_clock_now();
    worker->is_over = true;
    if (worker->begun_ns) {
        worker->cpu_ns = cpu_of_thread_ns() - worker->cpu_ns;
        worker->idle_ns = worker->pace.idle_ns - worker->idle_ns;
    } else {
        worker->begun_ns = worker->ended_ns;
    }
}

/* Returns 0, or -ECANCELED. */
static int wait_until(struct load_worker *worker, uint64_t at_ns)
{
    int err = 0;
    if (!worker->begun_ns && worker->measure_ns <= at_ns) {
        err = gs_thread_sleep(worker->measure_ns);
        if (!err)
            begin_measuring(worker);
    }
    return err ? err : gs_thread_sleep(at_ns);
}

/* From next_ns on. Returns 0, -ECANCELED, or why a client could not begin. */
static int start_clients(struct load_worker *worker, unsigned number, uint64_t next_ns)
{
    const struct gs_thread_attributes attributes = {
        .name = "client", .stack_size = CLIENT_STACK, .worker = number};
    int err = 0;
    size_t *started = &worker->clients_started;
    while (!err && *started < worker->client_count && next_ns <= worker->end_ns) {
        if (*started % CLIENTS_PER_INTERVAL == 0) {
            err = wait_until(worker, next_ns);
            next_ns = gs_clock_after(gs_clock_now(), start_interval_ns);
        }
        if (!err)
            err = gs_thread_spawn(&attributes, gs_load_client_run, worker,
                                  &worker->clients[*started]);
        *started += !err;
    }
    return err;
}

/* Returns 0, or -ETIMEDOUT or -ECANCELED: then those from *left on have not ended. */
static int join_clients(struct load_worker *worker, uint64_t deadline_ns, size_t *left)
{
    int err = 0;
    while (!err && *left < worker->clients_started) {
        err = gs_thread_join(worker->clients[*left], deadline_ns, NULL);
        *left += !err;
    }
    return err;
}

static void stop_clients(struct load_worker *worker, size_t left)
{
    bool was_cancelable = gs_thread_set_cancelable(false);
    for (size_t i = left; i < worker->clients_started; i++)
        gs_thread_cancel(worker->clients[i]);
    (void)!join_clients(worker, GS_NEVER, &left);
    gs_thread_set_cancelable(was_cancelable);
}

/* Before the first request of an open loop is due, its connections are made. All workers have as many
 * clients, but for one. */
static uint64_t time_to_connect_ns(const struct load_worker *worker)
{
    uint64_t clients = worker->settings->connections / worker->share.count;
    return (clients / CLIENTS_PER_INTERVAL + 10) * start_interval_ns;
}

int gs_load_worker_run(struct load_worker *worker, unsigned number, uint64_t start_ns)
{
    const struct load_settings *settings = worker->settings;
    size_t left = 0;
    gs_load_pace_begin();
    gs_load_schedule_init(&worker->schedule, settings, worker->share,
                          start_ns + (settings->rate ? time_to_connect_ns(worker) : 0));
    worker->measure_ns = gs_clock_after(worker->schedule.start_ns, settings->warmup_ns);
    worker->end_ns = settings->duration_ns
                         ? gs_clock_after(worker->measure_ns, settings->duration_ns)
                         : GS_NEVER;
    int failure = start_clients(worker, number, start_ns);
    if (!failure && !wait_until(worker, worker->measure_ns))
        (void)!join_clients(worker, worker->end_ns, &left);
    end_measuring(worker);
    stop_clients(worker, left);
    return failure == -ECANCELED ? 0 : failure;
}

/* ---- Life cycle ---- */

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
    return gs_load_tally_init(&worker->tally, worker->settings->drop);
}

int gs_load_worker_init(struct load_worker *worker, const struct load_settings *settings,
                        const struct load_target *target, struct load_share share)
{
    *worker = (struct load_worker){.settings = settings, .target = target, .share = share};
    worker->client_count = (size_t)gs_load_share_of(settings->connections, share);
    worker->left = gs_load_share_of(settings->requests, share);
    worker->is_limited = settings->requests > 0;
    worker->is_head = gs_load_is_head(settings);
    worker->next_request = share.index % target->request_count;
    worker->sources_used = share.index;
    return allocate(worker);
}

void gs_load_worker_done(struct load_worker *worker)
{
    gs_load_tally_done(&worker->tally);
    free(worker->buffer);
    free(worker->expected);
    free(worker->clients);
}
