/* Barriers, spin locks and once. */
#include "compiler/runtime/locks/shared_mutex.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* ---- Barriers ---- */

struct barrier {
    atomic_flag lock;
    bool is_shared;     /* by processes */
    uint16_t own_round; /* of one that is not */
    unsigned count, arrived;
    union {
        struct queue waiting;
        struct {
            unsigned round,
                leaving; /* leaving: threads of earlier rounds that have not looked yet */
        };
    };
};
_Static_assert(sizeof(struct barrier) <= sizeof(pthread_barrier_t), "it replaces that");

static struct barrier *barrier_of(pthread_barrier_t *barrier)
{
    return (struct barrier *)barrier;
}

int gs_cc_pthread_barrier_init(pthread_barrier_t *barrier, const pthread_barrierattr_t *attributes,
                               unsigned count)
{
    int scope = PTHREAD_PROCESS_PRIVATE;
    if (!count)
        return EINVAL;
    if (attributes)
        pthread_barrierattr_getpshared(attributes, &scope);
    memset(barrier, 0, sizeof *barrier);
    barrier_of(barrier)->count = count;
    barrier_of(barrier)->is_shared = scope == PTHREAD_PROCESS_SHARED;
    return 0;
}

/* The memory may be the program's again. */
int gs_cc_pthread_barrier_destroy(pthread_barrier_t *barrier)
{
    struct barrier *one = barrier_of(barrier);
    struct thread *self = thread_self();
    bool is_left = !one->is_shared;
    while (!is_left) {
        spin_lock(&one->lock);
        is_left = !one->leaving;
        spin_unlock(&one->lock);
        if (!is_left && gs_cc_look_again(self, GS_NEVER))
            return 0;
    }
    if (self && self->phase != PHASE_NEW)
        gs_cc_complete(self);
    return 0;
}

/* The last one to arrive wakes the others. */
static int arrive(struct barrier *one, struct thread *self)
{
    struct thread *woken = NULL;
    spin_lock(&one->lock);
    bool is_last = ++one->arrived == one->count;
    if (is_last) {
        woken = one->waiting.first;
        one->waiting.first = NULL;
        one->arrived = 0;
        one->own_round++;
        for (struct thread *at = woken; at; at = at->next)
            set_phase(at, PHASE_CLAIMED);
    } else if (self) {
        queue_append(&one->waiting, self);
    }
    spin_unlock(&one->lock);
    while (woken) {
        struct thread *next = woken->next;
        grant(woken);
        woken = next;
    }
    return is_last ? PTHREAD_BARRIER_SERIAL_THREAD : 0;
}

/* Returns whether the thread has arrived last. Otherwise it waits for the end of the round in
 * `progress`, which is never 0. */
static bool arrive_shared(struct barrier *one, struct thread *self)
{
    spin_lock(&one->lock);
    bool is_last = ++one->arrived == one->count;
    if (is_last) {
        one->leaving += one->count - 1;
        one->arrived = 0;
        one->round++;
    } else {
        self->progress = one->round + (size_t)1;
    }
    spin_unlock(&one->lock);
    return is_last;
}

/* Returns whether the round is over. */
static bool leave_shared(struct barrier *one, const struct thread *self)
{
    spin_lock(&one->lock);
    bool is_over = one->round + (size_t)1 != self->progress;
    one->leaving -= is_over;
    spin_unlock(&one->lock);
    return is_over;
}

static int wait_shared(struct barrier *one, struct thread *self)
{
    if (self->phase == PHASE_NEW && arrive_shared(one, self))
        return PTHREAD_BARRIER_SERIAL_THREAD;
    while (!leave_shared(one, self))
        if (gs_cc_look_again(self, GS_NEVER))
            return 0;
    gs_cc_complete(self);
    return 0;
}

/* Whether the thread must, and others have not arrived yet. As in glibc, it has arrived. */
static bool leave(struct barrier *one, struct thread *self)
{
    spin_lock(&one->lock);
    bool leaves = self->phase == PHASE_WAITING && must_leave(self);
    if (leaves)
        queue_remove(&one->waiting, self);
    spin_unlock(&one->lock);
    return leaves;
}

