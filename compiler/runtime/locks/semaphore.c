/* Semaphores. A unit that is posted while threads wait is handed to the first. A handler of a
 * signal only counts what it posts: it may have interrupted whoever holds the lock. The loop of the
 * first worker then hands it over.
 *
 * A semaphore that several processes share is the C library's, and is waited for by a kernel thread
 * of the pool. */
#include "compiler/runtime/signals/signals.h"
#include "compiler/runtime/threads/pool.h"

#include <limits.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>

struct semaphore {
    atomic_flag lock;
    unsigned value;
    int is_shared; /* where the C library has what it waits with: zero only for ours */
    atomic_uint posted;
    struct queue waiting;
};
_Static_assert(sizeof(struct semaphore) <= sizeof(sem_t), "it replaces that");
_Static_assert(offsetof(struct semaphore, is_shared) == 8, "as in glibc's struct new_sem");

static struct semaphore *semaphore_of(sem_t *semaphore)
{
    return (struct semaphore *)semaphore;
}

/* The caller holds the lock. */
static void collect_posted(struct semaphore *one)
{
    if (atomic_load_explicit(&one->posted, memory_order_relaxed))
        one->value += atomic_exchange(&one->posted, 0);
}

/* ---- What handlers have posted ---- */

/* Semaphores to look at. For one that finds no place here, the next call hands over. */
#define POSTED 64
static _Atomic(struct semaphore *) posted[POSTED];

static void post_from_handler(struct semaphore *one)
{
    atomic_fetch_add(&one->posted, 1);
    for (unsigned i = 0; i < POSTED; i++) {
        struct semaphore *none = NULL;
        if (atomic_load(&posted[i]) == one ||
            atomic_compare_exchange_strong(&posted[i], &none, one))
            break;
    }
    gs_cc_signals_send();
}

static void hand_over(struct semaphore *one)
{
    struct thread *thread;
    do {
        spin_lock(&one->lock);
        collect_posted(one);
        thread = one->value ? queue_pop(&one->waiting) : NULL;
        one->value -= thread != NULL;
        spin_unlock(&one->lock);
        if (thread)
            grant(thread);
    } while (thread);
}

void gs_cc_hand_over_posted(void)
{
    for (unsigned i = 0; i < POSTED; i++) {
        struct semaphore *one = atomic_exchange(&posted[i], NULL);
        if (one)
            hand_over(one);
    }
}

static void forget(struct semaphore *one)
{
    for (unsigned i = 0; i < POSTED; i++) {
        struct semaphore *at = one;
        atomic_compare_exchange_strong(&posted[i], &at, NULL);
    }
}

/* ---- Life ---- */

int gs_cc_sem_init(sem_t *semaphore, int is_shared, unsigned value)
{
    if (is_shared)
        return sem_init(semaphore, is_shared, value);
    if (value > SEM_VALUE_MAX)
        return result_of(EINVAL);
    memset(semaphore, 0, sizeof *semaphore);
    semaphore_of(semaphore)->value = value;
    return 0;
}

int gs_cc_sem_destroy(sem_t *semaphore)
{
    forget(semaphore_of(semaphore));
    return 0;
}

/* ---- Waiting ---- */

int gs_cc_sem_trywait(sem_t *semaphore)
{
    struct semaphore *one = semaphore_of(semaphore);
    bool has_unit;
    if (one->is_shared) {
        has_unit = !sem_trywait(semaphore);
    } else {
        spin_lock(&one->lock);
        collect_posted(one);
        has_unit = one->value > 0;
        one->value -= has_unit;
        spin_unlock(&one->lock);
    }
    return has_unit ? 0 : result_of(EAGAIN);
}

/* Returns 0, EAGAIN: the thread has to wait, or another error. The caller holds the lock. */
static int take_or_queue(struct thread *self, struct semaphore *one, uint64_t deadline_ns)
{
    int err = ECANCELED;
    switch (self->phase) {
    case PHASE_NEW:
        collect_posted(one);
        if (one->value) {
            one->value--;
            return 0;
        }
        gs_cc_signals_begin_wait(self);
        queue_append(&one->waiting, self);
        return EAGAIN;
    case PHASE_GRANTED:
        return 0;
    case PHASE_WAITING:
        if (!must_cancel(self))
            err = gs_cc_is_interrupted(self, true) ? EINTR : is_late(deadline_ns) ? ETIMEDOUT : 0;
        if (!err)
            return EAGAIN;
        queue_remove(&one->waiting, self);
        return err;
    default:
        return EAGAIN;
    }
}

