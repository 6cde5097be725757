/* Attributes of new threads and of those that exist. */
#include "compiler/runtime/threads/attributes.h"
#include "compiler/runtime/threads/threads.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { CPUS_SIZE = sizeof(cpu_set_t) };

/* ---- What the C library's attributes say ---- */

/* Whether attributes name CPUs: the C library answers that all are allowed, if not. */
static bool get_cpus(const pthread_attr_t *wanted, size_t size, unsigned char *ret_cpus)
{
    if (pthread_attr_getaffinity_np(wanted, size, (cpu_set_t *)ret_cpus))
        return false;
    return ret_cpus[0] != UCHAR_MAX || memcmp(ret_cpus, ret_cpus + 1, size - 1) != 0;
}

/* Only an address that was set, and its size, are not those of address 0. */
static void get_stack(const pthread_attr_t *wanted, struct attributes *attributes)
{
    void *lowest;
    size_t size;
    if (!pthread_attr_getstack(wanted, &lowest, &size) && (uintptr_t)lowest + size) {
        attributes->stack = lowest;
        attributes->stack_size = size;
    } else if (!pthread_attr_getstacksize(wanted, &size)) {
        attributes->stack_size = size;
    }
    pthread_attr_getguardsize(wanted, &attributes->guard_size);
}

static void get_scheduling(const pthread_attr_t *wanted, struct attributes *attributes)
{
    int inherits, policy;
    struct sched_param parameter;
    if (pthread_attr_getinheritsched(wanted, &inherits) || inherits != PTHREAD_EXPLICIT_SCHED ||
        pthread_attr_getschedpolicy(wanted, &policy) ||
        pthread_attr_getschedparam(wanted, &parameter))
        return;
    attributes->is_explicit = true;
    /* A policy that was not set is the usual one. */
    attributes->has_scheduling |= policy != SCHED_OTHER || parameter.sched_priority;
    attributes->policy = policy;
    attributes->priority = parameter.sched_priority;
}

/* ---- Default attributes ---- */

atomic_bool gs_cc_has_default_attributes;
static pthread_attr_t
    defaults; /* of which threads that are created at the same time may take any */

const pthread_attr_t *gs_cc_default_attributes(void)
{
    return atomic_load_explicit(&gs_cc_has_default_attributes, memory_order_acquire) ? &defaults
                                                                                     : NULL;
}

static int copy(const pthread_attr_t *from, pthread_attr_t *ret_attributes)
{
    int state, inherits, policy;
    size_t guard_size, stack_size;
    struct sched_param parameter;
    sigset_t mask;
    unsigned char cpus[CPUS_SIZE];
    int err = pthread_attr_init(ret_attributes);
    if (err)
        return err;
    pthread_attr_getdetachstate(from, &state);
    pthread_attr_setdetachstate(ret_attributes, state);
    pthread_attr_getguardsize(from, &guard_size);
    pthread_attr_setguardsize(ret_attributes, guard_size);
    pthread_attr_getstacksize(from, &stack_size);
    pthread_attr_setstacksize(ret_attributes, stack_size);
    pthread_attr_getinheritsched(from, &inherits);
    pthread_attr_setinheritsched(ret_attributes, inherits);
    pthread_attr_getschedpolicy(from, &policy);
    pthread_attr_setschedpolicy(ret_attributes, policy);
    pthread_attr_getschedparam(from, &parameter);
    pthread_attr_setschedparam(ret_attributes, &parameter);
    if (!pthread_attr_getsigmask_np(from, &mask))
        pthread_attr_setsigmask_np(ret_attributes, &mask);
    if (get_cpus(from, sizeof cpus, cpus))
        pthread_attr_setaffinity_np(ret_attributes, sizeof cpus, (cpu_set_t *)cpus);
    return 0;
}

/* As the C library checks them. */
static bool are_valid(const pthread_attr_t *attributes)
{
    int policy;
    void *lowest;
    size_t size;
    struct sched_param parameter;
    if (pthread_attr_getschedpolicy(attributes, &policy) ||
        pthread_attr_getschedparam(attributes, &parameter) ||
        (policy != SCHED_OTHER && policy != SCHED_FIFO && policy != SCHED_RR))
        return false;
    int priority = parameter.sched_priority;
    bool is_in_range =
        priority >= sched_get_priority_min(policy) && priority <= sched_get_priority_max(policy);
    bool has_stack = !pthread_attr_getstack(attributes, &lowest, &size) && (uintptr_t)lowest + size;
    return (priority <= 0 || is_in_range) && !has_stack;
}

/* The C library's own would be those of the runtime's kernel threads. */
int gs_cc_pthread_setattr_default_np(const pthread_attr_t *wanted)
{
    pthread_attr_t copied;
    if (!are_valid(wanted))
        return EINVAL;
    int err = copy(wanted, &copied);
    if (err)
        return err;
    if (gs_cc_default_attributes())
        pthread_attr_destroy(&defaults);
    defaults = copied;
    atomic_store(&gs_cc_has_default_attributes, true);
    return 0;
}

int gs_cc_pthread_getattr_default_np(pthread_attr_t *ret_attributes)
{
    const pthread_attr_t *set = gs_cc_default_attributes();
    return set ? copy(set, ret_attributes) : pthread_getattr_default_np(ret_attributes);
}

/* ---- New threads ---- */

static size_t usual_stack_size(void)
{
    static _Atomic(size_t) known;
    size_t size = atomic_load_explicit(&known, memory_order_relaxed);
    pthread_attr_t none;
    if (size || pthread_attr_init(&none))
        return size;
    pthread_attr_getstacksize(&none, &size);
    pthread_attr_destroy(&none);
    atomic_store_explicit(&known, size, memory_order_relaxed);
    return size;
}

