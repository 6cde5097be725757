/* Into the queue, and out of it. */
#include "stage/state.h"

#include <errno.h>

/* ---- In ---- */

/* Whether an event that comes behind so many would be done too late. Where nobody waits it is taken: else nothing would ever show
 * that the stage has become faster. */
static bool is_too_slow(const struct gs_stage *stage, unsigned before)
{
    uint64_t most_ns = stage->options.wait_most_ns;
    if (!most_ns || !before)
        return false;
    uint64_t pace_ns = atomic_load_explicit(&stage->pace_ns, memory_order_relaxed);
    uint64_t handled_ns = atomic_load_explicit(&stage->handled_ns, memory_order_relaxed);
    return before * pace_ns + handled_ns > most_ns;
}

static bool is_admitted(struct gs_stage *stage)
{
    if (!gs_stage_has(stage, GS_STAGE_ADMISSION))
        return true;
    pthread_mutex_lock(&stage->lock);
    bool is_taken = gs_admission_takes(&stage->admission, gs_clock_now());
    stage->figures.refused += !is_taken;
    pthread_mutex_unlock(&stage->lock);
    return is_taken;
}

static int take_place(struct gs_stage *stage)
{
    unsigned before = atomic_fetch_add_explicit(&stage->places, 1, memory_order_relaxed);
    int err = 0;
    if ((stage->options.queue_most && before >= stage->options.queue_most) ||
        is_too_slow(stage, before)) {
        atomic_fetch_add_explicit(&stage->full, 1, memory_order_relaxed);
        err = -EAGAIN;
    } else if (!is_admitted(stage)) {
        err = -EBUSY;
    }
    if (err)
        atomic_fetch_sub_explicit(&stage->places, 1, memory_order_relaxed);
    return err;
}

void gs_stage_wake_one(struct gs_stage *stage)
{
    if (!stage->sleepers || stage->is_waking)
        return;
    stage->is_waking = true;
    pthread_cond_signal(&stage->come);
}

/* Whether a thread is to be added, which is then counted. The lock is held. */
static bool grows(struct gs_stage *stage, uint64_t now_ns)
{
    if (!gs_stage_has(stage, GS_STAGE_THREADS) || stage->sleepers ||
        stage->threads == stage->options.threads_most ||
        !gs_pool_grows(&stage->pool, stage->queued, now_ns))
        return false;
    stage->threads++;
    return true;
}

/* Once the lock is released, the events may be handled and the stage be freed, unless a thread of it is counted on. */
static void append(const struct gs_outbox_row *row, uint64_t now_ns, bool is_spared)
{
    struct gs_stage *stage = row->stage;
    for (struct gs_event *event = row->first; event; event = event->next)
        event->arrived_ns = now_ns;
    pthread_mutex_lock(&stage->lock);
    *stage->last = row->first;
    stage->last = row->last;
    stage->queued += row->count;
    bool is_growing = grows(stage, now_ns);
    if (stage->options.loop)
        gs_async_send(&stage->called);
    else if (!is_spared)
        gs_stage_wake_one(stage);
    pthread_mutex_unlock(&stage->lock);
    if (is_growing)
        (void)!gs_stage_add_thread(stage); /* those that there are go on */
}

int gs_stage_put(struct gs_stage *stage, struct gs_event *event)
{
    int err = take_place(stage);
    if (err)
        return err;
    event->next = NULL;
    struct gs_outbox_row row = {stage, event, &event->next, 1};
    append(&row, gs_clock_now(), false);
    return 0;
}

int gs_outbox_put(struct gs_outbox *outbox, struct gs_stage *stage, struct gs_event *event)
{
    int err = take_place(stage);
    if (err)
        return err;
    unsigned i = 0;
    while (i < outbox->used && outbox->rows[i].stage != stage)
        i++;
    if (i == GS_OUTBOX_ROWS) {
        gs_outbox_deliver(outbox);
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

static void deliver(struct gs_outbox *outbox, const struct gs_stage *spared)
{
    if (!outbox->used)
        return;
    uint64_t now_ns = gs_clock_now();
    for (unsigned i = 0; i < outbox->used; i++)
        append(&outbox->rows[i], now_ns, outbox->rows[i].stage == spared);
    outbox->used = 0;
}

void gs_outbox_deliver(struct gs_outbox *outbox)
{
    deliver(outbox, NULL);
}

/* ---- Out ---- */

/* The events of a call whose times the admission controller is told, at most. */
#define SAMPLES_MOST 16

struct taken {
    struct gs_batch batch;
    unsigned count, samples;
    uint64_t arrived_ns[SAMPLES_MOST];
};

static void take_batch(struct gs_stage *stage, struct gs_outbox *outbox, struct taken *ret_taken)
{
    struct gs_event *first = stage->first, **end = &stage->first;
    uint64_t now_ns = gs_clock_now(), arrived_ns = 0;
    unsigned n = 0;
    ret_taken->samples = 0;
    for (; *end && n < stage->batch; end = &(*end)->next, n++) {
        arrived_ns += (*end)->arrived_ns;
        if (n < SAMPLES_MOST)
            ret_taken->arrived_ns[ret_taken->samples++] = (*end)->arrived_ns;
    }
    struct gs_event *rest = *end;
    *end = NULL;
    stage->first = rest;
    if (!rest)
        stage->last = &stage->first;
    stage->queued -= n;
    stage->figures.wait_ns += n * now_ns - arrived_ns;
    ret_taken->batch = (struct gs_batch){first, n, now_ns, outbox};
    ret_taken->count = n;
}

#define PACE_SMOOTHING 8 /* the newest counts for a part of this */

static void tell_controllers(struct gs_stage *stage, const struct taken *taken, uint64_t now_ns)
{
    uint64_t handle_ns = now_ns - taken->batch.now_ns;
    uint64_t each_ns = handle_ns / taken->count;
    uint64_t before_ns = atomic_load_explicit(&stage->handled_ns, memory_order_relaxed);
    if (before_ns)
        each_ns = before_ns - before_ns / PACE_SMOOTHING + each_ns / PACE_SMOOTHING;
    unsigned threads = stage->threads ? stage->threads : 1;
    atomic_store_explicit(&stage->handled_ns, each_ns, memory_order_relaxed);
    atomic_store_explicit(&stage->pace_ns, each_ns / threads, memory_order_relaxed);
    stage->figures.events += taken->count;
    stage->figures.batches++;
    stage->figures.handle_ns += handle_ns;
    if (gs_stage_has(stage, GS_STAGE_BATCHES))
        stage->batch = gs_batch_control_tell(&stage->batches, taken->count, now_ns);
    if (!gs_stage_has(stage, GS_STAGE_ADMISSION))
        return;
    for (unsigned i = 0; i < taken->samples; i++)
        gs_admission_tell(&stage->admission, now_ns - taken->arrived_ns[i], now_ns);
}

void gs_stage_handle(struct gs_stage *stage, struct gs_outbox *outbox,
                     const struct gs_stage *spared)
{
    struct taken taken;
    take_batch(stage, outbox, &taken);
    if (stage->queued)
        gs_stage_wake_one(stage);
    pthread_mutex_unlock(&stage->lock);
    atomic_fetch_sub_explicit(&stage->places, taken.count, memory_order_relaxed);
    stage->options.handle(&taken.batch, stage->options.data);
    if (!stage->options.loop)
        deliver(outbox, spared);
    uint64_t now_ns = gs_clock_now();
    pthread_mutex_lock(&stage->lock);
    tell_controllers(stage, &taken, now_ns);
}
