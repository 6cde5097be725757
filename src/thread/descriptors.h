/* What the runtime knows of a descriptor: which loop watches it, what the kernel last said of it, and who waits. The table is
 * found by number; its entries are made when first used and never freed.
 *
 * `perhaps` holds GS_READ and GS_WRITE: what is worth a try. A bit is cleared before the system call that may find nothing more,
 * and set by the kernel's report, or by a call that may have left something: so a report that comes during the call is not
 * lost. Invariants, under the lock:
 *   1. With an owner, the owner's loop watches the descriptor by edges, through `watch`; only the owner starts and stops that.
 *      Others may relinquish it: it is the descriptor's no more, and its owner's to stop when it comes to it.
 *   2. Nobody waits while `perhaps` holds the bit that it waits for and the descriptor has an owner.
 *   3. `is_first_used` says whether `first` is `watch`, or relinquished and not yet stopped; it is set under the lock. */
#ifndef GS_THREAD_DESCRIPTORS_H
#define GS_THREAD_DESCRIPTORS_H

#include "thread/waiters.h"

enum descriptor_kind {
    KIND_UNKNOWN,
    KIND_TCP, /* a read of less than was asked for has left nothing */
    KIND_WAITABLE,
    KIND_REGULAR, /* the kernel cannot wait for it */
};

/* Has a loop watch a descriptor. The descriptor's first one stands in it, so that a report finds them together; another is only
 * needed while that is still to be stopped. */
struct watch {
    struct gs_io io;    /* whose data is the descriptor */
    struct watch *next; /* of those that the worker is to stop */
    bool is_closed;     /* the number meant a file that is gone */
};

/* What a report touches is two cache lines: this, and the loop's part of the first watch. */
struct descriptor {
    struct gs_spin lock;
    atomic_uchar perhaps;
    atomic_uchar kind;
    atomic_uchar file; /* of a regular one: the same for all descriptors of the same file */
    atomic_bool is_nonblocking; /* known to be */
    atomic_bool is_hung_up;     /* the end comes without a further report */
    atomic_bool is_first_used;
    struct worker *_Atomic owner;
    struct watch *watch;
    struct gs_wait_queue readers, writers;
    _Alignas(64) struct watch first;
};

/* NULL: a number that no descriptor can have, or no memory. */
struct descriptor *gs_descriptor(int fd);
/* The number means a new file. */
void gs_descriptor_reset(struct descriptor *descriptor, int fd, enum descriptor_kind kind);
enum descriptor_kind gs_descriptor_kind(struct descriptor *descriptor, int fd);

/* Wait for GS_READ or GS_WRITE. Returns 0 when it is worth a try, or -errno. */
int gs_descriptor_wait(struct descriptor *descriptor, int fd, unsigned direction,
                       uint64_t deadline_ns);

/* Wait without having the kernel report: for whoever ends the wait, or for whoever closes fd. Returns what the thread was claimed
 * with, or -errno. */
int gs_descriptor_queue(struct descriptor *descriptor, int fd, unsigned direction,
                        uint64_t deadline_ns);

/* Have the kernel report, if it does not yet. The lock is held. Returns 0 or -errno. */
int gs_descriptor_watch(struct descriptor *descriptor, int fd);

/* Tell those who wait for it of events, or of err, for which they are woken. The lock is held. worker: the caller; NULL: it is
 * none. */
void gs_descriptor_report(struct worker *worker, struct descriptor *descriptor, unsigned events,
                          int err);

/* Visit those that were ever used, and their neighbours. */
void gs_descriptors_each(void (*visit)(struct descriptor *descriptor, int fd, void *data),
                         void *data);

/* poll.c: something has happened to a descriptor of a gs_poll. The descriptor's lock is held. worker: the caller; NULL: it is
 * none. */
void gs_poll_report(struct worker *worker, void *argument);

static inline struct gs_wait_queue *descriptor_queue(struct descriptor *descriptor,
                                                     unsigned direction)
{
    return direction == GS_READ ? &descriptor->readers : &descriptor->writers;
}

static inline bool descriptor_is_worth(struct descriptor *descriptor, unsigned direction)
{
    return atomic_load_explicit(&descriptor->perhaps, memory_order_relaxed) & direction;
}

static inline void descriptor_clear(struct descriptor *descriptor, unsigned direction)
{
    if (descriptor_is_worth(descriptor, direction))
        atomic_fetch_and(&descriptor->perhaps, (unsigned char)~direction);
}

static inline void descriptor_set(struct descriptor *descriptor, unsigned direction)
{
    if (!descriptor_is_worth(descriptor, direction))
        atomic_fetch_or(&descriptor->perhaps, (unsigned char)direction);
}

#endif
