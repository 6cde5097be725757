/* Waiting for several descriptors, for time, and for names. A poll that has to wait is carried out
 * in a thread with a stack if it has several descriptors; with a single one it waits like read. */
#include "compiler/runtime/io/descriptor.h"
#include "compiler/runtime/signals/signals.h"
#include "compiler/runtime/threads/pool.h"

#include <gossamer/io.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

/* ---- Poll ---- */

static uint64_t deadline_after(struct thread *self, int64_t wait_ns)
{
    if (wait_ns < 0)
        return GS_NEVER;
    return gs_cc_deadline(self, gs_clock_after(gs_clock_now(), (uint64_t)wait_ns));
}

static uint8_t events_of(short events)
{
    return (uint8_t)((events & (POLLIN | POLLPRI | POLLRDHUP | POLLRDNORM) ? GS_READ : 0) |
                     (events & (POLLOUT | POLLWRNORM) ? GS_WRITE : 0));
}

struct many {
    struct thread *self;
    struct gs_interrupt *interrupt; /* NULL: the stack is lent for the wait alone */
    struct gs_poll *polls;
    unsigned count;
    uint64_t deadline_ns;
};

static void wait_for_many(void *argument)
{
    struct many *many = argument;
    leave_stack(many->self);
    int result = many->interrupt ? gs_poll_interruptible(many->polls, many->count,
                                                         many->deadline_ns, many->interrupt)
                                 : gs_poll(many->polls, many->count, many->deadline_ns);
    (void)result; /* the caller asks the kernel again */
    return_to_stack(many->self);
    free(many->polls);
    gs_cc_box_free(many, sizeof *many);
}

/* Wait until one of several may be ready. Returns true if the caller must return. */
static bool wait_several(struct thread *self, const struct pollfd *fds, nfds_t count,
                         uint64_t deadline_ns)
{
    struct gs_poll *polls = calloc(count + 1, sizeof *polls);
    struct many *many = gs_cc_box(sizeof *many);
    unsigned used = 0;
    for (nfds_t i = 0; polls && i < count; i++)
        if (fds[i].fd >= 0)
            polls[used++] = (struct gs_poll){fds[i].fd, events_of(fds[i].events), 0};
    /* A stack that is lent for the wait alone is interrupted itself. */
    self->is_polling = !self->stack;
    struct gs_interrupt *interrupt = self->stack ? &gs_cc_extra(self)->interrupt : NULL;
    *many = (struct many){self, interrupt, polls, used, deadline_ns};
    gs_cc_wait_on_stack(wait_for_many, many);
    return gs_cc_state.suspending;
}

static bool wait_for_one(struct thread *self, const struct pollfd *one, uint64_t deadline_ns)
{
    int err;
    return gs_cc_wait_fd(self, one->fd, one->events & POLLOUT ? GS_WRITE : GS_READ, deadline_ns,
                         &err);
}

static bool is_single(const struct pollfd *fds, nfds_t count)
{
    short both = POLLIN | POLLOUT;
    return count == 1 && fds->fd >= 0 && (fds->events & both) && (fds->events & both) != both;
}

/* Whether the call goes on to wait; otherwise *ret_err is its error, or 0: it was canceled. */
static bool may_wait(struct thread *self, int *ret_err)
{
    *ret_err = 0;
    if (must_cancel(self))
        return false;
    if (self->phase == PHASE_NEW)
        gs_cc_signals_begin_wait(self);
    else if (gs_cc_is_interrupted(self, false))
        *ret_err = -EINTR;
    set_phase(self, PHASE_WAITING);
    return !*ret_err;
}

static int poll_until(struct thread *self, struct pollfd *fds, nfds_t count, uint64_t deadline_ns)
{
    int err;
    self->is_polling = false;
    if (self->phase == PHASE_GRANTED)
        set_phase(self, PHASE_WAITING); /* the call on a stack is complete */
    for (;;) {
        int ready = poll(fds, count, 0);
        if (ready || is_late(deadline_ns))
            return (int)gs_cc_result(self, ready < 0 ? -errno : ready);
        if (!may_wait(self, &err))
            return (int)gs_cc_result(self, err);
        bool must_return = is_single(fds, count) ? wait_for_one(self, fds, deadline_ns)
                           : count               ? wait_several(self, fds, count, deadline_ns)
                                                 : gs_cc_wait_until(self, deadline_ns, true);
        if (must_return)
            return 0;
    }
}

