/* The queue of a stage: events are enqueued, and popped as batches. */
#include "stage/state.h"

#include <errno.h>

/* ---- Enqueueing ---- */

/* Returns whether an event that is queued behind `before` others would be done too late. An event
 * is always accepted if the queue is empty: otherwise the stage could never observe that it has
 * become faster. */
static bool is_too_slow(const struct gs_stage *stage, unsigned before)
{
    uint64_t max_ns = stage->options.max_wait_ns;
    if (!max_ns || !before)
        return false;
    uint64_t interval_ns = atomic_load_explicit(&stage->interval_ns, memory_order_relaxed);
    uint64_t service_ns = atomic_load_explicit(&stage->service_ns, memory_order_relaxed);
    return before * interval_ns + service_ns > max_ns;
}

static bool is_admitted(struct gs_stage *stage)
{
    if (!gs_stage_has(stage, GS_STAGE_ADMISSION))
        return true;
    pthread_mutex_lock(&stage->lock);
    bool admitted = gs_admission_admit(&stage->admission, gs_clock_now());
    stage->stats.refused_admission += !admitted;
    pthread_mutex_unlock(&stage->lock);
    return admitted;
}

static int reserve_slot(struct gs_stage *stage)
{
    unsigned before = atomic_fetch_add_explicit(&stage->reserved, 1, memory_order_relaxed);
    int err = 0;
    if ((stage->options.max_queue && before >= stage->options.max_queue) ||
        is_too_slow(stage, before)) {
        atomic_fetch_add_explicit(&stage->refused_full, 1, memory_order_relaxed);
        err = -EAGAIN;
    } else if (!is_admitted(stage)) {
        err = -EBUSY;
    }
    if (err)
        atomic_fetch_sub_explicit(&stage->reserved, 1, memory_order_relaxed);
    return err;
}

void gs_stage_wake_one(struct gs_stage *stage)
{
    if (!stage->idle_threads || stage->is_wakeup_pending)
        return;
    stage->is_wakeup_pending = true;
    pthread_cond_signal(&stage->queue_not_empty);
}

/* Returns whether the caller must add a thread, which is counted here already. The caller holds the
 * lock. */
static bool reserve_thread(struct gs_stage *stage, uint64_t now_ns)
{
    if (!gs_stage_has(stage, GS_STAGE_THREADS) || stage->idle_threads ||
        stage->threads == stage->options.max_threads ||
        !gs_pool_should_grow(&stage->pool, stage->queued, now_ns))
        return false;
    stage->threads++;
    return true;
}

/* Append the events of a row to the queue of their stage. Once the lock is released, the events may
 * be handled and the stage be freed, unless a thread of it was reserved here. */
static void enqueue_row(const struct gs_outbox_row *row, uint64_t now_ns, bool needs_wakeup)
{
    struct gs_stage *stage = row->stage;
    for (struct gs_event *event = row->first; event; event = event->next)
        event->enqueued_ns = now_ns;
    pthread_mutex_lock(&stage->lock);
    *stage->last = row->first;
    stage->last = row->last;
    stage->queued += row->count;
    bool needs_thread = reserve_thread(stage, now_ns);
    if (stage->options.loop)
        gs_async_send(&stage->wakeup);
    else if (needs_wakeup)
        gs_stage_wake_one(stage);
    pthread_mutex_unlock(&stage->lock);
    if (needs_thread)
        (void)!gs_stage_add_thread(stage); /* on failure the existing threads continue */
}

int gs_stage_enqueue(struct gs_stage *stage, struct gs_event *event)
{
    int err = reserve_slot(stage);
    if (err)
        return err;
    event->next = NULL;
    struct gs_outbox_row row = {stage, event, &event->next, 1};
    enqueue_row(&row, gs_clock_now(), true);
    return 0;
}

int gs_outbox_add(struct gs_outbox *outbox, struct gs_stage *stage, struct gs_event *event)
{
    int err = reserve_slot(stage);
    if (err)
        return err;
    unsigned i = 0;
    while (i < outbox->used && outbox->rows[i].stage != stage)
        i++;
    if (i == GS_OUTBOX_ROWS) {
        gs_outbox_flush(outbox);
        i = 0;
    }
    struct gs_outbox_row *row = &outbox->rows[i];
    if (i == outbox->used) {
        *row = (struct gs_outbox_row){.stage = stage, .last = &row->first};
        outbox->used++;
    }
    event->next = NULL;
    *row->last = event;
    row->last = &event->next;
    row->count++;
    return 0;
}

