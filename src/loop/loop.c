#include "loop/state.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

/* How often a debug build looks at all invariants: it takes time. */
#define ITERATIONS_PER_CHECK 256

static void init_lists(struct gs_loop *loop)
{
    for (unsigned p = 0; p < PRIORITIES; p++) {
        gs_list_init(&loop->collected[p]);
        gs_list_init(&loop->running[p]);
    }
    gs_list_init(&loop->idles);
    gs_list_init(&loop->prepares);
    gs_list_init(&loop->preparing);
    gs_list_init(&loop->checks);
    gs_list_init(&loop->asyncs);
    gs_list_init(&loop->forks);
    gs_list_init(&loop->cleanups);
    gs_list_init(&loop->embeds);
    gs_list_init(&loop->under_way);
    gs_loop_init_timers(loop);
    gs_loop_init_periodics(loop);
    gs_loop_init_children(loop);
    gs_loop_init_files(loop);
}

int gs_loop_new_on(const char *poller_name, struct gs_loop **ret_loop)
{
    const struct poller *poller = gs_loop_find_poller(poller_name);
    if (!poller)
        return -EINVAL;
    struct gs_loop *loop = aligned_alloc(_Alignof(struct gs_loop), sizeof *loop);
    if (!loop)
        return -ENOMEM;
    *loop = (struct gs_loop){.poller = poller};
    init_lists(loop);
    int err = gs_loop_init_slots(loop);
    if (err)
        goto free_slots;
    err = loop->wake_fd = gs_sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (err < 0)
        goto free_slots;
    err = gs_loop_init_poller(loop);
    if (err)
        goto close_wake_fd;
    gs_loop_update_now(loop);
    *ret_loop = loop;
    return 0;

close_wake_fd:
    gs_sys_close(loop->wake_fd);
free_slots:
    gs_loop_done_slots(loop);
    free(loop);
    return err;
}

int gs_loop_new(struct gs_loop **ret_loop)
{
    return gs_loop_new_on(NULL, ret_loop);
}

void gs_loop_free(struct gs_loop *loop)
{
    if (!loop)
        return;
    gs_loop_call_cleanups(loop);
    gs_loop_stop_watchers(loop);
    loop->poller->done(loop);
    gs_sys_close(loop->wake_fd);
    gs_agenda_done(&loop->timers);
    gs_heap_done(&loop->periodics.heap);
    gs_loop_done_slots(loop);
    free(loop->scratch);
    free(loop);
}

/* ---- After fork ---- */

/* What the child process must not share with its parent; -1: not in use. */
static int open_anew(const struct gs_loop *loop, int *ret_wake, int *ret_jump)
{
    int jump = -1, wake = gs_sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake < 0)
        return wake;
    if (loop->periodics.jump.watcher.active) {
        jump = gs_loop_open_jump();
        if (jump < 0) {
            gs_sys_close(wake);
            return jump;
        }
    }
    *ret_wake = wake;
    *ret_jump = jump;
    return 0;
}

/* The new descriptor takes the number of the one that it replaces, which has a slot. */
static void replace(int fd, int former_fd)
{
    if (fd < 0)
        return;
    gs_sys_dup3(fd, former_fd, O_CLOEXEC);
    gs_sys_close(fd);
}

int gs_loop_forked(struct gs_loop *loop)
{
    int wake, jump, former_wake = loop->wake_fd;
    int err = open_anew(loop, &wake, &jump);
    if (err)
        return err;
    loop->wake_fd = wake;
    err = loop->poller->reopen(loop);
    if (err) {
        loop->wake_fd = former_wake;
        gs_sys_close(wake);
        if (jump >= 0)
            gs_sys_close(jump);
        return err;
    }
    gs_sys_close(former_wake);
    atomic_store(&loop->mailbox.caught, 0);
    gs_loop_forget_kernel(loop);
    replace(jump, loop->periodics.jump.fd);
    gs_loop_watch_files_anew(loop);
    gs_loop_stop_children(loop);
    gs_loop_call_forks(loop);
    return 0;
}

/* ---- One iteration ---- */

uint64_t gs_loop_wait_ns(struct gs_loop *loop, uint64_t deadline_ns)
{
    if (!deadline_ns || loop->is_stopping || loop->is_stopping_all ||
        !gs_list_is_empty(&loop->idles) || gs_loop_has_pending(loop) || gs_loop_has_ready(loop))
        return 0;
    uint64_t timer_ns = gs_loop_next_timer(loop);
    if (timer_ns < deadline_ns)
        deadline_ns = timer_ns;
    uint64_t periodic_ns = GS_NEVER;
    if (UNLIKELY(loop->special_count))
        periodic_ns = gs_loop_next_periodic(loop);
    if (deadline_ns == GS_NEVER)
        return periodic_ns;
    gs_loop_update_now(loop);
    uint64_t timeout_ns = deadline_ns > loop->now_ns ? deadline_ns - loop->now_ns : 0;
    return timeout_ns < periodic_ns ? timeout_ns : periodic_ns;
}

