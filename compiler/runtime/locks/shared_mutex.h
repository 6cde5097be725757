/* Mutexes that processes share, and robust ones: their owner is SHARED_OWNER for ever, so that
 * a thread that finds them locked looks here. Between processes there are no queues: a thread that
 * waits looks again after a while, also for a condition, a reader-writer lock and a barrier. */
#ifndef GS_COMPILER_SHARED_MUTEX_H
#define GS_COMPILER_SHARED_MUTEX_H

#include "compiler/runtime/threads/thread.h"

/* The same in all programs. */
#define SHARED_OWNER ((uintptr_t)1)

/* How long a thread waits until it looks again. */
#define LOOK_NS (500 * GS_MICROSECOND)

/* What a shared mutex has in place of its queue. */
struct shared_holder {
    uint64_t thread; /* of all processes; 0: it is not locked */
    int pid;
    bool is_dead;          /* its owner has ended with it, and it is not consistent yet */
    bool is_unrecoverable; /* it was unlocked so */
};

struct shared_mutex {
    atomic_int *holding; /* the process that changes what follows; 0: none */
    unsigned *count;
    int kind;
    bool is_robust;
    struct shared_holder *holder;
};

/* A number of the thread among those of all processes; not 0. */
uint64_t gs_cc_shared_number(const struct thread *self);

/* Wait until it is time to look again, at most until the deadline; NULL: outside of the threads.
 * Returns true if the caller must return. */
bool gs_cc_look_again(struct thread *self, uint64_t deadline_ns);

/* Returns true if the caller must return; otherwise *ret_err is the result. */
bool gs_cc_shared_lock(struct thread *self, struct shared_mutex mutex, uint64_t deadline_ns,
                       int *ret_err);
int gs_cc_shared_trylock(struct thread *self, struct shared_mutex mutex);
bool gs_cc_shared_is_unlockable(const struct thread *self, struct shared_mutex mutex);
int gs_cc_shared_unlock(struct thread *self, struct shared_mutex mutex);
int gs_cc_shared_make_consistent(struct shared_mutex mutex);

/* In the child of a fork, the mutexes of the thread are those of the parent. */
void gs_cc_shared_after_fork(struct thread *self);

/* The thread ends: robust mutexes that it has are those of a dead owner. */
void gs_cc_shared_end(struct thread *thread);

#endif