static void flush(struct gs_outbox *outbox, const struct gs_stage *no_wakeup)
{
    if (!outbox->used)
        return;
    uint64_t now_ns = gs_clock_now();
    for (unsigned i = 0; i < outbox->used; i++)
        enqueue_row(&outbox->rows[i], now_ns, outbox->rows[i].stage != no_wakeup);
    outbox->used = 0;
}

void gs_outbox_flush(struct gs_outbox *outbox)
{
    flush(outbox, NULL);
}

/* ---- Handling ---- */

/* The maximum number of events of one call whose times the admission controller gets. */
#define SAMPLES_MAX 16

/* One call of the handler. */
struct call {
    struct gs_batch batch;
    unsigned count, samples;
    uint64_t enqueued_ns[SAMPLES_MAX];
};

static void pop_batch(struct gs_stage *stage, struct gs_outbox *outbox, struct call *ret_call)
{
    struct gs_event *first = stage->first, **end = &stage->first;
    uint64_t now_ns = gs_clock_now(), enqueued_ns = 0;
    unsigned n = 0;
    ret_call->samples = 0;
    for (; *end && n < stage->batch; end = &(*end)->next, n++) {
        enqueued_ns += (*end)->enqueued_ns;
        if (n < SAMPLES_MAX)
            ret_call->enqueued_ns[ret_call->samples++] = (*end)->enqueued_ns;
    }
    struct gs_event *rest = *end;
    *end = NULL;
    stage->first = rest;
    if (!rest)
        stage->last = &stage->first;
    stage->queued -= n;
    stage->stats.wait_ns += n * now_ns - enqueued_ns;
    ret_call->batch = (struct gs_batch){first, n, now_ns, outbox};
    ret_call->count = n;
}

#define SERVICE_TIME_SMOOTHING 8 /* the weight of a new value is 1 / 8 */

static void update_controllers(struct gs_stage *stage, const struct call *call, uint64_t now_ns)
{
    uint64_t handle_ns = now_ns - call->batch.now_ns;
    uint64_t service_ns = handle_ns / call->count;
    uint64_t before_ns = atomic_load_explicit(&stage->service_ns, memory_order_relaxed);
    if (before_ns)
        service_ns =
            before_ns - before_ns / SERVICE_TIME_SMOOTHING + service_ns / SERVICE_TIME_SMOOTHING;
    unsigned threads = stage->threads ? stage->threads : 1;
    atomic_store_explicit(&stage->service_ns, service_ns, memory_order_relaxed);
    atomic_store_explicit(&stage->interval_ns, service_ns / threads, memory_order_relaxed);
    stage->stats.events += call->count;
    stage->stats.batches++;
    stage->stats.handle_ns += handle_ns;
    if (gs_stage_has(stage, GS_STAGE_BATCHES))
        stage->batch = gs_batch_control_update(&stage->batches, call->count, now_ns);
    if (!gs_stage_has(stage, GS_STAGE_ADMISSION))
        return;
    for (unsigned i = 0; i < call->samples; i++)
        gs_admission_update(&stage->admission, now_ns - call->enqueued_ns[i], now_ns);
}

void gs_stage_handle(struct gs_stage *stage, struct gs_outbox *outbox,
                     const struct gs_stage *no_wakeup)
{
    struct call call;
    pop_batch(stage, outbox, &call);
    if (stage->queued)
        gs_stage_wake_one(stage);
    pthread_mutex_unlock(&stage->lock);
    atomic_fetch_sub_explicit(&stage->reserved, call.count, memory_order_relaxed);
    stage->options.handle(&call.batch, stage->options.data);
    if (!stage->options.loop)
        flush(outbox, no_wakeup);
    uint64_t now_ns = gs_clock_now();
    pthread_mutex_lock(&stage->lock);
    update_controllers(stage, &call, now_ns);
}
