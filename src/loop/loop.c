/* The loop: its life cycle, one iteration, and the watchers that are pending. The steps are those
 * of gossamer/loop.h. */
#include "base/sanitized.h"
#include "loop/state.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/own_descriptors.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

/* A debug build checks all invariants once in so many iterations, since that is slow. */
#define ITERATIONS_PER_CHECK 256

#define CACHE_LINE 64

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
    gs_list_init(&loop->active_ops);
    gs_loop_init_timers(loop);
    gs_loop_init_periodics(loop);
    gs_loop_init_children(loop);
    gs_loop_init_files(loop);
}

int gs_loop_new_with(const char *poller_name, struct gs_loop **ret_loop)
{
    const struct poller *poller = gs_loop_find_poller(poller_name);
    if (!poller)
        return -EINVAL;
    struct gs_loop *loop = aligned_alloc(_Alignof(struct gs_loop), sizeof *loop);
    if (!loop)
        return -ENOMEM;
    *loop = (struct gs_loop){.poller = poller};
    CHECKED_NEW_LOOP(loop);
    init_lists(loop);
    int err = gs_loop_init_slots(loop);
    if (err)
        goto free_slots;
    err = loop->wake_fd = gs_own_descriptor(gs_sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (err < 0)
        goto free_slots;
    err = gs_loop_init_poller(loop);
    if (err)
        goto close_wake_fd;
    gs_loop_update_now(loop);
    *ret_loop = loop;
    return 0;

close_wake_fd:
    gs_own_descriptor_close(loop->wake_fd);
free_slots:
    CHECKED_FORGET_LOOP(loop);
    gs_loop_done_slots(loop);
    free(loop);
    return err;
}

int gs_loop_new(struct gs_loop **ret_loop)
{
    return gs_loop_new_with(NULL, ret_loop);
}

void gs_loop_free(struct gs_loop *loop)
{
    if (!loop)
        return;
    CHECKED_FREE(loop);
    gs_loop_call_cleanups(loop);
    gs_loop_end_works(loop);
    gs_loop_stop_watchers(loop);
    loop->poller->done(loop);
    gs_own_descriptor_close(loop->wake_fd);
    gs_timer_queue_done(&loop->timers);
    gs_heap_done(&loop->periodics.heap);
    gs_loop_done_slots(loop);
    free(loop->scratch);
#ifdef GS_CHECKED
    loop = gs_quarantine_loop(loop);
#endif
    free(loop);
}

/* ---- Pending watchers ---- */

void gs_loop_set_pending_first(struct gs_watcher *watcher)
{
    struct gs_list *list = &watcher->loop->collected[watcher->priority + 2];
    if (gs_list_is_linked(&watcher->pending))
        return;
    gs_list_prepend(list, &watcher->pending);
    watcher->loop->collected_mask |= 1u << (watcher->priority + 2);
}

bool gs_loop_has_pending(struct gs_loop *loop)
{
    for (unsigned p = 0; loop->collected_mask >> p; p++)
        if (!gs_list_is_empty(&loop->collected[p]))
            return true;
    loop->collected_mask = 0;
    return false;
}

/* In a nested iteration, the remaining watchers of the outer iteration come first. */
static void move_collected_to_running(struct gs_loop *loop)
{
    for (unsigned p = 0; loop->collected_mask >> p; p++)
        gs_list_append_all(&loop->running[p], &loop->collected[p]);
    loop->running_mask |= loop->collected_mask;
    loop->collected_mask = 0;
}

void gs_loop_set_prefetch(struct gs_loop *loop, size_t before, size_t after)
{
    loop->prefetch_before = before;
    loop->prefetch_after = after;
}

static void prefetch(const struct gs_loop *loop, const struct gs_list *link)
{
    uintptr_t watcher = (uintptr_t)gs_container_of(link, struct gs_watcher, pending);
    uintptr_t end = watcher + loop->prefetch_after;
    for (uintptr_t line = watcher - loop->prefetch_before; line < end; line += CACHE_LINE)
        __builtin_prefetch((const void *)line, 1);
}

/* Step 8. */
static void call_pending(struct gs_loop *loop)
{
    move_collected_to_running(loop);
    while (loop->running_mask) {
        unsigned p = 31u - (unsigned)__builtin_clz(loop->running_mask);
        struct gs_list *link = gs_list_first(&loop->running[p]);
        if (link == &loop->running[p]) {
            loop->running_mask &= ~(1u << p);
            continue;
        }
        struct gs_watcher *watcher = gs_container_of(link, struct gs_watcher, pending);
        prefetch(loop, link->next);
        gs_list_remove(link);
        unsigned events = watcher->events;
        watcher->events = 0;
        loop->counts.callbacks++;
        if (LIKELY(watcher->kind <= KIND_OP && !(events & GS_FAILED))) {
            struct gs_io *io = (struct gs_io *)watcher;
            io->callback(io, events);
        } else {
            gs_loop_call(watcher, events);
        }
    }
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

/* The thread sanitizer defers a signal that arrives right before a wait until the next call that it
 * intercepts. A loop that watches signals therefore limits its waits under the sanitizer. */
#if GS_TSAN
#define SLEEP_MAX (5 * GS_SECOND)
#else
#define SLEEP_MAX GS_NEVER
#endif

uint64_t gs_loop_before_wait(struct gs_loop *loop, uint64_t deadline_ns)
{
    uint64_t inner_ns = GS_NEVER;
    if (UNLIKELY(!gs_list_is_empty(&loop->embeds)))
        inner_ns = gs_loop_before_embedded_waits(loop);
    gs_loop_apply_changes(loop);
    uint64_t timeout_ns = gs_loop_wait_ns(loop, deadline_ns);
    if (inner_ns < timeout_ns)
        timeout_ns = inner_ns;
    if (SLEEP_MAX < timeout_ns && atomic_load(&loop->mailbox.watched_signals))
        timeout_ns = SLEEP_MAX;
    return timeout_ns && gs_loop_try_sleep(loop) ? timeout_ns : 0;
}

void gs_loop_after_wait(struct gs_loop *loop)
{
    gs_loop_end_sleep(loop);
    if (UNLIKELY(!gs_list_is_empty(&loop->embeds)))
        gs_loop_after_embedded_waits(loop);
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

int gs_loop_run_once(struct gs_loop *loop, uint64_t deadline_ns)
{
    CHECKED_RUN(loop);
    CHECKED_LOOP_DEADLINE(loop, deadline_ns);
    uint64_t callbacks = loop->counts.callbacks;
    loop->counts.iterations++;
    gs_loop_call_prepares(loop);
    uint64_t timeout_ns = gs_loop_before_wait(loop, deadline_ns);
    int count = loop->poller->wait(loop, timeout_ns);
    gs_loop_after_wait(loop);
    if (count == -EINTR)
        count = 0;
    if (count < 0)
        return count;
    gs_loop_update_now(loop);
    collect(loop, count);
    call_pending(loop);
#ifndef NDEBUG
    if (loop->counts.iterations % ITERATIONS_PER_CHECK == 0)
        gs_loop_check(loop);
#endif
    return (int)(loop->counts.callbacks - callbacks);
}

int gs_loop_run(struct gs_loop *loop)
{
    CHECKED_RUN(loop);
    bool is_outer_stopping = loop->is_stopping;
    int result = 0;
    loop->runs++;
    loop->is_stopping = false;
    while (!loop->is_stopping && !loop->is_stopping_all && loop->references && result >= 0)
        result = gs_loop_run_once(loop, GS_NEVER);
    loop->is_stopping = is_outer_stopping;
    if (!--loop->runs)
        loop->is_stopping_all = false;
    return result < 0 ? result : 0;
}

void gs_loop_stop(struct gs_loop *loop)
{
    CHECKED_LOOP(loop);
    loop->is_stopping = loop->runs;
}

void gs_loop_stop_all(struct gs_loop *loop)
{
    CHECKED_LOOP(loop);
    loop->is_stopping_all = loop->runs;
}

/* ---- Clocks and properties ---- */

uint64_t gs_loop_now(const struct gs_loop *loop)
{
    return loop->now_ns;
}

void gs_loop_update_now(struct gs_loop *loop)
{
    CHECKED_LOOP(loop);
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
    return loop->poller->needs_stop;
}

const char *gs_loop_poller(const struct gs_loop *loop)
{
    return loop->poller->name;
}

void gs_loop_counts(const struct gs_loop *loop, struct gs_loop_counts *ret_counts)
{
    *ret_counts = loop->counts;
}

/* ---- After a fork ---- */

/* Open the descriptors that the child process must not share with its parent; -1: not in use. */
static int open_fds_for_child(const struct gs_loop *loop, int *ret_wake, int *ret_clock_jump)
{
    int clock_jump = -1;
    int wake = gs_own_descriptor(gs_sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (wake < 0)
        return wake;
    if (loop->periodics.clock_jump.watcher.active) {
        clock_jump = gs_loop_open_clock_jump();
        if (clock_jump < 0) {
            gs_own_descriptor_close(wake);
            return clock_jump;
        }
    }
    *ret_wake = wake;
    *ret_clock_jump = clock_jump;
    return 0;
}

/* Move fd to the number of old_fd, which has a slot. */
static void replace_fd(int fd, int old_fd)
{
    if (fd < 0)
        return;
    gs_sys_dup3(fd, old_fd, O_CLOEXEC);
    gs_own_descriptor_close(fd);
}

int gs_loop_after_fork(struct gs_loop *loop)
{
    CHECKED_LOOP_AFTER_FORK(loop);
    int wake, clock_jump, old_wake = loop->wake_fd;
    int err = open_fds_for_child(loop, &wake, &clock_jump);
    if (err)
        return err;
    loop->wake_fd = wake;
    err = loop->poller->reopen(loop);
    if (err) {
        loop->wake_fd = old_wake;
        gs_own_descriptor_close(wake);
        if (clock_jump >= 0)
            gs_own_descriptor_close(clock_jump);
        return err;
    }
    gs_own_descriptor_close(old_wake);
    atomic_store(&loop->mailbox.caught_signals, 0);
    gs_loop_clear_registrations(loop);
    gs_loop_cancel_ops_after_fork(loop);
    gs_loop_cancel_works_after_fork(loop);
    replace_fd(clock_jump, loop->periodics.clock_jump.fd);
    gs_loop_rewatch_files(loop);
    gs_loop_stop_children(loop);
    gs_loop_call_forks(loop);
    return 0;
}
