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
 *   4. `kind`, `file_hash` and `is_nonblocking` are those of the number's present file, or unknown.
 *      A call keeps what it finds out only if the number was settled (`kind` is not KIND_CLOSING,
 *      `calls` has no CALLS_DEAD) after the call had read `closes`, and if `closes`, compared under
 *      the lock, is still the same. No close has started in between, since gs_close sets
 *      KIND_CLOSING and changes `closes` in one critical section; and none was in progress, since
 *      KIND_CLOSING stays until close(2) has returned: only the gs_close that has set it removes
 *      it.
 *
 * A number is not a file. `closes` counts how often the number was closed; a call notes it at its
 * start (struct opened), and after a wait it uses the number only between opened_enter and
 * opened_leave, which `calls` counts: docs/design/schedules.md.
 */
#ifndef GS_THREAD_DESCRIPTORS_H
#define GS_THREAD_DESCRIPTORS_H

#include "loop/checked.h"
#include "thread/schedule/waiters.h"

/* A bit of `calls`. The others count to this limit: more wait for their turn. */
#define CALLS_DEAD (1u << 15)
#define CALLS_MAX (1u << 14)

enum descriptor_kind {
    KIND_UNKNOWN,
    KIND_TCP, /* a short read has emptied the socket */
    KIND_POLLABLE,
    KIND_REGULAR, /* it cannot be polled */
    KIND_CLOSING, /* gs_close is in progress (invariant 4) */
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
    atomic_ushort owner;     /* the number of a worker, from 1; 0: none */
    atomic_ushort calls;     /* that may look the number up; with CALLS_DEAD: no file has it */
    atomic_uint closes;      /* changed under the lock, or while no file has the number */
    struct watch *watch;
    struct gs_wait_queue readers, writers;
#ifdef GS_CHECKED
    struct gs_file_identity identity; /* of the file that is watched */
    /* Calls of gs_close in progress: a watch may belong to the file that had the number before. */
    atomic_int closing;
#endif
    struct watch first;
};
#ifndef GS_CHECKED
_Static_assert(sizeof(struct descriptor) == 128, "two cache lines");
#endif

/* ---- The table (descriptor_table.c) ---- */

#define DESCRIPTOR_CHUNK_SIZE 1024u
#define DESCRIPTOR_CHUNKS 4096u
extern GS_HIDDEN struct descriptor *_Atomic gs_descriptor_chunks[DESCRIPTOR_CHUNKS];

/* Make the chunk that contains it. Returns as gs_descriptor. */
struct descriptor *gs_descriptor_make(int fd);

/* Returns NULL if no descriptor near it was used. Allocates nothing. */
static inline struct descriptor *gs_descriptor_if_used(int fd)
{
    if (UNLIKELY((unsigned)fd >= DESCRIPTOR_CHUNKS * DESCRIPTOR_CHUNK_SIZE))
        return NULL;
    struct descriptor *chunk = atomic_load_explicit(
        &gs_descriptor_chunks[(unsigned)fd / DESCRIPTOR_CHUNK_SIZE], memory_order_acquire);
    return chunk ? &chunk[(unsigned)fd % DESCRIPTOR_CHUNK_SIZE] : NULL;
}

/* Returns NULL if fd is out of range or memory is exhausted. */
static inline struct descriptor *gs_descriptor(int fd)
{
    struct descriptor *descriptor = gs_descriptor_if_used(fd);
    return LIKELY(descriptor != NULL) ? descriptor : gs_descriptor_make(fd);
}

/* The error of a call for which gs_descriptor has returned NULL. */
static inline int descriptor_error(int fd)
{
    return fd < 0 ? -EBADF : -ENOMEM;
}

/* Reset the entry for a descriptor that was just created. */
void gs_descriptor_reset(struct descriptor *descriptor, int fd, enum descriptor_kind kind);

/* The kind of the file; KIND_UNKNOWN if the number is not open. The second is for a caller that
 * holds the lock. */
enum descriptor_kind gs_descriptor_kind(struct descriptor *descriptor, int fd);
enum descriptor_kind gs_descriptor_kind_locked(struct descriptor *descriptor, int fd);

/* ---- Open files ---- */

/* An open file, as a call has found it by its number. descriptor: NULL: there is no entry.
 * has_waited: the number may be another file's by now; before, the call is like any system call. */
struct opened {
    struct descriptor *descriptor;
    int fd;
    unsigned closes;
    bool has_waited;
};