/* A poll that does not wait, which programs repeat. */
static int poll_now(struct thread *self, struct pollfd *fds, nfds_t count)
{
    begin_try(self);
    int ready = poll(fds, count, 0);
    return !ready && gs_cc_turn(self) ? 0 : ready;
}

/* mask: NULL: the mask of signals stays as it is. */
static int poll_masked(struct pollfd *fds, nfds_t count, int64_t wait_ns, const sigset_t *mask)
{
    struct thread *self = thread_self();
    if (!must_cancel(self) && !wait_ns && !mask)
        return poll_now(self, fds, count);
    uint64_t *before = mask ? gs_cc_signals_replace(self, mask) : NULL;
    int result = poll_until(self, fds, count, deadline_after(self, wait_ns));
    if (gs_cc_state.suspending)
        return 0;
    /* Also one that was pending before, without waiting. */
    bool is_interrupted = before && !result && gs_cc_is_interrupted(self, false);
    if (before)
        gs_cc_signals_restore(self, before);
    gs_cc_test_cancel(self);
    if (!is_interrupted)
        return result;
    return result_of(EINTR);
}

int gs_cc_poll(struct pollfd *fds, nfds_t count, int wait_ms)
{
    if (!thread_self())
        return poll(fds, count, wait_ms);
    return poll_masked(fds, count, wait_ms < 0 ? -1 : wait_ms * (int64_t)GS_MILLISECOND, NULL);
}

int gs_cc___poll_chk(struct pollfd *fds, nfds_t count, int wait_ms, size_t size)
{
    if (size / sizeof *fds < count)
        __builtin_trap();
    return gs_cc_poll(fds, count, wait_ms);
}

static int64_t duration(const struct timespec *time)
{
    return time ? time->tv_sec * (int64_t)GS_SECOND + time->tv_nsec : -1;
}

int gs_cc_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *wait, const sigset_t *mask)
{
    if (!thread_self())
        return ppoll(fds, count, wait, mask);
    return poll_masked(fds, count, duration(wait), mask);
}

/* ---- Select: by poll ---- */

static bool is_in(int fd, const fd_set *set)
{
    return set && FD_ISSET(fd, set);
}

static nfds_t list_of(int count, fd_set **sets, struct pollfd *ret_fds)
{
    nfds_t used = 0;
    for (int fd = 0; fd < count; fd++) {
        short events =
            (short)((is_in(fd, sets[0]) ? POLLIN : 0) | (is_in(fd, sets[1]) ? POLLOUT : 0) |
                    (is_in(fd, sets[2]) ? POLLPRI : 0));
        if (events)
            ret_fds[used++] = (struct pollfd){.fd = fd, .events = events};
    }
    return used;
}

static int set_results(const struct pollfd *fds, nfds_t used, fd_set **sets)
{
    static const short ready[] = {POLLIN | POLLHUP | POLLERR, POLLOUT | POLLERR, POLLPRI};
    int count = 0;
    for (nfds_t i = 0; i < used; i++)
        for (int set = 0; set < 3; set++) {
            if (!is_in(fds[i].fd, sets[set]))
                continue;
            if (fds[i].revents & ready[set])
                count++;
            else
                FD_CLR(fds[i].fd, sets[set]);
        }
    return count;
}

/* The sets are of reading, writing and exceptions. */
static int select_masked(int count, fd_set **sets, int64_t wait_ns, const sigset_t *mask)
{
    struct pollfd fds[FD_SETSIZE];
    nfds_t used = list_of(count, sets, fds);
    int ready = poll_masked(fds, used, wait_ns, mask);
    if (gs_cc_state.suspending || ready < 0)
        return ready;
    return set_results(fds, used, sets);
}

