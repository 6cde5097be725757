/* CPUs and scheduling of threads. The kernel knows those of the worker: it gets those of the thread
 * that it runs, if that has any, and keeps them until it runs one that is to have others. */
#include "compiler/runtime/threads/attributes.h"
#include "compiler/runtime/threads/threads.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CPUS_SIZE = 1024, MAX_CPUS_SIZE = 1 << 16 };

/* What this kernel thread had before it ran such a thread. */
static _Thread_local struct {
    bool is_known;
    int policy, priority;
    size_t cpus_size;
    unsigned char cpus[CPUS_SIZE];
} base;

/* What it has now, beside that. */
static _Thread_local bool has_cpus, has_scheduling;

static void learn_base(void)
{
    struct sched_param parameter = {0};
    if (base.is_known)
        return;
    base.is_known = true;
    base.policy = sched_getscheduler(0);
    if (!sched_getparam(0, &parameter))
        base.priority = parameter.sched_priority;
    if (!sched_getaffinity(0, sizeof base.cpus, (cpu_set_t *)base.cpus))
        base.cpus_size = sizeof base.cpus;
}

static int set_scheduling(int policy, int priority)
{
    const struct sched_param parameter = {.sched_priority = priority};
    return sched_setscheduler(0, policy, &parameter) ? errno : 0;
}

static int apply(const struct attributes *wanted)
{
    int err = 0;
    learn_base();
    if (wanted && wanted->cpus_size)
        err = sched_setaffinity(0, wanted->cpus_size, (const cpu_set_t *)wanted->cpus) ? errno : 0;
    else if (has_cpus && base.cpus_size)
        (void)sched_setaffinity(0, base.cpus_size, (const cpu_set_t *)base.cpus);
    has_cpus = wanted && wanted->cpus_size;
    if (err)
        return err;
    if (wanted && wanted->has_scheduling)
        err = set_scheduling(wanted->policy, wanted->ceiling > wanted->priority ? wanted->ceiling
                                                                                : wanted->priority);
    else if (has_scheduling)
        (void)set_scheduling(base.policy, base.priority);
    has_scheduling = wanted && wanted->has_scheduling;
    return err;
}

static uint64_t number_of(const struct attributes *attributes)
{
    bool is_of_kernel = attributes && (attributes->cpus_size || attributes->has_scheduling);
    return is_of_kernel ? attributes->number : 0;
}

/* Whether some thread has others than the process, which is seldom. */
static atomic_bool is_used;

void gs_cc_scheduling_enter(const struct thread *thread)
{
    if (!gs_cc_state.scheduling && !atomic_load_explicit(&is_used, memory_order_relaxed))
        return;
    const struct attributes *attributes = gs_cc_attributes_of(thread);
    uint64_t number = number_of(attributes);
    if (number == gs_cc_state.scheduling)
        return;
    int err = errno;
    (void)apply(attributes);
    gs_cc_state.scheduling = number;
    errno = err;
}

int gs_cc_scheduling_try(struct attributes *attributes)
{
    static atomic_ullong numbers;
    const struct thread *self = thread_self();
    attributes->number = atomic_fetch_add(&numbers, 1) + 1;
    if (!number_of(attributes))
        return 0;
    atomic_store(&is_used, true);
    int err = apply(attributes);
    gs_cc_state.scheduling = attributes->number;
    if (!err && attributes->cpus_size) {
        memset(attributes->cpus, 0, attributes->cpus_size);
        if (sched_getaffinity(0, attributes->cpus_size, (cpu_set_t *)attributes->cpus))
            err = errno;
    }
    if (self) {
        gs_cc_scheduling_enter(self);
        return err;
    }
    (void)apply(NULL);
    gs_cc_state.scheduling = 0;
    return err;
}

/* The thread has these from now on, if the kernel takes them. */
static int change(struct thread *thread, struct attributes *attributes)
{
    int err = gs_cc_scheduling_try(attributes);
    if (err) {
        gs_cc_attributes_free(attributes);
        return err;
    }
    gs_cc_attributes_set(thread, attributes);
    if (thread == thread_self())
        gs_cc_scheduling_enter(thread);
    return 0;
}

/* ---- Scheduling ---- */

int gs_cc_pthread_setschedparam(pthread_t id, int policy, const struct sched_param *parameter)
{
    if (!gs_cc_is_thread(id))
        return pthread_setschedparam(id, policy, parameter);
    struct thread *thread = (struct thread *)id;
    const struct attributes *before = gs_cc_attributes_of(thread);
    struct attributes *attributes = gs_cc_attributes_new(before, before ? before->cpus_size : 0);
    attributes->has_scheduling = true;
    attributes->policy = policy;
    attributes->priority = parameter->sched_priority;
    return change(thread, attributes);
}

int gs_cc_pthread_getschedparam(pthread_t id, int *ret_policy, struct sched_param *ret_parameter)
{
    if (!gs_cc_is_thread(id))
        return pthread_getschedparam(id, ret_policy, ret_parameter);
    const struct attributes *attributes = gs_cc_attributes_of((struct thread *)id);
    learn_base();
    bool is_own = attributes && attributes->has_scheduling;
    *ret_policy = is_own ? attributes->policy : base.policy;
    ret_parameter->sched_priority = is_own ? attributes->priority : base.priority;
    return 0;
}

int gs_cc_pthread_setschedprio(pthread_t id, int priority)
{
    int policy;
    struct sched_param parameter;
    gs_cc_pthread_getschedparam(id, &policy, &parameter);
    parameter.sched_priority = priority;
    return gs_cc_pthread_setschedparam(id, policy, &parameter);
}

