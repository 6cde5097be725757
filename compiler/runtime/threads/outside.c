/* Kernel threads of the C library that call functions of the program: they may wake its threads,
 * whatever these do. */
#include "compiler/runtime/signals/signals.h"

#include <aio.h>
#include <mqueue.h>
#include <signal.h>

atomic_bool gs_cc_has_outside_threads;

bool gs_cc_is_outside(void)
{
    const struct handling *handling = &gs_cc_handling;
    return !thread_self() && !handling->has_mask && !handling->own && !handling->target;
}

static void note(const struct sigevent *event)
{
    if (event && event->sigev_notify == SIGEV_THREAD)
        atomic_store(&gs_cc_has_outside_threads, true);
}

int gs_cc_timer_create(clockid_t clock, struct sigevent *event, timer_t *ret_timer)
{
    struct sigevent changed;
    note(event);
    /* A worker gets no signals but the first one, as which the signal is handled. */
    if (event && event->sigev_notify == SIGEV_THREAD_ID && thread_self()) {
        changed = *event;
        changed.sigev_notify = SIGEV_SIGNAL;
        event = &changed;
    }
    return timer_create(clock, event, ret_timer);
}

int gs_cc_mq_notify(mqd_t queue, const struct sigevent *event)
{
    note(event);
    return mq_notify(queue, event);
}

int gs_cc_aio_read(struct aiocb *operation)
{
    note(&operation->aio_sigevent);
    return aio_read(operation);
}

int gs_cc_aio_write(struct aiocb *operation)
{
    note(&operation->aio_sigevent);
    return aio_write(operation);
}
