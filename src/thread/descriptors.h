/* File descriptors as the runtime knows them: which loop watches a descriptor, whether it may be
 * ready, and which threads wait for it. The table is indexed by number; its entries are allocated
 * when first used and freed at the end of the run.
 *
 * `maybe_ready` holds GS_READ and GS_WRITE: whether a system call is worth trying. A bit is cleared
 * before the system call that may consume everything, and set by an event, or by a call that may
 * have left something: so an event that arrives during the call is not lost. Invariants, under the
 * lock:
 *
 *   1. A descriptor with an owner is watched by the owner's loop, edge-triggered, through `watch`;
 *      only the owner starts and stops the watch. Other workers may detach the watch: then it is no
 *      longer the descriptor's, and the owner stops it later.
 *   2. No thread waits for readiness while the descriptor has an owner and `maybe_ready` has the
 *      bit that the thread waits for.
 *   3. `is_first_used` says whether the embedded watch, `first`, is active, or was detached and is
 *      not stopped yet; it is set under the lock.
 */
#ifndef GS_THREAD_DESCRIPTORS_H
#define GS_THREAD_DESCRIPTORS_H

#include "loop/checked.h"
#include "thread/waiters.h"

enum descriptor_kind {
    KIND_UNKNOWN,
    KIND_TCP, /* a short read has emptied the socket */
    KIND_POLLABLE,
    KIND_REGULAR, /* it cannot be polled */
};

/* A registration of a descriptor with a loop. The descriptor's first one is embedded in it, so that
 * an event touches few cache lines; another one is allocated only while the first is still to be
 * stopped. */
struct watch {
    struct gs_io io;    /* io.watcher.data is the descriptor */
    struct watch *next; /* in one of the worker's lists of detached watches */
};

/* Two cache lines, which an event touches. */
struct descriptor {
    _Alignas(64) struct gs_spin lock;
    atomic_uchar maybe_ready;
    atomic_uchar kind;
    atomic_uchar file_hash; /* of a regular file: equal for the same file; files may collide */
    atomic_bool is_nonblocking;
    atomic_bool
        is_hung_up; /* the end of file, or what follows urgent data, causes no other event */
    atomic_bool is_first_used;
    atomic_uchar acceptable; /* connections of a listener that need not be asked for; a hint */
    struct worker *_Atomic owner;
    struct watch *watch;
    struct gs_wait_queue readers, writers;
#ifdef GS_CHECKED
    struct gs_file_identity identity; /* of the file that is watched */
    atomic_int closing;               /* calls of gs_close in progress */
#endif
    struct watch first;
};
#ifndef GS_CHECKED
_Static_assert(sizeof(struct descriptor) == 128, "two cache lines");
#endif

/* ---- The table (descriptors.c) ---- */

/* Returns NULL if fd is out of range or memory is exhausted. */
struct descriptor *gs_descriptor(int fd);

/* Returns NULL if no descriptor near it was used. Allocates nothing. */
struct descriptor *gs_descriptor_if_used(int fd);

/* The error of a call for which gs_descriptor has returned NULL. */
static inline int descriptor_error(int fd)
{
    return fd < 0 ? -EBADF : -ENOMEM;
}

/* Reset the entry for a descriptor that was just created. */
void gs_descriptor_reset(struct descriptor *descriptor, int fd, enum descriptor_kind kind);
enum descriptor_kind gs_descriptor_kind(struct descriptor *descriptor, int fd);

/* Wait for GS_READ or GS_WRITE. Returns 0 when a system call is worth trying, or -errno. */
int gs_descriptor_wait(struct descriptor *descriptor, int fd, unsigned direction,
                       uint64_t deadline_ns);

/* Wait without watching the descriptor: until another function claims the thread, or until fd is
 * closed. Returns the outcome of the wait, or -errno. */
int gs_descriptor_wait_unwatched(struct descriptor *descriptor, int fd, unsigned direction,
                                 uint64_t deadline_ns);

/* Watch the descriptor, unless it is watched already. The caller holds the lock. Returns 0 or
 * -errno. */
int gs_descriptor_watch(struct descriptor *descriptor, int fd);

/* Notify the waiting threads of events, or wake them with err. The caller holds the lock. worker:
 * the caller, or NULL if it is no worker. */
void gs_descriptor_notify(struct worker *worker, struct descriptor *descriptor, unsigned events,
                          int err);

/* Called after a system call that may have left something: sets the bit, and wakes threads that
 * have started to wait in the meantime. */
void gs_descriptor_set_ready(struct descriptor *descriptor, unsigned direction);

/* Visit all entries that were ever used, and some that were not. */
void gs_descriptors_foreach(void (*visit)(struct descriptor *descriptor, int fd, void *data),
                            void *data);

/* Called after an iteration of the worker's loop: deliver the events that it has collected. */
void gs_descriptors_flush_events(struct worker *worker);

/* Stop the worker's watches that others have detached. */
void gs_descriptors_stop_detached(struct worker *worker);
void gs_descriptors_done(void);
void gs_descriptors_after_fork(void);

/* ---- gs_poll (poll.c) ---- */

/* Notify a gs_poll of an event. The caller holds the lock of the descriptor. worker: the caller, or
 * NULL if it is no worker. */
void gs_poll_notify(struct worker *worker, void *argument);

/* ---- Descriptors that stuck workers watch (stuck_descriptors.c) ---- */

/* Poll them, and wake the threads that wait for them. Called by the monitor. */
void gs_descriptors_poll_stuck(void);

/* The number of ready descriptors for which threads wait on the worker. Wakes none of them. Called
 * by the monitor. */
unsigned gs_descriptors_count_ready(const struct worker *worker);

static inline bool descriptors_are_detached(const struct worker *worker)
{
    return atomic_load_explicit(&worker->detached_watches, memory_order_relaxed) ||
           atomic_load_explicit(&worker->closed_watches, memory_order_relaxed);
}

static inline struct gs_wait_queue *descriptor_queue(struct descriptor *descriptor,
                                                     unsigned direction)
{
    return direction == GS_READ ? &descriptor->readers : &descriptor->writers;
}

static inline bool descriptor_may_be_ready(struct descriptor *descriptor, unsigned direction)
{
    return atomic_load_explicit(&descriptor->maybe_ready, memory_order_relaxed) & direction;
}

/* A loop watches it. */
static inline bool descriptor_is_watched(const struct descriptor *descriptor)
{
    return atomic_load_explicit(&descriptor->owner, memory_order_relaxed) != NULL;
}

/* With one worker nobody else changes the bits, and an atomic operation would wait until what the
 * thread has pushed onto its cold stack is in the cache. */
static inline void descriptor_clear(struct descriptor *descriptor, unsigned direction)
{
    unsigned bits = atomic_load_explicit(&descriptor->maybe_ready, memory_order_relaxed);
    if (!(bits & direction))
        return;
    if (gs_runtime.is_multi)
        atomic_fetch_and(&descriptor->maybe_ready, (unsigned char)~direction);
    else
        atomic_store_explicit(&descriptor->maybe_ready, (unsigned char)(bits & ~direction),
                              memory_order_relaxed);
}

static inline void descriptor_set(struct descriptor *descriptor, unsigned direction)
{
    unsigned bits = atomic_load_explicit(&descriptor->maybe_ready, memory_order_relaxed);
    if ((bits & direction) == direction)
        return;
    if (gs_runtime.is_multi)
        atomic_fetch_or(&descriptor->maybe_ready, (unsigned char)direction);
    else
        atomic_store_explicit(&descriptor->maybe_ready, (unsigned char)(bits | direction),
                              memory_order_relaxed);
}

#endif