/* Whether a thread does not have to remember them. */
static bool are_usual(const struct attributes *attributes)
{
    return !attributes->stack && attributes->stack_size == usual_stack_size() &&
           attributes->guard_size == DEFAULT_GUARD && !attributes->is_explicit &&
           !attributes->has_scheduling && !attributes->cpus_size;
}

/* The same of those that most programs give to threads: they are only detached. */
static bool says_nothing(const pthread_attr_t *wanted)
{
    unsigned char cpus[CPUS_SIZE];
    struct attributes attributes = {.guard_size = DEFAULT_GUARD};
    get_stack(wanted, &attributes);
    get_scheduling(wanted, &attributes);
    return are_usual(&attributes) && !get_cpus(wanted, sizeof cpus, cpus);
}

static struct attributes *inherited(void)
{
    const struct thread *self = thread_self();
    const struct attributes *parent = self ? gs_cc_attributes_of(self) : NULL;
    struct attributes *attributes = gs_cc_attributes_new(parent, parent ? parent->cpus_size : 0);
    attributes->stack = NULL;
    attributes->stack_size = 0;
    attributes->guard_size = DEFAULT_GUARD;
    attributes->is_explicit = false;
    return attributes;
}

int gs_cc_attributes_create(struct thread *thread, const pthread_attr_t *wanted)
{
    unsigned char cpus[CPUS_SIZE];
    const struct thread *self = thread_self();
    if (wanted && !(self && has_attributes(self)) && says_nothing(wanted))
        return 0;
    struct attributes *attributes = inherited();
    bool is_tried = false;
    if (wanted && get_cpus(wanted, sizeof cpus, cpus)) {
        struct attributes *larger = gs_cc_attributes_new(attributes, sizeof cpus);
        memcpy(larger->cpus, cpus, sizeof cpus);
        gs_cc_attributes_free(attributes);
        attributes = larger;
        is_tried = true;
    }
    if (wanted) {
        get_stack(wanted, attributes);
        get_scheduling(wanted, attributes);
        is_tried |= attributes->is_explicit;
    }
    int err = is_tried ? gs_cc_scheduling_try(attributes) : 0;
    bool is_kept = !err && !(wanted ? are_usual(attributes)
                                    : !attributes->cpus_size && !attributes->has_scheduling);
    if (is_kept)
        gs_cc_attributes_set(thread, attributes);
    else
        gs_cc_attributes_free(attributes);
    return err;
}

/* ---- Threads that exist ---- */

/* The first worker's has the size that the limit allows it, which glibc reduces by a page. */
static void set_stack_of_worker(pthread_attr_t *attributes)
{
    struct rlimit limit;
    void *lowest;
    size_t size;
    if (pthread_attr_getstack(attributes, &lowest, &size) || getrlimit(RLIMIT_STACK, &limit) ||
        size >= limit.rlim_cur || limit.rlim_cur - size > size)
        return;
    size_t more = limit.rlim_cur - size;
    pthread_attr_setstack(attributes, (char *)lowest - more, size + more);
}

/* It ends where that of the thread does, and has the size that it was created with, so that
 * programs which compare both agree; what is used of it is within that in any case. */
static void set_stack(const struct thread *thread, const struct attributes *has,
                      pthread_attr_t *attributes)
{
    void *lowest;
    size_t size;
    bool is_own = thread->stack && thread->extra && thread->extra->stack_size;
    if (has && has->stack) {
        pthread_attr_setstack(attributes, has->stack, has->stack_size);
        return;
    }
    if (is_own)
        pthread_attr_setstack(attributes, thread->extra->end_of_stack - thread->extra->stack_size,
                              thread->extra->stack_size);
    else
        set_stack_of_worker(attributes);
    if (has && has->stack_size && !pthread_attr_getstack(attributes, &lowest, &size))
        pthread_attr_setstack(attributes, (char *)lowest + size - has->stack_size, has->stack_size);
}

static void set_scheduling(const struct thread *thread, const struct attributes *has,
                           pthread_attr_t *attributes)
{
    int policy;
    struct sched_param parameter;
    unsigned char cpus[CPUS_SIZE];
    if (!gs_cc_pthread_getschedparam((pthread_t)thread, &policy, &parameter)) {
        pthread_attr_setschedpolicy(attributes, policy);
        pthread_attr_setschedparam(attributes, &parameter);
    }
    pthread_attr_setinheritsched(attributes, has && has->is_explicit ? PTHREAD_EXPLICIT_SCHED
                                                                     : PTHREAD_INHERIT_SCHED);
    if (!gs_cc_pthread_getaffinity_np((pthread_t)thread, sizeof cpus, (cpu_set_t *)cpus))
        pthread_attr_setaffinity_np(attributes, sizeof cpus, (cpu_set_t *)cpus);
}

/* The stack on which the thread runs now: its own, or that of a worker, which all threads have in
 * turn. A thread that waits has none. */
int gs_cc_pthread_getattr_np(pthread_t id, pthread_attr_t *ret_attributes)
{
    if (!gs_cc_is_thread(id))
        return pthread_getattr_np(id, ret_attributes);
    const struct thread *thread = (const struct thread *)id;
    const struct attributes *has = gs_cc_attributes_of(thread);
    int err = pthread_getattr_np(pthread_self(), ret_attributes);
    if (err)
        return err;
    set_stack(thread, has, ret_attributes);
    set_scheduling(thread, has, ret_attributes);
    size_t guard_size = has ? has->guard_size : DEFAULT_GUARD;
    pthread_attr_setguardsize(ret_attributes, thread->is_first ? 0 : guard_size);
    bool is_detached = atomic_load(&thread->join) == JOIN_DETACHED;
    pthread_attr_setdetachstate(ret_attributes,
                                is_detached ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE);
    return 0;
}
