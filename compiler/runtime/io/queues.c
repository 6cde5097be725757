/* Queues of messages of POSIX: the C library's calls, made so that they do not wait. A queue is a
 * descriptor, which tells when there is something. */
#include "compiler/runtime/signals/signals.h"
#include "compiler/runtime/threads/pool.h"

#include <mqueue.h>
#include <sys/syscall.h>

/* The error of a call that would have waited is that of a time which is over. Returns true if the
 * caller must return; otherwise *ret_result is 0 (try again) or the result. */
static bool wait_for_queue(struct thread *self, mqd_t queue, unsigned direction,
                           uint64_t deadline_ns, int *ret_result)
{
    int err = 0;
    *ret_result = 0;
    if (must_cancel(self))
        err = ECANCELED;
    else if (self->phase == PHASE_NEW)
        gs_cc_signals_begin_wait(self);
    else if (gs_cc_is_interrupted(self, true))
        err = EINTR;
    if (!err && is_late(deadline_ns))
        err = ETIMEDOUT;
    if (!err) {
        set_phase(self, PHASE_WAITING);
        if (gs_cc_wait_fd(self, queue, direction, deadline_ns, &err))
            return true;
        err = err == -ETIMEDOUT ? 0 : -err; /* it looks once more */
    }
    if (!err)
        return false;
    if (self->phase != PHASE_NEW)
        gs_cc_complete(self);
    jump_if_told(self);
    if (err == ECANCELED && gs_cc_test_cancel(self))
        return false;
    errno = err;
    *ret_result = -1;
    return false;
}

static const struct timespec past = {0};

struct message {
    mqd_t queue;
    unsigned direction; /* GS_READ: it is received */
    char *bytes;
    size_t n;
    unsigned *priority;
};

static ssize_t try_message(const struct message *message)
{
    if (message->direction == GS_READ)
        return mq_timedreceive(message->queue, message->bytes, message->n, message->priority,
                               &past);
    return mq_timedsend(message->queue, message->bytes, message->n, *message->priority, &past);
}

static ssize_t transfer(const struct message *message, const struct timespec *time)
{
    struct thread *self = thread_self();
    uint64_t deadline_ns = time ? gs_cc_from_wall(time) : GS_NEVER;
    int result = 0;
    if (self->phase == PHASE_NEW && gs_cc_test_cancel(self))
        return 0;
    /* The program is not notified while a thread waits for one: so the kernel has to know it. */
    bool is_in_pool =
        self->phase == PHASE_NEW ? atomic_load(&gs_cc_has_notified_queues) : self->progress != 0;
    if (message->direction == GS_READ && is_in_pool) {
        const long at[CALL_ARGUMENTS] = {message->queue, (long)message->bytes, (long)message->n,
                                         (long)message->priority, (long)time};
        return gs_cc_call_in_pool(POOL_BOTH, SYS_mq_timedreceive, at);
    }
    for (;;) {
        ssize_t done = try_message(message);
        if (done >= 0 || errno != ETIMEDOUT) {
            int err = errno;
            gs_cc_complete(self);
            errno = err;
            return done;
        }
        if (wait_for_queue(self, message->queue, message->direction, deadline_ns, &result))
            return 0;
        if (result)
            return result;
    }
}

ssize_t gs_cc_mq_timedreceive(mqd_t queue, char *bytes, size_t n, unsigned *ret_priority,
                              const struct timespec *time)
{
    if (!thread_self() || !is_valid_time(time))
        return mq_timedreceive(queue, bytes, n, ret_priority, time);
    const struct message message = {queue, GS_READ, bytes, n, ret_priority};
    return transfer(&message, time);
}

ssize_t gs_cc_mq_receive(mqd_t queue, char *bytes, size_t n, unsigned *ret_priority)
{
    if (!thread_self())
        return mq_receive(queue, bytes, n, ret_priority);
    const struct message message = {queue, GS_READ, bytes, n, ret_priority};
    return transfer(&message, NULL);
}

int gs_cc_mq_timedsend(mqd_t queue, const char *bytes, size_t n, unsigned priority,
                       const struct timespec *time)
{
    if (!thread_self() || !is_valid_time(time))
        return mq_timedsend(queue, bytes, n, priority, time);
    const struct message message = {queue, GS_WRITE, (char *)bytes, n, &priority};
    return (int)transfer(&message, time);
}

int gs_cc_mq_send(mqd_t queue, const char *bytes, size_t n, unsigned priority)
{
    if (!thread_self())
        return mq_send(queue, bytes, n, priority);
    const struct message message = {queue, GS_WRITE, (char *)bytes, n, &priority};
    return (int)transfer(&message, NULL);
}
