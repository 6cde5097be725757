/* Waiting for signals, and with another mask. */
#include "compiler/runtime/signals/masks.h"
#include "compiler/runtime/signals/signals.h"

#include <gossamer/io.h>
#include <gossamer/own_descriptors.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

uint64_t *gs_cc_signals_replace(struct thread *self, const sigset_t *mask)
{
    if (self->phase != PHASE_NEW)
        return (uint64_t *)self->progress;
    uint64_t *before = gs_cc_box(sizeof *before);
    *before = gs_cc_mask_of(self);
    gs_cc_signals_begin_wait(self);
    set_phase(self, PHASE_WAITING);
    gs_cc_extra(self)->replaced_mask = before;
    gs_cc_mask_set(self, gs_cc_signal_bits(mask));
    self->progress = self->stack ? 0 : (size_t)before;
    return before;
}

void gs_cc_signals_restore(struct thread *self, uint64_t *before)
{
    self->extra->replaced_mask = NULL;
    gs_cc_mask_set(self, *before);
    gs_cc_box_free(before, sizeof *before);
}

int gs_cc_sigsuspend(const sigset_t *mask)
{
    struct thread *self = thread_self();
    if (!self)
        return sigsuspend(mask);
    uint64_t *before = gs_cc_signals_replace(self, mask);
    while (!gs_cc_is_interrupted(self, false) && !must_cancel(self))
        if (gs_cc_wait(self, true))
            return 0;
    gs_cc_signals_restore(self, before);
    gs_cc_complete(self);
    if (gs_cc_test_cancel(self))
        return 0;
    return result_of(EINTR);
}

int gs_cc_pause(void)
{
    struct thread *self = thread_self();
    if (!self)
        return pause();
    if (gs_cc_test_cancel(self))
        return 0;
    if (self->phase == PHASE_NEW)
        gs_cc_signals_begin_wait(self);
    set_phase(self, PHASE_WAITING);
    while (!gs_cc_is_interrupted(self, false))
        if (gs_cc_wait(self, true) || gs_cc_test_cancel(self))
            return 0;
    gs_cc_complete(self);
    jump_if_told(self);
    return result_of(EINTR);
}

/* ---- Signals that are taken: those of the thread, and those of the process ----
 * The thread blocks them all meanwhile, as the kernel does for it.
 */

struct signal_wait {
    uint64_t set, before;
    uint64_t deadline_ns;
    int fd; /* readable if one is pending for the process; negative: there was none to be had */
};

static struct signal_wait *begin_wait(struct thread *self, const sigset_t *set,
                                      uint64_t deadline_ns)
{
    if (self->phase != PHASE_NEW)
        return (struct signal_wait *)self->progress;
    struct signal_wait *wait = gs_cc_box(sizeof *wait);
    *wait = (struct signal_wait){gs_cc_signal_bits(set), gs_cc_mask_of(self), deadline_ns, -1};
    gs_cc_signals_begin_wait(self);
    set_phase(self, PHASE_WAITING);
    gs_cc_mask_set(self, wait->before | wait->set);
    self->progress = self->stack ? 0 : (size_t)wait;
    return wait;
}

static void end_wait(struct thread *self, struct signal_wait *wait)
{
    if (wait->fd >= 0) {
        gs_forget(wait->fd);
        gs_own_descriptor_close(wait->fd);
    }
    gs_cc_complete(self);
    gs_cc_mask_set(self, wait->before);
    gs_cc_box_free(wait, sizeof *wait);
}

static int take(struct thread *self, const struct signal_wait *wait, siginfo_t *ret_information)
{
    static const struct timespec none;
    const sigset_t set = gs_cc_signal_set(wait->set);
    int number = gs_cc_take_pending(self, wait->set, ret_information);
    return number ? number : sigtimedwait(&set, ret_information, &none);
}

/* Only a thread that has left its stack, and the first one, can be told of a signal of its own. */
static bool wait_for_one(struct thread *self, struct signal_wait *wait)
{
    enum { LOOK_NS = 1000000 };
    const sigset_t set = gs_cc_signal_set(wait->set);
    uint64_t deadline_ns = wait->deadline_ns, soon_ns = gs_clock_after(gs_clock_now(), LOOK_NS);
    int err = 0;
    if (wait->fd < 0)
        wait->fd = gs_own_descriptor(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
    if ((self->stack || wait->fd < 0) && soon_ns < deadline_ns)
        deadline_ns = soon_ns;
    if (wait->fd >= 0 && gs_cc_wait_fd(self, wait->fd, GS_READ, deadline_ns, &err))
        return true;
    return (wait->fd < 0 || (err && err != -ETIMEDOUT)) &&
           gs_cc_wait_until(self, deadline_ns, true);
}

/* Returns the signal or -errno; 0: the caller must return. */
static int wait_for_signal(struct thread *self, const sigset_t *set, uint64_t deadline_ns,
                           siginfo_t *ret_information)
{
    if (self->phase == PHASE_NEW && gs_cc_test_cancel(self))
        return 0;
    struct signal_wait *wait = begin_wait(self, set, deadline_ns);
    int number;
    while ((number = take(self, wait, ret_information)) <= 0) {
        number = is_late(wait->deadline_ns)          ? -EAGAIN
                 : gs_cc_is_interrupted(self, false) ? -EINTR
                 : must_cancel(self)                 ? -ECANCELED
                                                     : 0;
        if (number)
            break;
        if (wait_for_one(self, wait))
            return 0;
    }
    end_wait(self, wait);
    jump_if_told(self);
    return number == -ECANCELED && gs_cc_test_cancel(self) ? 0 : number;
}

/* As glibc's, it goes on after a handler. */
int gs_cc_sigwait(const sigset_t *set, int *ret_number)
{
    struct thread *self = thread_self();
    if (!self)
        return sigwait(set, ret_number);
    int number;
    do
        number = wait_for_signal(self, set, GS_NEVER, NULL);
    while (number == -EINTR);
    if (number < 0)
        return -number;
    if (number)
        *ret_number = number;
    return 0;
}

int gs_cc_sigtimedwait(const sigset_t *set, siginfo_t *ret_information, const struct timespec *time)
{
    struct thread *self = thread_self();
    if (!self || (time && (!is_valid_time(time) || time->tv_sec < 0)))
        return sigtimedwait(set, ret_information, time);
    uint64_t wait_ns = GS_NEVER;
    if (time && time->tv_sec < INT32_MAX)
        wait_ns = (uint64_t)time->tv_sec * GS_SECOND + (uint64_t)time->tv_nsec;
    int number =
        wait_for_signal(self, set, gs_clock_after(gs_clock_now(), wait_ns), ret_information);
    if (number >= 0)
        return number;
    errno = -number;
    return -1;
}

int gs_cc_sigwaitinfo(const sigset_t *set, siginfo_t *ret_information)
{
    return gs_cc_sigtimedwait(set, ret_information, NULL);
}