int gs_cc_select(int count, fd_set *reads, fd_set *writes, fd_set *others, struct timeval *wait)
{
    if (!thread_self() || count < 0 || count > FD_SETSIZE)
        return select(count, reads, writes, others, wait);
    int64_t wait_ns =
        wait ? wait->tv_sec * (int64_t)GS_SECOND + wait->tv_usec * (int64_t)GS_MICROSECOND : -1;
    return select_masked(count, (fd_set *[]){reads, writes, others}, wait_ns, NULL);
}

int gs_cc_pselect(int count, fd_set *reads, fd_set *writes, fd_set *others,
                  const struct timespec *wait, const sigset_t *mask)
{
    if (!thread_self() || count < 0 || count > FD_SETSIZE)
        return pselect(count, reads, writes, others, wait, mask);
    return select_masked(count, (fd_set *[]){reads, writes, others}, duration(wait), mask);
}

/* ---- Epoll: what it collects makes its own descriptor ready ---- */

struct collect {
    int fd;
    struct epoll_event *events;
    int max;
};

static int collect_until(struct thread *self, const struct collect *collect, uint64_t deadline_ns)
{
    int err;
    for (;;) {
        int ready = epoll_wait(collect->fd, collect->events, collect->max, 0);
        if (ready || is_late(deadline_ns))
            return (int)gs_cc_result(self, ready < 0 ? -errno : ready);
        if (!may_wait(self, &err))
            return (int)gs_cc_result(self, err);
        if (gs_cc_wait_fd(self, collect->fd, GS_READ, deadline_ns, &err))
            return 0;
        if (err && err != -ETIMEDOUT)
            return (int)gs_cc_result(self, err);
    }
}

static int collect_now(struct thread *self, const struct collect *collect)
{
    begin_try(self);
    int ready = epoll_wait(collect->fd, collect->events, collect->max, 0);
    return !ready && gs_cc_turn(self) ? 0 : ready;
}

/* wait_ns: negative: without a limit. */
static int collect(const struct collect *collect, int64_t wait_ns, const sigset_t *mask)
{
    struct thread *self = thread_self();
    if (!must_cancel(self) && !wait_ns && !mask)
        return collect_now(self, collect);
    uint64_t *before = mask ? gs_cc_signals_replace(self, mask) : NULL;
    int result = collect_until(self, collect, deadline_after(self, wait_ns));
    if (gs_cc_state.suspending)
        return 0;
    if (before)
        gs_cc_signals_restore(self, before);
    gs_cc_test_cancel(self);
    return result;
}

int gs_cc_epoll_pwait(int fd, struct epoll_event *events, int max, int wait_ms,
                      const sigset_t *mask)
{
    if (!thread_self())
        return epoll_pwait(fd, events, max, wait_ms, mask);
    int64_t wait_ns = wait_ms < 0 ? -1 : wait_ms * (int64_t)GS_MILLISECOND;
    return collect(&(struct collect){fd, events, max}, wait_ns, mask);
}

int gs_cc_epoll_pwait2(int fd, struct epoll_event *events, int max, const struct timespec *wait,
                       const sigset_t *mask)
{
    if (!thread_self() || (wait && !is_valid_time(wait)))
        return epoll_pwait2(fd, events, max, wait, mask);
    return collect(&(struct collect){fd, events, max}, duration(wait), mask);
}

int gs_cc_epoll_wait(int fd, struct epoll_event *events, int max, int wait_ms)
{
    return gs_cc_epoll_pwait(fd, events, max, wait_ms, NULL);
}

/* ---- Sleep ---- */

/* Returns how much time was left when a signal was handled, or 0. A sleep without time lets others
 * run, as loops that wait for them have nothing else. */
