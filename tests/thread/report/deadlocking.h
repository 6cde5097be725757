/* Threads that deadlock: through locks of several kinds and a join. */
#ifndef GS_TESTS_THREAD_DEADLOCKING_H
#define GS_TESTS_THREAD_DEADLOCKING_H

#include "tests/thread/report/report.h"

static struct gs_mutex a, b;
static struct gs_rwlock rwlock;
static struct gs_once once;
static struct gs_barrier barrier;
static struct gs_thread *one, *other;

static inline void meet(void)
{
    MUST(gs_barrier_wait(&barrier, GS_NEVER) >= 0);
}

static inline void *read_and_join(void *unused)
{
    MUST_EQ(gs_rwlock_rdlock(&rwlock, GS_NEVER), 0);
    meet();
    join(other);
    return unused;
}

static inline void *lock_a_and_write(void *unused)
{
    MUST_EQ(gs_mutex_lock(&a, GS_NEVER), 0);
    meet();
    MUST_EQ(gs_rwlock_wrlock(&rwlock, GS_NEVER), 0);
    return unused;
}

static inline void *lock_a(void *unused)
{
    meet();
    MUST_EQ(gs_mutex_lock(&a, GS_NEVER), 0);
    return unused;
}

/* Spawn three threads, each of which waits for the next one when all have met. threads: how many
 * meet, the caller and others included. */
static inline void spawn_mixed_cycle(unsigned threads)
{
    barrier.threads = threads;
    other = spawn_named("joined", lock_a, NULL);
    spawn_named("reader", read_and_join, NULL);
    one = spawn_named("writer", lock_a_and_write, NULL);
}

#endif
