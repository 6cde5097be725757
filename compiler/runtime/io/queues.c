/* Queues of messages, and sets of semaphores of System V: the C library's calls, made so that they
 * do not wait. A queue of POSIX is a descriptor, which tells when there is something; for the
 * others the thread looks again after a while. */
#include "compiler/runtime/locks/shared_mutex.h"
#include "compiler/runtime/signals/signals.h"
#include "compiler/runtime/threads/pool.h"

#include <mqueue.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/uio.h>
#include <unistd.h>

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
    if (options & CANCELS ? must_cancel(self) : must_leave(self))
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
    jump_if_told(self);
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

/* A program that is notified of messages is not while a thread waits for one: so the kernel has to
 * know it. */
struct receipt {
    struct message message;
    struct timespec time;
    bool is_timed;
    ssize_t result;
};

static void receive(void *argument)
{
    struct receipt *receipt = argument;
    const struct message *at = &receipt->message;
    receipt->result = receipt->is_timed ? mq_timedreceive(at->queue, at->bytes, at->n, at->priority,
                                                          &receipt->time)
                                        : mq_receive(at->queue, at->bytes, at->n, at->priority);
}

static ssize_t receive_in_pool(struct thread *self, const struct message *message,
                               const struct timespec *time)
{
    struct receipt *receipt = NULL;
    if (self->phase == PHASE_NEW) {
        receipt = gs_cc_box(sizeof *receipt);
        *receipt = (struct receipt){*message, time ? *time : past, time != NULL, 0};
    }
    receipt = gs_cc_in_pool(receive, receipt, POOL_BOTH);
    if (!receipt)
        return 0;
    ssize_t result = receipt->result;
    gs_cc_box_free(receipt, sizeof *receipt);
    gs_cc_end_in_pool(self);
    return result;
}

static ssize_t transfer(const struct message *message, const struct timespec *time)
{
    struct thread *self = thread_self();
    uint64_t deadline_ns = time ? gs_cc_from_wall(time) : GS_NEVER;
    int result = 0;
    if (self->phase == PHASE_NEW && gs_cc_test_cancel(self))
        return 0;
    bool is_notified = atomic_load_explicit(&gs_cc_has_notified_queues, memory_order_relaxed);
    if (message->direction == GS_READ && is_notified)
        return receive_in_pool(self, message, time);
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
    if (!self || (flags & IPC_NOWAIT && !is_canceled(self)))
        return msgsnd(queue, message, n, flags);
    if (gs_cc_test_cancel(self))
        return 0;
    LOOK(self, EAGAIN, GS_NEVER, CANCELS, msgsnd(queue, message, n, flags | IPC_NOWAIT));
}

ssize_t gs_cc_msgrcv(int queue, void *message, size_t n, long type, int flags)
{
    struct thread *self = thread_self();
    if (!self || (flags & (IPC_NOWAIT | MSG_COPY) && !is_canceled(self)))
        return msgrcv(queue, message, n, type, flags);
    if (gs_cc_test_cancel(self))
        return 0;
    LOOK(self, ENOMSG, GS_NEVER, CANCELS, msgrcv(queue, message, n, type, flags | IPC_NOWAIT));
}

/* The error does not tell which operation could not be made: it is the first such one. Returns NULL
 * if all can be made now. */
static const struct sembuf *find_waiting(int set, const struct sembuf *operations, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct sembuf *one = &operations[i];
        int value = semctl(set, one->sem_num, GETVAL);
        for (size_t k = 0; k < i; k++)
            value += operations[k].sem_num == one->sem_num ? operations[k].sem_op : 0;
        if (one->sem_op ? value + one->sem_op < 0 : value != 0)
            return one;
    }
    return NULL;
}

/* ---- The threads that wait for semaphores, which the kernel does not know ---- */

struct semaphore_wait {
    struct semaphore_wait *next, **place;
    int set;
    struct sembuf operation;
};
static struct semaphore_wait *semaphore_waits;
static atomic_flag waits_lock = ATOMIC_FLAG_INIT;

static void end_semaphore_wait(const struct thread *self)
{
    struct semaphore_wait *wait = self->extra ? self->extra->semaphore_wait : NULL;
    if (!wait)
        return;
    spin_lock(&waits_lock);
    *wait->place = wait->next;
    if (wait->next)
        wait->next->place = wait->place;
    spin_unlock(&waits_lock);
    self->extra->semaphore_wait = NULL;
    gs_cc_box_free(wait, sizeof *wait);
}