/* ---- Ceilings ---- */

enum { PRIORITIES = 100 };

/* How many mutexes with each ceiling the thread has. */
struct ceilings {
    unsigned count[PRIORITIES];
};

static int use_highest(struct thread *self)
{
    int policy, highest = PRIORITIES - 1;
    struct sched_param parameter;
    while (highest && !self->extra->ceilings->count[highest])
        highest--;
    const struct attributes *before = gs_cc_attributes_of(self);
    if (highest == (before ? before->ceiling : 0))
        return 0;
    struct attributes *attributes = gs_cc_attributes_new(before, before ? before->cpus_size : 0);
    gs_cc_pthread_getschedparam((pthread_t)self, &policy, &parameter);
    attributes->has_scheduling = true;
    attributes->policy = policy;
    attributes->priority = parameter.sched_priority;
    attributes->ceiling = highest;
    return change(self, attributes);
}

bool gs_cc_ceiling_is_too_low(const struct thread *self, int ceiling)
{
    int policy;
    struct sched_param parameter;
    gs_cc_pthread_getschedparam((pthread_t)self, &policy, &parameter);
    return parameter.sched_priority > ceiling;
}

int gs_cc_ceiling_enter(struct thread *self, int ceiling)
{
    struct extra *extra = gs_cc_extra(self);
    if (gs_cc_ceiling_is_too_low(self, ceiling) || ceiling <= 0 || ceiling >= PRIORITIES)
        return EINVAL;
    if (!extra->ceilings)
        extra->ceilings = calloc(1, sizeof *extra->ceilings);
    if (!extra->ceilings)
        return ENOMEM;
    extra->ceilings->count[ceiling]++;
    int err = use_highest(self);
    if (err)
        extra->ceilings->count[ceiling]--;
    return err;
}

void gs_cc_ceiling_leave(struct thread *self, int ceiling)
{
    if (!self->extra || !self->extra->ceilings || !self->extra->ceilings->count[ceiling])
        return;
    self->extra->ceilings->count[ceiling]--;
    (void)use_highest(self);
}

/* ---- CPUs ---- */

int gs_cc_pthread_setaffinity_np(pthread_t id, size_t size, const cpu_set_t *cpus)
{
    if (!gs_cc_is_thread(id))
        return pthread_setaffinity_np(id, size, cpus);
    struct thread *thread = (struct thread *)id;
    size_t used = size < MAX_CPUS_SIZE ? size : MAX_CPUS_SIZE;
    if (used < CPUS_SIZE)
        used = CPUS_SIZE; /* as much as the kernel needs to answer */
    struct attributes *attributes = gs_cc_attributes_new(gs_cc_attributes_of(thread), used);
    memset(attributes->cpus, 0, used);
    memcpy(attributes->cpus, cpus, size < used ? size : used);
    return change(thread, attributes);
}

int gs_cc_pthread_getaffinity_np(pthread_t id, size_t size, cpu_set_t *ret_cpus)
{
    if (!gs_cc_is_thread(id))
        return pthread_getaffinity_np(id, size, ret_cpus);
    const struct attributes *attributes = gs_cc_attributes_of((struct thread *)id);
    int err = pthread_getaffinity_np(pthread_self(), size, ret_cpus);
    bool is_own = attributes && attributes->cpus_size;
    if (err || (!is_own && !gs_cc_state.scheduling))
        return err;
    const unsigned char *cpus = is_own ? attributes->cpus : base.cpus;
    size_t used = is_own ? attributes->cpus_size : base.cpus_size;
    memset(ret_cpus, 0, size);
    memcpy(ret_cpus, cpus, used < size ? used : size);
    return 0;
}

/* ---- By the number of the kernel thread: that of the worker is the running thread ---- */

static pthread_t named(pid_t number)
{
    struct thread *self = thread_self();
    return self && (!number || number == gettid()) ? (pthread_t)self : 0;
}

int gs_cc_sched_setaffinity(pid_t number, size_t size, const cpu_set_t *cpus)
{
    pthread_t id = named(number);
    return id ? result_of(gs_cc_pthread_setaffinity_np(id, size, cpus))
              : sched_setaffinity(number, size, cpus);
}

int gs_cc_sched_getaffinity(pid_t number, size_t size, cpu_set_t *ret_cpus)
{
    pthread_t id = named(number);
    return id ? result_of(gs_cc_pthread_getaffinity_np(id, size, ret_cpus))
              : sched_getaffinity(number, size, ret_cpus);
}

int gs_cc_sched_setscheduler(pid_t number, int policy, const struct sched_param *parameter)
{
    pthread_t id = named(number);
    return id ? result_of(gs_cc_pthread_setschedparam(id, policy, parameter))
              : sched_setscheduler(number, policy, parameter);
}

int gs_cc_sched_setparam(pid_t number, const struct sched_param *parameter)
{
    pthread_t id = named(number);
    return id ? result_of(gs_cc_pthread_setschedprio(id, parameter->sched_priority))
              : sched_setparam(number, parameter);
}

int gs_cc_sched_getscheduler(pid_t number)
{
    int policy;
    struct sched_param parameter;
    pthread_t id = named(number);
    if (!id)
        return sched_getscheduler(number);
    gs_cc_pthread_getschedparam(id, &policy, &parameter);
    return policy;
}

int gs_cc_sched_getparam(pid_t number, struct sched_param *ret_parameter)
{
    int policy;
    pthread_t id = named(number);
    return id ? result_of(gs_cc_pthread_getschedparam(id, &policy, ret_parameter))
              : sched_getparam(number, ret_parameter);
}
