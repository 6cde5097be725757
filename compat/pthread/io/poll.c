/* poll, select and epoll_wait: asked without waiting; then the task waits for the descriptors. */
#include "compat/pthread/io/io.h"
#include "compat/pthread/start/calls.h"
#include "compat/pthread/threads/task.h"

#include <errno.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>

#define POLLS_ON_STACK 64

/* ---- The mask during a call ---- */

/* The forms with a signal mask wait with that; a signal that it lets in is delivered before the
 * previous one holds again, for which that is kept until the task leaves. */
struct mask_change {
    bool is_changed;
    gs_signals before;
};

static struct mask_change change_mask(struct task *task, const gs_signals *mask)
{
    struct mask_change change = {mask != NULL, atomic_load(&task->mask)};
    if (mask)
        gs_set_mask(task, *mask, false);
    return change;
}

/* Signals that only the temporary mask lets in are delivered now, with the call's context. */
static long restore_mask(struct task *task, const struct mask_change *change, ucontext_t *context,
                         long result)
{
    if (!change->is_changed)
        return result;
    if (result == RESTART_NEVER && context) {
        long interrupted = -EINTR;
        context->uc_mcontext.gregs[REG_RAX] = -EINTR;
        gs_deliver(task, context, &interrupted, -1);
        result = -EINTR;
    }
    gs_set_mask(task, change->before, false);
    return result;
}

/* ---- poll ---- */

static long ask_poll(struct pollfd *polls, unsigned long count)
{
    return gs_syscall(SYS_poll, (long)polls, (long)count, 0, 0, 0, 0);
}

/* A pollfd's events are those of epoll. */
static long poll_one_until(struct task *task, struct pollfd *poll, uint64_t deadline_ns)
{
    if (!gs_poll_expects_wait(poll->fd)) {
        long ready = ask_poll(poll, 1);
        gs_poll_was_asked(poll->fd, !ready);
        if (ready)
            return ready;
    }
    for (;;) {
        int err = gs_wait_to_poll(task, poll, deadline_ns);
        if (err == -EINTR)
            return RESTART_NEVER;
        if (err && err != -ETIMEDOUT)
            return err;
        if (!err && poll->revents)
            return 1;
        long ready = ask_poll(poll, 1);
        if (ready || err)
            return ready;
    }
}

static long poll_until(struct task *task, struct pollfd *polls, unsigned long count,
                       uint64_t deadline_ns)
{
    for (;;) {
        long ready = ask_poll(polls, count);
        if (ready)
            return ready;
        int err = gs_wait_for_descriptors(task, polls, count, deadline_ns);
        if (err == -EINTR)
            return RESTART_NEVER;
        if (err == -ETIMEDOUT)
            return ask_poll(polls, count);
        if (err)
            return err;
    }
}

/* What cannot be watched by our epoll instance (a nested one that is too deep) is polled there. */
static long poll_in_pool(struct task *task, struct pollfd *polls, unsigned long count,
                         uint64_t deadline_ns)
{
    uint64_t now_ns = gs_clock_now();
    uint64_t ns = deadline_ns == GS_NEVER ? 0 : deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    struct timespec timeout = {(time_t)(ns / GS_SECOND), (long)(ns % GS_SECOND)};
    const long arguments[6] = {(long)polls, (long)count,
                               deadline_ns == GS_NEVER ? 0 : (long)&timeout, 0, 8};
    long result = gs_pool_call(task, SYS_ppoll, arguments);
    return result == RESTART_IF_ASKED ? RESTART_NEVER : result;
}

static long poll_for(struct task *task, struct pollfd *polls, unsigned long count,
                     uint64_t deadline_ns)
{
    long result = count == 1 && polls->fd >= 0 ? poll_one_until(task, polls, deadline_ns)
                                               : poll_until(task, polls, count, deadline_ns);
    return result == -EPERM || result == -ELOOP || result == -ENOSPC || result == -ENOMEM
               ? poll_in_pool(task, polls, count, deadline_ns)
               : result;
}

long gs_call_poll(struct task *task, const long *arguments, ucontext_t *context)
{
    int timeout_ms = (int)arguments[2];
    uint64_t deadline_ns = GS_NEVER;
    (void)context;
    if (timeout_ms == 0)
        return ask_poll((struct pollfd *)arguments[0], (unsigned long)arguments[1]);
    if (timeout_ms > 0)
        deadline_ns = gs_clock_now() + (uint64_t)timeout_ms * GS_MILLISECOND;
    return poll_for(task, (struct pollfd *)arguments[0], (unsigned long)arguments[1], deadline_ns);
}