static void begin_semaphore_wait(struct thread *self, int set, const struct sembuf *operation)
{
    struct extra *extra = gs_cc_extra(self);
    struct semaphore_wait *wait = extra->semaphore_wait;
    spin_lock(&waits_lock);
    if (wait) {
        wait->operation = *operation;
        spin_unlock(&waits_lock);
        return;
    }
    spin_unlock(&waits_lock);
    wait = gs_cc_box(sizeof *wait);
    extra->semaphore_wait = wait;
    spin_lock(&waits_lock);
    *wait = (struct semaphore_wait){semaphore_waits, &semaphore_waits, set, *operation};
    if (wait->next)
        wait->next->place = &wait->next;
    semaphore_waits = wait;
    spin_unlock(&waits_lock);
}

static int count_waits(int set, int number, bool for_zero)
{
    int count = 0;
    spin_lock(&waits_lock);
    for (const struct semaphore_wait *at = semaphore_waits; at; at = at->next)
        count += at->set == set && at->operation.sem_num == number &&
                 (at->operation.sem_op == 0) == for_zero;
    spin_unlock(&waits_lock);
    return count;
}

void gs_cc_semaphores_after_fork(void)
{
    atomic_flag_clear(&waits_lock);
    semaphore_waits = NULL;
}

/* The last argument may be missing, as that of fcntl. */
int gs_cc_semctl(int set, int number, int command, ...)
{
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    int result = semctl(set, number, command, argument);
    if (result < 0 || (command != GETNCNT && command != GETZCNT))
        return result;
    return result + count_waits(set, number, command == GETZCNT);
}

enum { WOULD_WAIT = EINPROGRESS }; /* no error of these calls */

/* The kernel's limit, unless the administrator has raised it (SEMOPM). */
#define SEMAPHORE_OPERATIONS_MAX 500

/* The memory may be none: the kernel copies it, unless it does not let this process do that. */
static bool copy_operations(struct sembuf *to, const struct sembuf *from, size_t count)
{
    const struct iovec here = {to, count * sizeof *to};
    const struct iovec there = {(struct sembuf *)from, count * sizeof *from};
    ssize_t n = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
    if (n < 0 && errno != EFAULT)
        memcpy(to, from, count * sizeof *to);
    return n == (ssize_t)there.iov_len || (n < 0 && errno != EFAULT);
}

/* With IPC_NOWAIT: the kernel would count a thread that waits until a time in the past, too. */
static int try_operations(int set, const struct sembuf *operations, size_t count)
{
    struct sembuf tried[SEMAPHORE_OPERATIONS_MAX];
    if (count > SEMAPHORE_OPERATIONS_MAX || !copy_operations(tried, operations, count))
        return semtimedop(set, (struct sembuf *)operations, count, &past);
    for (size_t i = 0; i < count; i++)
        tried[i].sem_flg |= IPC_NOWAIT;
    return semop(set, tried, count);
}

static int try_semaphores(struct thread *self, int set, struct sembuf *operations, size_t count)
{
    int result = try_operations(set, operations, count), err = errno;
    const struct sembuf *waiting =
        result && err == EAGAIN ? find_waiting(set, operations, count) : NULL;
    if (waiting ? !(waiting->sem_flg & IPC_NOWAIT) : result && err == EAGAIN)
        err = WOULD_WAIT;
    if (err != WOULD_WAIT || !result)
        end_semaphore_wait(self);
    else if (waiting)
        begin_semaphore_wait(self, set, waiting);
    errno = err;
    return result;
}

/* Ends also if it is late, interrupted or canceled. */
static int wait_for_semaphores(struct thread *self, int set, struct sembuf *operations,
                               size_t count, uint64_t deadline_ns)
{
    LOOK(self, WOULD_WAIT, deadline_ns, 0, try_semaphores(self, set, operations, count));
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
    int result = wait_for_semaphores(self, set, operations, count, deadline_ns);
    if (!gs_cc_state.suspending)
        end_semaphore_wait(self);
    return result;
}

int gs_cc_semop(int set, struct sembuf *operations, size_t count)
{
    return gs_cc_semtimedop(set, operations, count, NULL);
}
