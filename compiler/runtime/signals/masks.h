/* Which signals each thread blocks. */
#ifndef GS_COMPILER_MASKS_H
#define GS_COMPILER_MASKS_H

#include "compiler/runtime/threads/thread.h"

/* A set of signals: a bit for each, from 1 on. */
static inline uint64_t gs_cc_signal_bit(int number)
{
    return (uint64_t)1 << (number - 1);
}

uint64_t gs_cc_signal_bits(const sigset_t *set);
sigset_t gs_cc_signal_set(uint64_t bits);

/* Any kernel thread, and handlers, while the thread is not freed. */
uint64_t gs_cc_mask_of(const struct thread *thread);

/* The thread is the only one, and this its worker; has_mask: as before a fork, otherwise that of
 * the process. */
void gs_cc_masks_start(struct thread *self, bool has_mask);

/* The mask of the first worker may have been replaced; nothing on others. */
void gs_cc_masks_apply(void);

/* A thread is new: it has the mask of the running one, or that of its attributes. */
void gs_cc_masks_new(struct thread *thread, const pthread_attr_t *attributes);

/* It has ended. */
void gs_cc_masks_end(struct thread *thread);

/* Set the mask of the running thread. What is pending and not blocked any more is handled. */
void gs_cc_mask_set(struct thread *self, uint64_t mask);

/* Around a system call by which the running thread may get SIGPIPE, which it must not if it blocks
 * it, while others do not. */
bool gs_cc_masks_block_pipe(void);
void gs_cc_masks_unblock_pipe(bool was_blocked);

/* Around a call that starts another program, which inherits the mask of the running thread. */
sigset_t gs_cc_masks_lend(void);
void gs_cc_masks_return(const sigset_t *before);

/* Find a thread that waits and does not block the signal, best one whose mask is replaced for the
 * time. found is called with it before it can end. */
void gs_cc_masks_find(int number, void (*found)(struct thread *thread, int flags), int flags);

/* The same for a handler, which may have interrupted anything. Returns NULL if it finds none. */
struct thread *gs_cc_masks_try_find(int number);

/* ---- Threads with an empty mask are only counted, by each kernel thread for itself ---- */

struct plain_count {
    _Atomic(long) count;
    struct plain_count *next;
    bool is_listed;
};
extern _Thread_local struct plain_count gs_cc_plain __attribute__((tls_model("initial-exec")));
void gs_cc_masks_list(struct plain_count *count);

static inline void gs_cc_masks_count(long change)
{
    struct plain_count *plain = &gs_cc_plain;
    if (__builtin_expect(!plain->is_listed, 0))
        gs_cc_masks_list(plain);
    long count = atomic_load_explicit(&plain->count, memory_order_relaxed);
    atomic_store_explicit(&plain->count, count + change, memory_order_relaxed);
}

/* Some thread has a mask: threads that begin and end matter to that of the process. */
extern atomic_bool gs_cc_has_masks;

#endif