/* The kernel stores the time that is left. */
static void store_rest(struct timespec *timeout, uint64_t deadline_ns)
{
    uint64_t now_ns = gs_clock_now(), rest_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    if (timeout)
        *timeout = (struct timespec){(time_t)(rest_ns / GS_SECOND), (long)(rest_ns % GS_SECOND)};
}

long gs_call_ppoll(struct task *task, const long *arguments, ucontext_t *context)
{
    struct timespec *timeout = (struct timespec *)arguments[2];
    uint64_t deadline_ns;
    int err = gs_deadline_after(timeout, &deadline_ns);
    if (err)
        return err;
    const struct mask_change change = change_mask(task, (const gs_signals *)arguments[3]);
    long result =
        poll_for(task, (struct pollfd *)arguments[0], (unsigned long)arguments[1], deadline_ns);
    store_rest(timeout, deadline_ns);
    return restore_mask(task, &change, context, result);
}

/* ---- select ---- */

struct select_sets {
    int count;
    fd_set *read, *write, *except;
};

static long ask_select(const struct select_sets *sets)
{
    struct timespec now = {0};
    return gs_syscall(SYS_pselect6, sets->count, (long)sets->read, (long)sets->write,
                      (long)sets->except, (long)&now, 0);
}

static bool has(const fd_set *set, int fd)
{
    const unsigned long *words = (const unsigned long *)set;
    return set && words[fd / 64] >> (fd % 64) & 1;
}

static unsigned long polls_of(const struct select_sets *sets, struct pollfd *polls)
{
    unsigned long count = 0;
    for (int fd = 0; fd < sets->count; fd++) {
        short events =
            (short)((has(sets->read, fd) ? POLLIN | POLLRDHUP : 0) |
                    (has(sets->write, fd) ? POLLOUT : 0) | (has(sets->except, fd) ? POLLPRI : 0));
        if (events)
            polls[count++] = (struct pollfd){.fd = fd, .events = events};
    }
    return count;
}

static size_t words_of(const struct select_sets *sets)
{
    return ((size_t)sets->count + 63) / 64;
}

static void copy_set(fd_set *to, const fd_set *from, size_t words)
{
    for (size_t i = 0; from && i < words; i++)
        ((unsigned long *)to)[i] = ((const unsigned long *)from)[i];
}

#define SELECT_MAX 1024

static long select_by_polls(struct task *task, const struct select_sets *sets, struct pollfd *polls,
                            uint64_t deadline_ns)
{
    fd_set read, write, except;
    struct select_sets copy = {sets->count, sets->read ? &read : NULL, sets->write ? &write : NULL,
                               sets->except ? &except : NULL};
    size_t words = words_of(sets);
    unsigned long count = polls_of(sets, polls);
    for (int err = 0;;) {
        copy_set(&read, sets->read, words);
        copy_set(&write, sets->write, words);
        copy_set(&except, sets->except, words);
        long ready = ask_select(&copy);
        if (ready || err == -ETIMEDOUT) {
            copy_set(sets->read, copy.read, words);
            copy_set(sets->write, copy.write, words);
            copy_set(sets->except, copy.except, words);
            return ready;
        }
        err = gs_wait_for_descriptors(task, polls, count, deadline_ns);
        if (err == -EINTR)
            return RESTART_NEVER;
        if (err && err != -ETIMEDOUT)
            return err;
    }
}

/* A stack may have 16 KiB, of which the kernel has taken a part for the signal. */
static long select_small(struct task *task, const struct select_sets *sets, uint64_t deadline_ns)
{
    struct pollfd on_stack[POLLS_ON_STACK], *polls = on_stack;
    if (sets->count > POLLS_ON_STACK)
        polls = calloc((size_t)sets->count, sizeof *polls);
    if (!polls)
        return -ENOMEM;
    long result = select_by_polls(task, sets, polls, deadline_ns);
    if (polls != on_stack)
        free(polls);
    return result;
}

static long select_for(struct task *task, const struct select_sets *sets, uint64_t deadline_ns)
{
    if (sets->count < 0)
        return -EINVAL;
    long result = sets->count <= SELECT_MAX ? select_small(task, sets, deadline_ns) : -EPERM;
    if (result != -EPERM && result != -ELOOP && result != -ENOMEM)
        return result;
    struct timespec rest, *timeout = deadline_ns == GS_NEVER ? NULL : &rest;
    store_rest(timeout, deadline_ns);
    const long arguments[6] = {sets->count, (long)sets->read, (long)sets->write, (long)sets->except,
                               (long)timeout};
    result = gs_pool_call(task, SYS_pselect6, arguments);
    return result == RESTART_IF_ASKED ? RESTART_NEVER : result;
}