/* In a kernel thread of a library, which is in no queue. */
static int wait_outside(struct barrier *one)
{
    bool is_over = false;
    spin_lock(&one->lock);
    uint16_t round = one->own_round;
    spin_unlock(&one->lock);
    int result = arrive(one, NULL);
    while (!result && !is_over) {
        usleep(1000);
        spin_lock(&one->lock);
        is_over = one->own_round != round;
        spin_unlock(&one->lock);
    }
    return result;
}

int gs_cc_pthread_barrier_wait(pthread_barrier_t *barrier)
{
    struct thread *self = thread_self();
    if (barrier_of(barrier)->is_shared)
        return wait_shared(barrier_of(barrier), self);
    if (!self)
        return wait_outside(barrier_of(barrier));
    if (self->phase == PHASE_NEW) {
        int result = arrive(barrier_of(barrier), self);
        if (result)
            return result;
    }
    while (self->phase != PHASE_GRANTED && !leave(barrier_of(barrier), self))
        if (gs_cc_wait(self, false))
            return 0;
    gs_cc_complete(self);
    if (must_leave(self))
        gs_cc_test_cancel(self);
    return 0;
}

/* ---- Spin locks: a thread that waits lets others run ---- */

int gs_cc_pthread_spin_init(pthread_spinlock_t *lock, int is_shared)
{
    (void)is_shared;
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
    return 0;
}

int gs_cc_pthread_spin_destroy(pthread_spinlock_t *lock)
{
    (void)lock;
    return 0;
}

int gs_cc_pthread_spin_trylock(pthread_spinlock_t *lock)
{
    if (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
        return EBUSY;
    return 0;
}

int gs_cc_pthread_spin_lock(pthread_spinlock_t *lock)
{
    struct thread *self = thread_self();
    if (self)
        set_phase(self, PHASE_NEW);
    while (gs_cc_pthread_spin_trylock(lock)) {
        gs_cc_sched_yield();
        if (gs_cc_state.suspending)
            return 0;
    }
    return 0;
}

int gs_cc_pthread_spin_unlock(pthread_spinlock_t *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
    return 0;
}

/* ---- Once ---- */

enum { ONCE_NEW, ONCE_RUNNING, ONCE_DONE };

struct once_call {
    atomic_int *once;
    void (*fn)(void);
};

/* The thread is canceled meanwhile: another one makes the call. */
static void cancel_once(void *argument)
{
    struct once_call *call = argument;
    atomic_store(call->once, ONCE_NEW);
    gs_cc_box_free(call, sizeof *call);
}

/* The function may wait, so it has a stack. */
static void run_once(void *argument)
{
    struct once_call *call = argument;
    union gs_cc_cleanup_buffer cleanup;
    gs_cc__pthread_cleanup_push(&cleanup.own, cancel_once, call);
    call->fn();
    gs_cc__pthread_cleanup_pop(&cleanup.own, 0);
    atomic_store(call->once, ONCE_DONE);
    gs_cc_box_free(call, sizeof *call);
}

int gs_cc_pthread_once(pthread_once_t *once, void (*fn)(void))
{
    atomic_int *state = (atomic_int *)once;
    struct thread *self = thread_self();
    int new = ONCE_NEW;
    if (atomic_load(state) == ONCE_DONE) {
        if (self && self->phase != PHASE_NEW)
            gs_cc_complete(self);
        return 0;
    }
    if (atomic_compare_exchange_strong(state, &new, ONCE_RUNNING)) {
        struct once_call *call = gs_cc_box(sizeof *call);
        *call = (struct once_call){state, fn};
        gs_cc_call_on_stack(run_once, call);
        return 0;
    }
    if (self && !self->stack)
        set_phase(self, PHASE_NEW);
    while (atomic_load(state) != ONCE_DONE) {
        gs_cc_sched_yield();
        if (gs_cc_state.suspending)
            return 0;
    }
    return 0;
}
