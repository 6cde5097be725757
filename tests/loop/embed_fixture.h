/* Fixture of the tests of embedded loops: an outer loop, an inner one, and callbacks that log. */
#ifndef GS_TESTS_LOOP_EMBED_FIXTURE_H
#define GS_TESTS_LOOP_EMBED_FIXTURE_H

#include "tests/loop/fixture.h"

static struct gs_loop *outer, *inner;
static struct gs_embed embed;
static int last_result, results;

static inline void on_step(struct gs_embed *of, int result)
{
    (void)of;
    last_result = result;
    results++;
}

/* The environment variable GS_POLLER selects the outer loop's poller. */
static inline void set_up_inner_on(const char *poller)
{
    outer = new_loop();
    results = 0;
    if (gs_loop_new_with(poller, &inner))
        abort();
    gs_embed_init(&embed, outer, inner, on_step);
    if (gs_embed_start(&embed))
        abort();
}

/* Use the same poller for the inner loop, or epoll if that poller cannot be embedded. */
static inline void set_up(void)
{
    const char *poller = getenv("GS_POLLER");
    set_up_inner_on(poller && !strcmp(poller, "io_uring") ? poller : "epoll");
}

static inline void tear_down(void)
{
    gs_loop_check(inner);
    gs_loop_check(outer);
    gs_loop_free(outer);
    gs_loop_free(inner);
}

static inline void on_io(struct gs_io *io, unsigned events)
{
    (void)events;
    take_byte(io->fd);
    log_call(&io->watcher);
}

static inline void on_timer(struct gs_timer *timer)
{
    log_call(&timer->watcher);
}

/* Start a timer of the inner loop that is due at once; the log shows its calls as `name`. */
static inline void start_in_inner(struct gs_timer *timer, gs_timer_fn *callback, const char *name)
{
    gs_timer_init(timer, inner, callback);
    timer->watcher.data = (void *)name;
    if (gs_timer_start(timer, 1))
        abort();
}

static inline void on_signal(struct gs_signal *signal)
{
    log_call(&signal->watcher);
}

static inline void on_idle(struct gs_idle *idle)
{
    log_call(&idle->watcher);
    gs_idle_stop(idle);
}

static inline void on_async(struct gs_async *async)
{
    log_call(&async->watcher);
}

/* Run iterations of the outer loop until it has called a callback. */
static inline int wait_once(void)
{
    int called;
    do
        called = gs_loop_run_once(outer, GS_NEVER);
    while (called == 0);
    gs_loop_check(outer);
    gs_loop_check(inner);
    return called;
}

#endif