static uint64_t sleep_until(struct thread *self, uint64_t deadline_ns)
{
    if (gs_cc_test_cancel(self))
        return 0;
    if (self->phase == PHASE_SECOND || (self->phase == PHASE_NEW && is_late(deadline_ns))) {
        gs_cc_sched_yield();
        if (!gs_cc_state.suspending)
            gs_cc_complete(self);
        return 0;
    }
    if (self->phase == PHASE_NEW)
        gs_cc_signals_begin_wait(self);
    set_phase(self, PHASE_WAITING);
    while (!is_late(deadline_ns) && !gs_cc_is_interrupted(self, false)) {
        if (gs_cc_wait_until(self, deadline_ns, true) || gs_cc_test_cancel(self))
            return 0;
    }
    gs_cc_complete(self);
    jump_if_told(self);
    return is_late(deadline_ns) ? 0 : deadline_ns - gs_clock_now();
}

static uint64_t sleep_for(struct thread *self, int64_t wait_ns)
{
    return sleep_until(self, deadline_after(self, wait_ns));
}

unsigned gs_cc_sleep(unsigned seconds)
{
    struct thread *self = thread_self();
    if (!self)
        return sleep(seconds);
    uint64_t left_ns = sleep_for(self, seconds * (int64_t)GS_SECOND);
    return (unsigned)((left_ns + GS_SECOND - 1) / GS_SECOND);
}

int gs_cc_usleep(useconds_t microseconds)
{
    struct thread *self = thread_self();
    if (!self)
        return usleep(microseconds);
    if (!sleep_for(self, microseconds * (int64_t)GS_MICROSECOND))
        return 0;
    return result_of(EINTR);
}

static bool is_valid(const struct timespec *time)
{
    return time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < (long)GS_SECOND;
}

int gs_cc_nanosleep(const struct timespec *wait, struct timespec *ret_left)
{
    struct thread *self = thread_self();
    if (!self || !is_valid(wait))
        return nanosleep(wait, ret_left);
    uint64_t left_ns = sleep_for(self, duration(wait));
    if (!left_ns)
        return 0;
    if (ret_left)
        *ret_left = (struct timespec){(time_t)(left_ns / GS_SECOND), (long)(left_ns % GS_SECOND)};
    return result_of(EINTR);
}

int gs_cc_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                          struct timespec *ret_left)
{
    struct thread *self = thread_self();
    if (!self || !is_valid(time))
        return clock_nanosleep(clock, flags, time, ret_left);
    if (!is_known_clock(clock) && (clock == CLOCK_THREAD_CPUTIME_ID || clock_getres(clock, NULL)))
        return EINVAL;
    if (!(flags & TIMER_ABSTIME))
        return gs_cc_nanosleep(time, ret_left) ? EINTR : 0;
    uint64_t deadline_ns = clock == CLOCK_MONOTONIC ? (uint64_t)duration(time)
                                                    : gs_cc_deadline(self, gs_cc_from_wall(time));
    return sleep_until(self, deadline_ns) ? EINTR : 0;
}

/* ---- Names ---- */

struct lookup {
    const char *node, *service;
    const struct addrinfo *hints;
    struct addrinfo **ret_addresses;
    int result, err;
};

static void look_up(void *argument)
{
    struct lookup *lookup = argument;
    lookup->result =
        getaddrinfo(lookup->node, lookup->service, lookup->hints, lookup->ret_addresses);
    lookup->err = errno;
}

static void look_up_on_stack(void *argument)
{
    gs_cc_run_in_pool(look_up, argument, 0);
}

/* The thread's argument of the call is kept in its progress while it waits. */
int gs_cc_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                      struct addrinfo **ret_addresses)
{
    struct thread *self = thread_self();
    if (!self)
        return getaddrinfo(node, service, hints, ret_addresses);
    struct lookup *lookup = (struct lookup *)self->progress;
    if (self->phase == PHASE_NEW) {
        if (gs_cc_test_cancel(self))
            return 0;
        lookup = calloc(1, sizeof *lookup);
        if (!lookup)
            return EAI_MEMORY;
        *lookup = (struct lookup){node, service, hints, ret_addresses, 0, 0};
        self->progress = (size_t)lookup;
    }
    gs_cc_call_on_stack(look_up_on_stack, lookup);
    if (gs_cc_state.suspending)
        return 0;
    int result = lookup->result;
    errno = lookup->err;
    self->progress = 0;
    free(lookup);
    return result;
}