static inline struct opened opened(int fd)
{
    struct descriptor *descriptor = gs_descriptor(fd);
    return (struct opened){descriptor, fd, descriptor ? atomic_load(&descriptor->closes) : 0,
                           false};
}

/* `closes` of the entry; 0: there is none. */
static inline unsigned gs_descriptor_closes(int fd)
{
    const struct descriptor *descriptor = gs_descriptor_if_used(fd);
    return descriptor ? atomic_load(&descriptor->closes) : 0;
}

/* Whether the number was closed since. */
static inline bool opened_is_closed(const struct opened *file)
{
    return atomic_load_explicit(&file->descriptor->closes, memory_order_relaxed) != file->closes;
}

/* The number is about to be looked up, by a system call of any kernel thread. Returns false if it
 * was closed, and must not be; otherwise gs_opened_leave follows the system call. */
GS_MUST_CHECK bool gs_opened_enter(const struct opened *file);
void gs_opened_leave(const struct opened *file);

/* The same in a worker, for a system call that does not block: with one worker nobody can close the
 * number meanwhile. */
GS_MUST_CHECK static inline bool opened_enter(const struct opened *file)
{
    if (!file->has_waited)
        return true;
    return UNLIKELY(gs_runtime.is_multi) ? gs_opened_enter(file) : !opened_is_closed(file);
}

static inline void opened_leave(const struct opened *file)
{
    if (UNLIKELY(gs_runtime.is_multi) && file->has_waited)
        gs_opened_leave(file);
}

/* ---- Waiting (descriptors.c) ---- */

/* Wait for GS_READ or GS_WRITE. Returns 0 when a system call is worth trying, or -errno. */
int gs_descriptor_wait(const struct opened *file, unsigned direction, uint64_t deadline_ns);

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

/* Stop watching, and end all waits with -EBADF; calls in progress find that the number was closed.
 * kind: KIND_UNKNOWN, or KIND_CLOSING until gs_descriptor_end_close. Returns `closes`. */
unsigned gs_descriptor_forget(struct descriptor *descriptor, enum descriptor_kind kind);

/* The file has been closed: wake the threads that have started to wait since gs_descriptor_forget,
 * which has returned `closes`, and allow calls to keep what they find out. */
void gs_descriptor_end_close(struct descriptor *descriptor, unsigned closes);

/* Whether it is watched, or threads wait for it. */
bool gs_descriptor_is_in_use(struct descriptor *descriptor);

/* ---- Closing (descriptor_close.c) ---- */

/* Whether it still has the file that gs_close has left there. The program may have given the number
 * to another one since, by dup2(2). */
bool gs_descriptor_is_dead(int fd);

/* End what gs_close has left to the calls in progress: the number becomes free. */
void gs_descriptor_release(struct descriptor *descriptor, int fd);

/* Release what closing needs. */
void gs_descriptor_close_done(void);

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

/* KIND_UNKNOWN: it is to be found out. */
static inline enum descriptor_kind descriptor_known_kind(const struct descriptor *descriptor)
{
    unsigned char kind = atomic_load_explicit(&descriptor->kind, memory_order_relaxed);
    return UNLIKELY(kind == KIND_CLOSING) ? KIND_UNKNOWN : (enum descriptor_kind)kind;
}

/* Whether what is found out may be kept (invariant 4). `closes` was read before. */
static inline bool descriptor_is_settled(const struct descriptor *descriptor)
{
    return atomic_load(&descriptor->kind) != KIND_CLOSING &&
           !(atomic_load(&descriptor->calls) & CALLS_DEAD);
}

static inline bool descriptor_may_be_ready(struct descriptor *descriptor, unsigned direction)
{
    return atomic_load_explicit(&descriptor->maybe_ready, memory_order_relaxed) & direction;
}

/* A loop watches it. */
static inline bool descriptor_is_watched(const struct descriptor *descriptor)
{
    return atomic_load_explicit(&descriptor->owner, memory_order_relaxed);
}

static inline unsigned short descriptor_number_of(const struct worker *worker)
{
    return (unsigned short)(worker->index + 1);
}

/* The worker whose loop watches it; NULL: none. */
static inline struct worker *descriptor_owner(const struct descriptor *descriptor)
{
    unsigned number = atomic_load_explicit(&descriptor->owner, memory_order_relaxed);
    return number ? gs_runtime.workers[number - 1] : NULL;
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
