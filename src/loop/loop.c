#include "loop/state.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

static const struct poller *const pollers[] = {
    &gs_loop_poller_epoll,
};

/* How often a debug build looks at all invariants: it takes time. */
#define ITERATIONS_PER_CHECK 256

/* The one that the environment names, by default the first; NULL: none. */
static const struct poller *choose_poller(void)
{
    const char *name = getenv("GS_POLLER");
    if (!name || !*name)
        return pollers[0];
    for (size_t i = 0; i < sizeof pollers / sizeof *pollers; i++)
        if (!strcmp(pollers[i]->name, name))
            return pollers[i];
    return NULL;
}

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
}

int gs_loop_new(struct gs_loop **ret_loop)
{
    const struct poller *poller = choose_poller();
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
    err = poller->init(loop);
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

void gs_loop_free(struct gs_loop *loop)
{
    if (!loop)
        return;
    gs_loop_stop_all(loop);
    loop->poller->done(loop);
    gs_sys_close(loop->wake_fd);
    gs_heap_done(&loop->timers);
    gs_loop_done_slots(loop);
    free(loop);
}

int gs_loop_forked(struct gs_loop *loop)
{
    int wake_fd = gs_sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd < 0)
        return wake_fd;
    int former_fd = loop->wake_fd;
    loop->wake_fd = wake_fd;
    int err = loop->poller->reopen(loop);
    if (err) {
        loop->wake_fd = former_fd;
        gs_sys_close(wake_fd);
        return err;
    }
    gs_sys_close(former_fd);
    atomic_store(&loop->mailbox.caught, 0);
    gs_loop_forget_kernel(loop);
    return 0;
}

/* How long step 3 may take. */
static uint64_t wait_ns(struct gs_loop *loop, uint64_t deadline_ns)
{
    if (!deadline_ns || loop->is_stopping || !gs_list_is_empty(&loop->idles) ||
        gs_loop_has_pending(loop) || gs_loop_has_ready(loop))
        return 0;
    uint64_t timer_ns = gs_loop_next_timer(loop);
    if (timer_ns < deadline_ns)
        deadline_ns = timer_ns;
    if (deadline_ns == GS_NEVER)
        return GS_NEVER;
    gs_loop_update_now(loop);
    return deadline_ns > loop->now_ns ? deadline_ns - loop->now_ns : 0;
}

static int wait(struct gs_loop *loop, uint64_t deadline_ns)
{
    uint64_t timeout_ns = wait_ns(loop, deadline_ns);
    if (timeout_ns && !gs_loop_may_sleep(loop))
        timeout_ns = 0;
    int count = loop->poller->wait(loop, timeout_ns);
    gs_loop_woke_up(loop);
    return count == -EINTR ? 0 : count;
}

/* Steps 5 to 7. */
static void collect(struct gs_loop *loop, int count)
{
    loop->poller->collect(loop, count);
    gs_loop_collect_ready(loop);
    gs_loop_collect_signals(loop);
    gs_loop_collect_asyncs(loop);
    gs_loop_collect_timers(loop);
    if (UNLIKELY(!gs_list_is_empty(&loop->idles)) && !gs_loop_has_pending(loop))
        gs_loop_collect_idles(loop);
    gs_loop_collect_checks(loop);
}

int gs_loop_step(struct gs_loop *loop, uint64_t deadline_ns)
{
    uint64_t callbacks = loop->counts.callbacks;
    loop->counts.iterations++;
    gs_loop_call_prepares(loop);
    gs_loop_settle(loop);
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
    while (!loop->is_stopping && loop->references && result >= 0)
        result = gs_loop_step(loop, GS_NEVER);
    loop->is_stopping = is_outer_stopping;
    loop->runs--;
    return result < 0 ? result : 0;
}

void gs_loop_stop(struct gs_loop *loop)
{
    loop->is_stopping = loop->runs;
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

const char *gs_loop_poller(const struct gs_loop *loop)
{
    return loop->poller->name;
}

void gs_loop_counts(const struct gs_loop *loop, struct gs_loop_counts *ret_counts)
{
    *ret_counts = loop->counts;
}
