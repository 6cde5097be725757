/* Calls that block: a kernel thread of the pool makes them. */
#include "compiler/runtime/signals/signals.h"
#include "compiler/runtime/threads/pool.h"

#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <unistd.h>

struct blocking {
    void (*call)(void *);
    void *box;
    unsigned options;
    int err, h_err;
    bool has_no_reader; /* it has got SIGPIPE */
};

static void make_call(void *argument)
{
    struct blocking *blocking = argument;
    errno = blocking->err;
    blocking->call(blocking->box);
    blocking->err = errno;
    blocking->h_err = h_errno;
    blocking->has_no_reader = gs_cc_took_pipe();
}

static void wait_on_stack(void *argument)
{
    const struct blocking *blocking = argument;
    gs_cc_run_in_pool(make_call, argument, blocking->options);
}

/* What it waits for is kept in its progress meanwhile. */
void *gs_cc_in_pool(void (*call)(void *box), void *box, unsigned options)
{
    struct thread *self = thread_self();
    if (!self) {
        call(box);
        return box;
    }
    struct blocking *blocking = (struct blocking *)self->progress;
    if (self->stack || self->phase == PHASE_NEW) {
        blocking = gs_cc_box(sizeof *blocking);
        *blocking = (struct blocking){call, box, options, errno, 0, false};
        self->progress = self->stack ? 0 : (size_t)blocking;
    }
    gs_cc_call_on_stack(wait_on_stack, blocking);
    if (gs_cc_state.suspending)
        return NULL;
    errno = blocking->err;
    h_errno = blocking->h_err;
    void *result = blocking->box;
    if (blocking->has_no_reader)
        gs_cc_raise_pipe();
    gs_cc_box_free(blocking, sizeof *blocking);
    return result;
}

/* The program's call does not return: it does not free the box. */
static bool leaves(const struct thread *self)
{
    return is_canceled(self) || (must_jump(self) && self->stack);
}

void gs_cc___blocking(void (*call)(void *box), void *box, uint64_t size)
{
    struct thread *self = thread_self();
    if (self && self->phase == PHASE_NEW && leaves(self)) {
        gs_cc_box_free(box, size);
        gs_cc_test_cancel(self);
        return;
    }
    if (!gs_cc_in_pool(call, box, POOL_BOTH) || !self)
        return;
    if (leaves(self) && (errno == EINTR || must_jump(self)))
        gs_cc_box_free(box, size);
    gs_cc_end_in_pool(self);
}

/* ---- System calls ---- */

struct numbered_call {
    long number, at[CALL_ARGUMENTS], result;
};

static void make_numbered_call(void *argument)
{
    struct numbered_call *call = argument;
    const long *at = call->at;
    call->result = syscall(call->number, at[0], at[1], at[2], at[3], at[4], at[5]);
}

long gs_cc_call_in_pool(unsigned options, long number, const long *arguments)
{
    struct thread *self = thread_self();
    struct numbered_call here = {.number = number}, *call = &here;
    memcpy(here.at, arguments, sizeof here.at);
    if (self->phase == PHASE_NEW) { /* later the first box is used */
        call = gs_cc_box(sizeof *call);
        *call = here;
    }
    call = gs_cc_in_pool(make_numbered_call, call, options);
    if (!call)
        return 0;
    long result = call->result;
    gs_cc_box_free(call, sizeof *call);
    jump_if_told(self);
    if (result < 0 && errno == EINTR && (options & POOL_CANCELS || must_leave(self)))
        gs_cc_test_cancel(self);
    return result;
}

/* ---- Locks of files ----
 * The thread that holds one needs no kernel thread of the pool to unlock it.
 */

/* fcntl with F_SETLKW or F_OFD_SETLKW: the plugin calls it instead. */
int gs_cc___lock_record(int fd, int command, ...)
{
    struct thread *self = thread_self();
    va_list list;
    va_start(list, command);
    struct flock *record = va_arg(list, struct flock *);
    va_end(list);
    if (!self)
        return fcntl(fd, command, record);
    if (self->phase == PHASE_NEW) {
        if (gs_cc_test_cancel(self))
            return 0;
        int result = fcntl(fd, command == F_SETLKW ? F_SETLK : F_OFD_SETLK, record);
        if (!result || (errno != EAGAIN && errno != EACCES))
            return result;
    }
    const long at[CALL_ARGUMENTS] = {fd, command, (long)record};
    return (int)gs_cc_call_in_pool(POOL_BOTH, SYS_fcntl, at);
}

