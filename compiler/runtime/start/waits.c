/* How a thread waits, on its stack or without one, and is woken. */
#include "compiler/runtime/signals/signals.h"

#include <gossamer/io.h>

/* The first thread waits on its stack for other threads by a semaphore, so that the library finds
 * deadlocks, and parks only to wait for something else. It has announced that before it looks at
 * the semaphore, and a thread that wakes it adds a unit before it looks whether it parks: so one of
 * them sees the other. Units that are left over wake it too early. */
static struct gs_semaphore first_woken;
static atomic_bool first_parks;

static void park_first(uint64_t deadline_ns)
{
    atomic_store(&first_parks, true);
    int result = gs_semaphore_wait(&first_woken, 0);
    if (result)
        result = gs_thread_park(deadline_ns);
    (void)result;
    atomic_store_explicit(&first_parks, false, memory_order_relaxed);
}

static void wait_on_stack(struct thread *self, uint64_t deadline_ns, bool is_external)
{
    /* The caller looks at what it waits for, and at the clock. */
    int result = 0;
    if (!self->is_first)
        result = gs_thread_park(deadline_ns);
    else if (deadline_ns == GS_NEVER && !is_external)
        result = gs_semaphore_wait(&first_woken, GS_NEVER);
    else
        park_first(deadline_ns);
    (void)result;
}

static void wake_on_stack(const struct thread *thread, struct gs_thread *stack)
{
    bool is_first = thread->is_first;
    if (is_first)
        gs_semaphore_post(&first_woken);
    if (!is_first || atomic_load(&first_parks))
        gs_thread_unpark(stack);
}

void gs_cc_wake(struct thread *thread)
{
    struct gs_thread *stack = __atomic_load_n(&thread->stack, __ATOMIC_ACQUIRE);
    if (stack)
        wake_on_stack(thread, stack);
    else
        gs_resumable_wake(&thread->resumable);
}

static void on_timer(struct gs_timer *timer)
{
    struct thread *thread = timer->watcher.data;
    thread->extra->has_timer = false;
    gs_cc_wake(thread);
}

static void start_timer(struct thread *self, uint64_t deadline_ns)
{
    struct extra *extra = gs_cc_extra(self);
    if (!extra->has_timer) {
        gs_timer_init(&extra->timer, gs_threads_loop(), on_timer);
        extra->timer.watcher.data = self;
    }
    extra->has_timer = !gs_timer_start(&extra->timer, deadline_ns);
    if (!extra->has_timer)
        gs_resumable_wake(&self->resumable); /* no memory: look again at once */
}

static void stop_timer(struct thread *self)
{
    if (self->extra && self->extra->has_timer) {
        gs_timer_stop(&self->extra->timer);
        self->extra->has_timer = false;
    }
}

bool gs_cc_wait_until(struct thread *self, uint64_t deadline_ns, bool is_external)
{
    is_external |= atomic_load_explicit(&gs_cc_has_outside_threads, memory_order_relaxed);
    if (self->stack) {
        int err = errno;
        leave_stack(self);
        wait_on_stack(self, deadline_ns, is_external);
        return_to_stack(self);
        errno = err;
        return false;
    }
    if (deadline_ns != GS_NEVER)
        start_timer(self, deadline_ns);
    return gs_cc_suspend(self, is_external || deadline_ns != GS_NEVER);
}

bool gs_cc_wait(struct thread *self, bool is_external)
{
    return gs_cc_wait_until(self, GS_NEVER, is_external);
}

/* What interrupts the thread has the descriptor forgotten, which wakes all that wait for it: they
 * look again, and find out if it was closed. */
static int wait_fd_forgettable(struct thread *self, int fd, unsigned direction,
                               uint64_t deadline_ns)
{
    struct extra *extra = gs_cc_extra(self);
    int result = 0;
    atomic_store(&extra->waited_fd, fd + 1);
    if (!must_cancel(self) && !gs_cc_is_interrupted(self, true) && !has_handed(self))
        result = direction == GS_READ ? gs_wait_readable(fd, deadline_ns)
                                      : gs_wait_writable(fd, deadline_ns);
    atomic_store(&extra->waited_fd, 0);
    return result == -EBADF ? 0 : result;
}

/* Returns 0 too early if the wait was interrupted: the caller looks at what it waits for. */
static int wait_fd_on_stack(struct thread *self, int fd, unsigned direction, uint64_t deadline_ns)
{
    int err = errno;
    leave_stack(self);
    int result = wait_fd_forgettable(self, fd, direction, deadline_ns);
    return_to_stack(self);
    errno = err;
    if (has_handed(self))
        gs_cc_signals_handle_on_stack(self);
    return result == -ECANCELED && !must_cancel(self) ? 0 : result;
}

bool gs_cc_wait_fd(struct thread *self, int fd, unsigned direction, uint64_t deadline_ns,
                   int *ret_err)
{
    *ret_err = 0;
    if (deadline_ns != GS_NEVER && deadline_ns <= gs_clock_now()) {
        *ret_err = -ETIMEDOUT;
        return false;
    }
    if (self->stack) {
        *ret_err = wait_fd_on_stack(self, fd, direction, deadline_ns);
        return false;
    }
    int result = gs_resumable_watch(&self->resumable, fd, direction);
    if (result) {
        *ret_err = result < 0 ? result : 0;
        return false;
    }
    if (deadline_ns != GS_NEVER)
        start_timer(self, deadline_ns);
    return gs_cc_suspend(self, true);
}

uint64_t gs_cc_deadline(struct thread *self, uint64_t deadline_ns)
{
    struct extra *extra = gs_cc_extra(self);
    if (self->phase == PHASE_NEW || !extra->deadline_ns)
        extra->deadline_ns = deadline_ns;
    return extra->deadline_ns;
}

/* Times beyond this, in seconds, are never reached. */
#define FAR ((time_t)1 << 33)

uint64_t gs_cc_from_clock(clockid_t clock, const struct timespec *time)
{
    if (time->tv_sec < 0)
        return 1;
    if (time->tv_sec >= FAR)
        return GS_NEVER;
    uint64_t time_ns = (uint64_t)time->tv_sec * GS_SECOND + (uint64_t)time->tv_nsec;
    if (clock == CLOCK_MONOTONIC)
        return time_ns ? time_ns : 1;
    uint64_t now_ns = gs_clock_wall();
    return time_ns <= now_ns ? 1 : gs_clock_after(gs_clock_now(), time_ns - now_ns);
}

uint64_t gs_cc_from_wall(const struct timespec *time)
{
    return gs_cc_from_clock(CLOCK_REALTIME, time);
}

void gs_cc_complete(struct thread *self)
{
    atomic_store_explicit(&self->phase, PHASE_NEW, memory_order_relaxed);
    self->progress = 0;
    self->is_polling = false;
    if (self->extra) {
        stop_timer(self);
        self->extra->deadline_ns = 0;
    }
}
