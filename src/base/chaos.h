/* Schedule randomization: in a build with GS_CHAOS, kernel threads are delayed or yield at points
 * where the schedule can matter, so that tests meet rare schedules. In other builds these functions
 * are empty.
 *
 * The delay at a point depends on the seed, the kernel thread, and the number of points that it has
 * passed. GS_CHAOS_SEED sets the seed; without it a random seed is written to standard error. With
 * the same seed, a kernel thread gets the same delays as long as it takes the same path. The
 * kernel's scheduling remains random; `taskset -c 0 setarch -R` reduces that most. */
#ifndef GS_BASE_CHAOS_H
#define GS_BASE_CHAOS_H

enum chaos_kind {
    CHAOS_LOCK,    /* before a lock is acquired */
    CHAOS_UNLOCK,  /* before and after it is released */
    CHAOS_PUBLISH, /* around making something visible to others */
    CHAOS_CLAIM,   /* around claiming a waiting thread */
    CHAOS_WAKE,    /* before a claimed thread is made ready, and around waking a kernel thread */
    CHAOS_PARK,    /* before a thread waits */
    CHAOS_RETURN,  /* after the wait */
    CHAOS_STEAL,   /* around taking from a shared structure */
    CHAOS_MIGRATE, /* when a thread leaves a worker */
    CHAOS_END,     /* around a thread's end */
    CHAOS_CALL,    /* before a system call */
    CHAOS_KINDS,
};

#ifdef GS_CHAOS
#define GS_IS_CHAOS 1
void gs_chaos(enum chaos_kind kind);
#else
#define GS_IS_CHAOS 0
static inline void gs_chaos(enum chaos_kind kind)
{
    (void)kind;
}
#endif

#endif