static int wait_outside(struct semaphore *one)
{
    while (gs_cc_sem_trywait((sem_t *)one))
        sched_yield();
    return 0;
}

static int wait_until(struct semaphore *one, uint64_t deadline_ns)
{
    struct thread *self = thread_self();
    int err;
    if (!self)
        return wait_outside(one);
    if (self->phase == PHASE_NEW && gs_cc_test_cancel(self))
        return 0;
    for (;;) {
        spin_lock(&one->lock);
        err = take_or_queue(self, one, deadline_ns);
        spin_unlock(&one->lock);
        if (err != EAGAIN)
            break;
        /* A handler may post, whatever the other threads do. */
        if (gs_cc_wait_until(self, deadline_ns, gs_cc_has_handlers()))
            return 0;
    }
    if (self->phase != PHASE_NEW)
        gs_cc_complete(self);
    if (err == ECANCELED || must_jump(self))
        gs_cc_test_cancel(self);
    return result_of(err);
}

/* ---- Semaphores of several processes ---- */

struct shared_wait {
    sem_t *semaphore;
    const struct timespec *time; /* by the wall clock; NULL: no limit */
    clockid_t clock;
    int result;
};

static void wait_in_pool(void *argument)
{
    struct shared_wait *wait = argument;
    wait->result = wait->time ? sem_clockwait(wait->semaphore, wait->clock, wait->time)
                              : sem_wait(wait->semaphore);
}

static int wait_for_shared(const struct shared_wait *wanted)
{
    struct thread *self = thread_self();
    struct shared_wait *wait = NULL;
    if (self && self->phase == PHASE_NEW) {
        if (gs_cc_test_cancel(self) || !sem_trywait(wanted->semaphore))
            return 0;
        wait = gs_cc_box(sizeof *wait);
        *wait = *wanted;
    }
    struct shared_wait here = *wanted;
    wait = gs_cc_in_pool(wait_in_pool, self ? (void *)wait : &here, POOL_BOTH);
    if (!wait)
        return 0;
    int result = wait->result;
    if (wait != &here)
        gs_cc_box_free(wait, sizeof *wait);
    if (self)
        gs_cc_end_in_pool(self);
    return result;
}

/* ---- As programs call it ---- */

int gs_cc_sem_wait(sem_t *semaphore)
{
    if (semaphore_of(semaphore)->is_shared)
        return wait_for_shared(&(struct shared_wait){.semaphore = semaphore});
    return wait_until(semaphore_of(semaphore), GS_NEVER);
}

int gs_cc_sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *time)
{
    if (!is_known_clock(clock) || !is_valid_time(time))
        return result_of(EINVAL);
    if (semaphore_of(semaphore)->is_shared)
        return wait_for_shared(&(struct shared_wait){semaphore, time, clock, 0});
    return wait_until(semaphore_of(semaphore), gs_cc_from_clock(clock, time));
}

int gs_cc_sem_timedwait(sem_t *semaphore, const struct timespec *time)
{
    return gs_cc_sem_clockwait(semaphore, CLOCK_REALTIME, time);
}

int gs_cc_sem_post(sem_t *semaphore)
{
    struct semaphore *one = semaphore_of(semaphore);
    if (one->is_shared)
        return sem_post(semaphore);
    if (!thread_self()) {
        post_from_handler(one);
        return 0;
    }
    spin_lock(&one->lock);
    struct thread *thread = queue_pop(&one->waiting);
    bool is_full = !thread && one->value == SEM_VALUE_MAX;
    one->value += !thread && !is_full;
    spin_unlock(&one->lock);
    if (is_full)
        return result_of(EOVERFLOW);
    if (thread)
        grant(thread);
    return 0;
}

int gs_cc_sem_getvalue(sem_t *semaphore, int *ret_value)
{
    struct semaphore *one = semaphore_of(semaphore);
    if (one->is_shared)
        return sem_getvalue(semaphore, ret_value);
    *ret_value = (int)(one->value + atomic_load(&one->posted));
    return 0;
}
