/* What threads were created with, or were given since: stacks, CPUs, and scheduling. It is in a
 * table beside the threads, so that others do not pay for it: threads with equal attributes share
 * them, and take 24 bytes each. */
#ifndef GS_COMPILER_ATTRIBUTES_H
#define GS_COMPILER_ATTRIBUTES_H

#include "compiler/runtime/threads/thread.h"

#include <pthread.h>
#include <sched.h>

/* They do not change once a thread has them. */
struct attributes {
    uint64_t number; /* of these CPUs and this scheduling: the kernel thread has them, or others */
    unsigned count;  /* of threads, and of the place for the last one */
    char *stack;     /* the lowest address of one of the program's; NULL: none */
    size_t stack_size, guard_size; /* stack_size 0: the default */
    int policy, priority;
    int ceiling;         /* the highest one of the mutexes that it has; 0: none */
    bool has_scheduling; /* otherwise it is that of the process */
    bool is_explicit;    /* PTHREAD_EXPLICIT_SCHED */
    size_t cpus_size;    /* 0: its CPUs are those of the process */
    unsigned char cpus[];
};

#define DEFAULT_GUARD ((size_t)4096)

static inline bool has_attributes(const struct thread *thread)
{
    return atomic_load_explicit(&thread->cancel, memory_order_relaxed) & HAS_ATTRIBUTES;
}

/* Returns NULL if the thread has none. They are valid while nobody changes the thread's. */
const struct attributes *gs_cc_attributes_of(const struct thread *thread);

/* Returns attributes that nobody has yet, with room for a set of CPUs of this size: those of a new
 * thread, or a copy, whose set is left out if it has another size. */
struct attributes *gs_cc_attributes_new(const struct attributes *copied, size_t cpus_size);

void gs_cc_attributes_free(struct attributes *attributes);

/* Give them to the thread. Takes what gs_cc_attributes_new has returned. */
void gs_cc_attributes_set(struct thread *thread, struct attributes *attributes);

/* The thread is freed. */
void gs_cc_attributes_forget(struct thread *thread);

/* In the child of a fork no other thread has any. */
void gs_cc_attributes_after_fork(struct thread *self);

/* ---- Creating threads (attributes.c) ---- */

/* Whether pthread_setattr_default_np was called: what threads without attributes have. */
extern atomic_bool gs_cc_has_default_attributes;
const pthread_attr_t *gs_cc_default_attributes(void);

/* The thread is new: it has these attributes (NULL: none), and CPUs and scheduling of the running
 * one. Returns 0, or the error of pthread_create. */
int gs_cc_attributes_create(struct thread *thread, const pthread_attr_t *wanted);

/* ---- The kernel thread (scheduling.c) ---- */

/* They are new: see whether the kernel takes their CPUs and scheduling, by the running kernel
 * thread, and note the CPUs as the kernel has them. Returns 0 or its error. */
int gs_cc_scheduling_try(struct attributes *attributes);

/* Ceilings of mutexes: the running thread gets one, or leaves it. Returns 0, EINVAL (the thread has
 * a higher priority), or the kernel's error. */
int gs_cc_ceiling_enter(struct thread *self, int ceiling);
void gs_cc_ceiling_leave(struct thread *self, int ceiling);
bool gs_cc_ceiling_is_too_low(const struct thread *self, int ceiling);

int gs_cc_pthread_getschedparam(pthread_t id, int *ret_policy, struct sched_param *ret_parameter);
int gs_cc_pthread_getaffinity_np(pthread_t id, size_t size, cpu_set_t *ret_cpus);

/* Whether what the kernel thread has is perhaps not what the thread is to have. */
static inline bool must_enter(const struct gs_cc_state *state, const struct thread *thread)
{
    return state->scheduling || has_attributes(thread);
}

#endif