int gs_cc_flock(int fd, int operation)
{
    struct thread *self = thread_self();
    if (!self || operation & (LOCK_NB | LOCK_UN))
        return flock(fd, operation);
    if (self->phase == PHASE_NEW) {
        int result = flock(fd, operation | LOCK_NB);
        if (!result || errno != EWOULDBLOCK)
            return result;
    }
    const long at[CALL_ARGUMENTS] = {fd, operation};
    return (int)gs_cc_call_in_pool(POOL_SIGNALS, SYS_flock, at);
}

/* ---- Messages and semaphores of System V ----
 * A call that need not wait is made at once. One that waits is never restarted after a handler.
 */

int gs_cc_msgsnd(int queue, const void *message, size_t n, int flags)
{
    struct thread *self = thread_self();
    if (!self)
        return msgsnd(queue, message, n, flags);
    if (self->phase == PHASE_NEW) {
        if (gs_cc_test_cancel(self))
            return 0;
        int result = msgsnd(queue, message, n, flags | IPC_NOWAIT);
        if (!result || errno != EAGAIN || flags & IPC_NOWAIT)
            return result;
    }
    const long at[CALL_ARGUMENTS] = {queue, (long)message, (long)n, flags};
    return (int)gs_cc_call_in_pool(POOL_CANCELS | POOL_EVERY_SIGNAL, SYS_msgsnd, at);
}

ssize_t gs_cc_msgrcv(int queue, void *message, size_t n, long type, int flags)
{
    struct thread *self = thread_self();
    if (!self)
        return msgrcv(queue, message, n, type, flags);
    if (self->phase == PHASE_NEW) {
        if (gs_cc_test_cancel(self))
            return 0;
        int first = flags & MSG_COPY ? flags : flags | IPC_NOWAIT;
        ssize_t result = msgrcv(queue, message, n, type, first);
        if (result >= 0 || errno != ENOMSG || flags & IPC_NOWAIT)
            return result;
    }
    const long at[CALL_ARGUMENTS] = {queue, (long)message, (long)n, type, flags};
    return gs_cc_call_in_pool(POOL_CANCELS | POOL_EVERY_SIGNAL, SYS_msgrcv, at);
}

static bool may_wait(const struct sembuf *operations, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(operations[i].sem_flg & IPC_NOWAIT))
            return true;
    return false;
}

/* The kernel's limit, unless the administrator has raised it (SEMOPM). */
enum { SEMAPHORE_OPERATIONS_MAX = 500 };

/* With IPC_NOWAIT: the kernel would count a thread that waits for no time, too. It tells whether
 * the operations can be read, before it looks at the time. */
static int try_operations(int set, struct sembuf *operations, size_t count)
{
    static const struct timespec none, invalid = {.tv_nsec = -1};
    struct sembuf tried[SEMAPHORE_OPERATIONS_MAX];
    if (set < 0 || count > SEMAPHORE_OPERATIONS_MAX ||
        (semtimedop(set, operations, count, &invalid) && errno != EINVAL))
        return semtimedop(set, operations, count, &none);
    for (size_t i = 0; i < count; i++) {
        tried[i] = operations[i];
        tried[i].sem_flg |= IPC_NOWAIT;
    }
    return semop(set, tried, count);
}

int gs_cc_semtimedop(int set, struct sembuf *operations, size_t count, const struct timespec *time)
{
    struct thread *self = thread_self();
    if (!self || (time && (!is_valid_time(time) || time->tv_sec < 0)))
        return semtimedop(set, operations, count, time);
    if (self->phase == PHASE_NEW) {
        int result = try_operations(set, operations, count);
        if (!result || errno != EAGAIN || !may_wait(operations, count))
            return result;
    }
    const long at[CALL_ARGUMENTS] = {set, (long)operations, (long)count, (long)time};
    return (int)gs_cc_call_in_pool(POOL_EVERY_SIGNAL, SYS_semtimedop, at);
}

int gs_cc_semop(int set, struct sembuf *operations, size_t count)
{
    return gs_cc_semtimedop(set, operations, count, NULL);
}
