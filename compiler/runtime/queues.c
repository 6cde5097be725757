/* Queues of messages, and sets of semaphores of System V: the C library's calls, made so that they
 * do not wait. A queue of POSIX is a descriptor, which tells when there is something; for the
 * others the thread looks again after a while. */
#include "compiler/runtime/shared_mutex.h"
#include "compiler/runtime/signals.h"

#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>

static int fail(int err)
{
    errno = err;
    return -1;
}

/* Whether signals let a call begin again, and whether it is a cancellation point. */
enum { RESTARTS = 1, CANCELS = 2 };

/* The call begins to wait, or waits again. Returns 0, or the error with which it ends. */
static int begin_wait(struct thread *self, uint64_t deadline_ns, int options)
{
    if (options & CANCELS && must_cancel(self))
        return ECANCELED;
    if (self->phase == PHASE_NEW)
        gs_cc_signals_begin_wait(self);
    else if (gs_cc_is_interrupted(self, options & RESTARTS))
        return EINTR;
    return is_late(deadline_ns) ? ETIMEDOUT : 0;
}

static int end(struct thread *self, int err)
{
    if (self->phase != PHASE_NEW)
        gs_cc_complete(self);
    if (err == ECANCELED && gs_cc_test_cancel(self))
        return 0;
    return fail(err);
}

/* ---- Of POSIX ---- */

/* The error of a call that would have waited is that of a time which is over. Returns true if the
 * caller must return; otherwise *ret_result is 0 (try again) or the result. */
static bool wait_for_queue(struct thread *self, mqd_t queue, unsigned direction,
                           uint64_t deadline_ns, int *ret_result)
{
    int err = begin_wait(self, deadline_ns, RESTARTS | CANCELS);
    *ret_result = 0;
    if (!err) {
        set_phase(self, PHASE_WAITING);
        if (gs_cc_wait_fd(self, queue, direction, deadline_ns, &err))
            return true;
        err = err == -ETIMEDOUT ? 0 : -err; /* it looks once more */
    }
    if (err)
        *ret_result = end(self, err);
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
    if (gs_cc_test_cancel(self))
        return 0;
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

/* ---- Of System V ---- */

/* A set or queue that the call has waited for is unknown once it was removed. */
static int error_of(const struct thread *self, int err)
{
    return err == EINVAL && self->phase != PHASE_NEW ? EIDRM : err;
}

/* Make the call until its error is not the one that tells that it would wait. */
#define LOOK(self_, would_wait_, deadline_ns_, options_, call_)                                    \
    for (;;) {                                                                                     \
        __typeof__(call_) result_ = (call_);                                                       \
        int err_ = errno;                                                                          \
        if (result_ < 0 && err_ == (would_wait_))                                                  \
            err_ = begin_wait(self_, deadline_ns_, options_);                                      \
        else {                                                                                     \
            err_ = error_of(self_, err_);                                                          \
            gs_cc_complete(self_);                                                                 \
            errno = err_;                                                                          \
            return result_;                                                                        \
        }                                                                                          \
        if (err_)                                                                                  \
            return end(self_, err_ == ETIMEDOUT ? EAGAIN : err_);                                  \
        if (gs_cc_look_again(self_, deadline_ns_))                                                 \
            return 0;                                                                              \
    }

int gs_cc_msgsnd(int queue, const void *message, size_t n, int flags)
{
    struct thread *self = thread_self();
    if (!self || flags & IPC_NOWAIT)
        return msgsnd(queue, message, n, flags);
    if (gs_cc_test_cancel(self))
        return 0;
    LOOK(self, EAGAIN, GS_NEVER, CANCELS, msgsnd(queue, message, n, flags | IPC_NOWAIT));
}

ssize_t gs_cc_msgrcv(int queue, void *message, size_t n, long type, int flags)
{
    struct thread *self = thread_self();
    if (!self || flags & (IPC_NOWAIT | MSG_COPY))
        return msgrcv(queue, message, n, type, flags);
    if (gs_cc_test_cancel(self))
        return 0;
    LOOK(self, ENOMSG, GS_NEVER, CANCELS, msgrcv(queue, message, n, type, flags | IPC_NOWAIT));
}

/* The error does not tell which operation could not be made: the first such one decides, by its
 * IPC_NOWAIT. */
static bool may_wait(int set, const struct sembuf *operations, size_t count)
{
    short all = IPC_NOWAIT, some = 0;
    for (size_t i = 0; i < count; i++) {
        all &= operations[i].sem_flg;
        some |= operations[i].sem_flg;
    }
    if (all & IPC_NOWAIT || !(some & IPC_NOWAIT))
        return !(all & IPC_NOWAIT);
    for (size_t i = 0; i < count; i++) {
        const struct sembuf *one = &operations[i];
        int value = semctl(set, one->sem_num, GETVAL);
        for (size_t k = 0; k < i; k++)
            value += operations[k].sem_num == one->sem_num ? operations[k].sem_op : 0;
        if (one->sem_op ? value + one->sem_op < 0 : value != 0)
            return !(one->sem_flg & IPC_NOWAIT);
    }
    return true;
}

enum { WOULD_WAIT = EINPROGRESS }; /* no error of these calls */

static int try_semaphores(int set, struct sembuf *operations, size_t count)
{
    int result = semtimedop(set, operations, count, &past);
    if (result && errno == EAGAIN && may_wait(set, operations, count))
        errno = WOULD_WAIT;
    return result;
}

int gs_cc_semtimedop(int set, struct sembuf *operations, size_t count, const struct timespec *time)
{
    struct thread *self = thread_self();
    if (!self || (time && !is_valid_time(time)))
        return semtimedop(set, operations, count, time);
    uint64_t deadline_ns = GS_NEVER;
    if (time && time->tv_sec < (time_t)1 << 33) {
        uint64_t wait_ns = (uint64_t)time->tv_sec * GS_SECOND + (uint64_t)time->tv_nsec;
        deadline_ns = gs_cc_deadline(self, gs_clock_after(gs_clock_now(), wait_ns));
    }
    LOOK(self, WOULD_WAIT, deadline_ns, 0, try_semaphores(set, operations, count));
}

int gs_cc_semop(int set, struct sembuf *operations, size_t count)
{
    return gs_cc_semtimedop(set, operations, count, NULL);
}
