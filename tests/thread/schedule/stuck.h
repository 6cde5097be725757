/* Workers that are stuck until the test releases them, so that no test depends on time. */
#ifndef GS_TESTS_THREAD_STUCK_H
#define GS_TESTS_THREAD_STUCK_H

#include "tests/thread/fixture.h"

static atomic_bool is_finished;
static atomic_int stuck, done __attribute__((unused));
static int release[2]; /* a pipe */

static inline void begin(void)
{
    atomic_store(&is_finished, false);
    atomic_store(&stuck, 0);
    atomic_store(&done, 0);
    CHECK_EQ(pipe(release), 0);
}

/* Release the stuck workers. */
static inline void end_all(void)
{
    atomic_store(&is_finished, true);
    close(release[1]);
}

static inline void end(void)
{
    close(release[0]);
}

static inline void block(void)
{
    char byte;
    atomic_fetch_add(&stuck, 1);
    MUST_EQ(gs_sys_read(release[0], &byte, 1), 0);
}

static inline void *block_in_call(void *unused)
{
    block();
    return unused;
}

static inline void compute(void)
{
    atomic_fetch_add(&stuck, 1);
    while (!atomic_load(&is_finished))
        ;
}

static inline void *spawn_on(unsigned worker, const char *name, gs_thread_fn *fn)
{
    const struct gs_thread_attributes attributes = {.name = name, .worker = worker};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&attributes, fn, NULL, &thread), 0);
    return thread;
}

#endif