/* The thread sanitizer keeps a signal that comes right before a wait until the next call that it knows
 * of: a loop that waits for signals makes one now and then. */
#ifndef __has_feature
#define __has_feature(feature_) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define SLEEP_MOST (5 * GS_SECOND)
#else
#define SLEEP_MOST GS_NEVER
#endif

uint64_t gs_loop_begin_wait(struct gs_loop *loop, uint64_t deadline_ns)
{
    uint64_t inner_ns = GS_NEVER;
    if (UNLIKELY(!gs_list_is_empty(&loop->embeds)))
        inner_ns = gs_loop_begin_embedded_waits(loop);
    gs_loop_settle(loop);
    uint64_t timeout_ns = gs_loop_wait_ns(loop, deadline_ns);
    if (inner_ns < timeout_ns)
        timeout_ns = inner_ns;
    if (SLEEP_MOST < timeout_ns && atomic_load(&loop->mailbox.watched))
        timeout_ns = SLEEP_MOST;
    return timeout_ns && gs_loop_may_sleep(loop) ? timeout_ns : 0;
}

void gs_loop_after_wait(struct gs_loop *loop)
{
    gs_loop_woke_up(loop);
    if (UNLIKELY(!gs_list_is_empty(&loop->embeds)))
        gs_loop_after_embedded_waits(loop);
}

static int wait(struct gs_loop *loop, uint64_t deadline_ns)
{
    int count = loop->poller->wait(loop, gs_loop_begin_wait(loop, deadline_ns));
    gs_loop_after_wait(loop);
    return count == -EINTR ? 0 : count;
}

static void collect_special(struct gs_loop *loop)
{
    gs_loop_collect_periodics(loop);
    gs_loop_collect_children(loop);
    gs_loop_collect_files(loop);
    gs_loop_collect_embeds(loop);
}

/* Steps 5 to 7. */
static void collect(struct gs_loop *loop, int count)
{
    loop->poller->collect(loop, count);
    gs_loop_collect_ready(loop);
    gs_loop_collect_signals(loop);
    gs_loop_collect_asyncs(loop);
    gs_loop_collect_timers(loop);
    if (UNLIKELY(loop->special_count))
        collect_special(loop);
    if (UNLIKELY(!gs_list_is_empty(&loop->idles)) && !gs_loop_has_pending(loop))
        gs_loop_collect_idles(loop);
    gs_loop_collect_checks(loop);
}

int gs_loop_step(struct gs_loop *loop, uint64_t deadline_ns)
{
    uint64_t callbacks = loop->counts.callbacks;
    loop->counts.iterations++;
    gs_loop_call_prepares(loop);
    int count = wait(loop, deadline_ns);
    if (count < 0)
        return count;
    gs_loop_update_now(loop);
    collect(loop, count);
    gs_loop_call_pending(loop);
#ifndef NDEBUG
    if (loop->counts.iterations % ITERATIONS_PER_CHECK == 0)
        gs_loop_check(loop);
#endif
    return (int)(loop->counts.callbacks - callbacks);
}

int gs_loop_run(struct gs_loop *loop)
{
    bool is_outer_stopping = loop->is_stopping;
    int result = 0;
    loop->runs++;
    loop->is_stopping = false;
    while (!loop->is_stopping && !loop->is_stopping_all && loop->references && result >= 0)
        result = gs_loop_step(loop, GS_NEVER);
    loop->is_stopping = is_outer_stopping;
    if (!--loop->runs)
        loop->is_stopping_all = false;
    return result < 0 ? result : 0;
}

void gs_loop_stop(struct gs_loop *loop)
{
    loop->is_stopping = loop->runs;
}

void gs_loop_stop_all(struct gs_loop *loop)
{
    loop->is_stopping_all = loop->runs;
}

uint64_t gs_loop_now(const struct gs_loop *loop)
{
    return loop->now_ns;
}

void gs_loop_update_now(struct gs_loop *loop)
{
    loop->now_ns = UNLIKELY(loop->clock) ? loop->clock(loop->clock_data) : gs_clock_now();
}

void gs_loop_set_clock(struct gs_loop *loop, gs_loop_clock_fn *clock, void *data)
{
    loop->clock = clock;
    loop->clock_data = data;
    gs_loop_update_now(loop);
}

void gs_loop_set_wall_clock(struct gs_loop *loop, gs_loop_clock_fn *clock, void *data)
{
    loop->wall_clock = clock;
    loop->wall_clock_data = data;
}

uint64_t gs_loop_wall_now(const struct gs_loop *loop)
{
    return UNLIKELY(loop->wall_clock) ? loop->wall_clock(loop->wall_clock_data) : gs_clock_wall();
}

bool gs_loop_holds_files(const struct gs_loop *loop)
{
    return loop->poller->is_told_of_stops;
}

const char *gs_loop_poller(const struct gs_loop *loop)
{
    return loop->poller->name;
}

void gs_loop_counts(const struct gs_loop *loop, struct gs_loop_counts *ret_counts)
{
    *ret_counts = loop->counts;
}
