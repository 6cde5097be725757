/* What waits for a stuck worker. The monitor counts it in memory that belongs to the worker, and
 * changes nothing. With one worker, no other kernel thread may read the queue of deadlines; but
 * control blocks stay mapped, and tell the deadline of each wait. */
#include "thread/schedule/backlog.h"

#include "thread/io/descriptors.h"
#include "thread/schedule/thread_extra.h"
#include "thread/stack/stacks.h"

#include <stdio.h>

/* ---- Deadlines ---- */

/* A parked thread whose wake-up has arrived is ready, though its claim does not tell. The control
 * block may be in use for another thread meanwhile: what is read may be out of date, which only
 * changes a number in a report. So nothing is read by an atomic operation, which the thread
 * sanitizer would compare with the plain stores of a thread that starts. */
NOT_FOR_TSAN static bool has_missed_deadline(const struct gs_thread *thread,
                                             const struct worker *worker, uint64_t now_ns)
{
    const volatile struct gs_thread *at = thread;
    int claim = *(const volatile int *)&thread->claim;
    uint8_t park_state = *(const volatile uint8_t *)&thread->park_state;
    const struct wait_kind *kind = at->wait_kind;
    bool is_waiting = at->is_live && claim == CLAIM_WAITING && at->worker == worker;
    return is_waiting && at->has_deadline && at->deadline_ns <= now_ns &&
           (!kind->is_park || park_state == PARK_PARKED);
}

/* The monitor times mobile threads out itself. */
NOT_FOR_TSAN static bool is_mobile(const struct gs_thread *thread)
{
    return ((const volatile struct gs_thread *)thread)->migrates && gs_runtime.is_multi;
}

/* A deadline that is just being moved within the queue may not be seen: the next round sees it. */
NOT_FOR_TSAN static bool has_deadlines(const struct worker *worker)
{
    const volatile struct gs_timer_queue *queue = &worker->own_deadlines.queue;
    return queue->near.count || queue->far_count;
}

static unsigned count_missed_deadlines(const struct worker *worker, uint64_t now_ns)
{
    struct gs_thread *thread;
    unsigned count = 0;
    if (!has_deadlines(worker))
        return 0;
    for (int class = 0; class < STACK_CLASSES; class ++)
        for (size_t i = 0; (thread = gs_stacks_at(class, i)); i++)
            count += has_missed_deadline(thread, worker, now_ns) && !is_mobile(thread);
    /* The stack of a thread in the list may be unmapped when it has left the list. */
    spin_lock_always(&gs_runtime.user_stack_lock);
    GS_LIST_FOREACH (link, &gs_runtime.user_stack_threads) {
        thread = thread_on_user_stack(link);
        count += has_missed_deadline(thread, worker, now_ns) && !is_mobile(thread);
    }
    spin_unlock_always(&gs_runtime.user_stack_lock);
    return count;
}

/* ---- All of it ---- */

void gs_backlog_count(struct worker *worker, uint64_t now_ns, struct backlog *ret_backlog)
{
    *ret_backlog = (struct backlog){
        .ready = count_read(&worker->ready) + atomic_load(&worker->shared.count),
        .has_messages = atomic_load(&worker->inbox) || atomic_load(&worker->canceled),
        .deadlines = count_missed_deadlines(worker, now_ns),
        .descriptors = gs_descriptors_count_ready(worker),
    };
}

bool gs_backlog_is_empty(const struct backlog *backlog)
{
    return !backlog->ready && !backlog->has_messages && !backlog->deadlines &&
           !backlog->descriptors;
}

void gs_backlog_describe(const struct backlog *backlog, char *ret_text, size_t size)
{
    char parts[4][48];
    unsigned count = 0;
    int n = 0;
    if (backlog->ready)
        snprintf(parts[count++], sizeof parts[0], "%llu thread%s ready",
                 (unsigned long long)backlog->ready, backlog->ready == 1 ? " is" : "s are");
    if (backlog->has_messages)
        snprintf(parts[count++], sizeof parts[0], "messages are pending");
    if (backlog->deadlines)
        snprintf(parts[count++], sizeof parts[0], "%u deadline%s passed", backlog->deadlines,
                 backlog->deadlines == 1 ? " has" : "s have");
    if (backlog->descriptors)
        snprintf(parts[count++], sizeof parts[0], "%u descriptor%s ready", backlog->descriptors,
                 backlog->descriptors == 1 ? " is" : "s are");
    for (unsigned i = 0; i < count && n >= 0 && (size_t)n < size; i++)
        n += snprintf(ret_text + n, size - (size_t)n, "%s%s",
                      !i              ? ""
                      : i + 1 < count ? ", "
                                      : " and ",
                      parts[i]);
}