static struct select_sets sets_of(const long *arguments)
{
    return (struct select_sets){(int)arguments[0], (fd_set *)arguments[1], (fd_set *)arguments[2],
                                (fd_set *)arguments[3]};
}

long gs_call_select(struct task *task, const long *arguments, ucontext_t *context)
{
    struct timeval *timeout = (struct timeval *)arguments[4];
    const struct select_sets sets = sets_of(arguments);
    struct timespec rest;
    uint64_t deadline_ns = GS_NEVER;
    (void)context;
    if (timeout) {
        if (timeout->tv_sec < 0 || timeout->tv_usec < 0)
            return -EINVAL;
        rest = (struct timespec){timeout->tv_sec + timeout->tv_usec / 1000000,
                                 timeout->tv_usec % 1000000 * 1000};
        gs_deadline_after(&rest, &deadline_ns);
    }
    long result = select_for(task, &sets, deadline_ns);
    if (timeout) {
        store_rest(&rest, deadline_ns);
        *timeout = (struct timeval){rest.tv_sec, rest.tv_nsec / 1000};
    }
    return result;
}

long gs_call_pselect6(struct task *task, const long *arguments, ucontext_t *context)
{
    struct timespec *timeout = (struct timespec *)arguments[4];
    const gs_signals *const *mask = (const gs_signals *const *)arguments[5];
    const struct select_sets sets = sets_of(arguments);
    uint64_t deadline_ns;
    int err = gs_deadline_after(timeout, &deadline_ns);
    if (err)
        return err;
    const struct mask_change change = change_mask(task, mask ? *mask : NULL);
    long result = select_for(task, &sets, deadline_ns);
    store_rest(timeout, deadline_ns);
    return restore_mask(task, &change, context, result);
}

/* ---- epoll ---- */

static long ask_epoll(const long *arguments)
{
    return gs_syscall(SYS_epoll_pwait, arguments[0], arguments[1], arguments[2], 0, 0, 8);
}

static long epoll_for(struct task *task, const long *arguments, uint64_t deadline_ns)
{
    for (;;) {
        long ready = ask_epoll(arguments);
        if (ready)
            return ready;
        int err = gs_wait_for_descriptor(task, (int)arguments[0], POLLIN, deadline_ns);
        if (err == -EINTR)
            return RESTART_NEVER;
        if (err == -ETIMEDOUT)
            return ask_epoll(arguments);
        if (err == -ELOOP || err == -ENOMEM || err == -ENOSPC) {
            struct pollfd poll = {.fd = (int)arguments[0], .events = POLLIN};
            long result = poll_in_pool(task, &poll, 1, deadline_ns);
            if (result <= 0)
                return result;
        } else if (err) {
            return err;
        }
    }
}

static uint64_t deadline_after_ms(int timeout_ms)
{
    if (timeout_ms < 0)
        return GS_NEVER;
    return timeout_ms ? gs_clock_now() + (uint64_t)timeout_ms * GS_MILLISECOND : 0;
}

static long epoll_with_mask(struct task *task, const long *arguments, uint64_t deadline_ns,
                            ucontext_t *context)
{
    const struct mask_change change = change_mask(task, (const gs_signals *)arguments[4]);
    long result = deadline_ns ? epoll_for(task, arguments, deadline_ns) : ask_epoll(arguments);
    return restore_mask(task, &change, context, result);
}

long gs_call_epoll_wait(struct task *task, const long *arguments, ucontext_t *context)
{
    const long without_mask[6] = {arguments[0], arguments[1], arguments[2]};
    return epoll_with_mask(task, without_mask, deadline_after_ms((int)arguments[3]), context);
}

long gs_call_epoll_pwait(struct task *task, const long *arguments, ucontext_t *context)
{
    return epoll_with_mask(task, arguments, deadline_after_ms((int)arguments[3]), context);
}

long gs_call_epoll_pwait2(struct task *task, const long *arguments, ucontext_t *context)
{
    uint64_t deadline_ns;
    const struct timespec *timeout = (const struct timespec *)arguments[3];
    int err = gs_deadline_after(timeout, &deadline_ns);
    if (err)
        return err;
    bool is_zero = timeout && !timeout->tv_sec && !timeout->tv_nsec;
    return epoll_with_mask(task, arguments, is_zero ? 0 : deadline_ns, context);
}
