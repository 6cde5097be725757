/* Calls of the C library that block: a kernel thread of the pool makes them. */
#include "compiler/runtime/signals/signals.h"
#include "compiler/runtime/threads/pool.h"

#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/file.h>

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
    sanitizer_acquire(blocking);
    errno = blocking->err;
    blocking->call(blocking->box);
    blocking->err = errno;
    blocking->h_err = h_errno;
    blocking->has_no_reader = gs_cc_took_pipe();
    sanitizer_release(blocking);
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

/* ---- Locks of files ----
 * The thread that holds one needs no kernel thread of the pool to unlock it.
 */

struct lock {
    int fd, operation, result;
    struct flock *record; /* NULL: the whole file, by flock */
};

static void lock_file(void *argument)
{
    struct lock *lock = argument;
    lock->result = lock->record ? fcntl(lock->fd, lock->operation, lock->record)
                                : flock(lock->fd, lock->operation);
}

/* Only locking a record is a cancellation point. Returns the result, or any while the caller must
 * return. */
static int lock_in_pool(struct thread *self, const struct lock *wanted)
{
    unsigned options = wanted->record ? POOL_BOTH : POOL_SIGNALS;
    struct lock here = *wanted, *lock = &here; /* that of the first call is used */
    if (self->phase == PHASE_NEW) {
        lock = gs_cc_box(sizeof *lock);
        *lock = here;
    }
    lock = gs_cc_in_pool(lock_file, lock, options);
    if (!lock)
        return 0;
    int result = lock->result;
    gs_cc_box_free(lock, sizeof *lock);
    gs_cc_end_in_pool(self);
    return result;
}

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
    return lock_in_pool(self, &(struct lock){fd, command, 0, record});
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
    return lock_in_pool(self, &(struct lock){fd, operation, 0, NULL});
}
