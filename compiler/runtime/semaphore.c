/* Semaphores. A unit that is posted while threads wait is handed to the first. */
#include "compiler/runtime/thread.h"

#include <limits.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>

struct semaphore {
    atomic_flag lock;
    unsigned value;
    struct queue waiting;
};
_Static_assert(sizeof(struct semaphore) <= sizeof(sem_t), "it replaces that");

static struct semaphore *semaphore_of(sem_t *semaphore)
{
    return (struct semaphore *)semaphore;
}

static int fail(int err)
{
    errno = err;
    return -1;
}

int gs_cc_sem_init(sem_t *semaphore, int is_shared, unsigned value)
{
    (void)is_shared;
    if (value > SEM_VALUE_MAX)
        return fail(EINVAL);
    memset(semaphore, 0, sizeof *semaphore);
    semaphore_of(semaphore)->value = value;
    return 0;
}

int gs_cc_sem_destroy(sem_t *semaphore)
{
    (void)semaphore;
    return 0;
}

int gs_cc_sem_trywait(sem_t *semaphore)
{
    struct semaphore *one = semaphore_of(semaphore);
    spin_lock(&one->lock);
    bool has_unit = one->value > 0;
    one->value -= has_unit;
    spin_unlock(&one->lock);
    return has_unit ? 0 : fail(EAGAIN);
}

/* Returns 0, EAGAIN: the thread has to wait, or another error. The caller holds the lock. */
static int take_or_queue(struct thread *self, struct semaphore *one, uint64_t deadline_ns)
{
    switch (self->phase) {
    case PHASE_NEW:
        if (one->value) {
            one->value--;
            return 0;
        }
        queue_append(&one->waiting, self);
        return EAGAIN;
    case PHASE_GRANTED:
        return 0;
    case PHASE_WAITING:
        if (!must_cancel(self) && !is_late(deadline_ns))
            return EAGAIN;
        queue_remove(&one->waiting, self);
        return must_cancel(self) ? ECANCELED : ETIMEDOUT;
    default:
        return EAGAIN;
    }
}

static int wait_until(sem_t *semaphore, uint64_t deadline_ns)
{
    struct thread *self = thread_self();
    struct semaphore *one = semaphore_of(semaphore);
    int err;
    while (!self && gs_cc_sem_trywait(semaphore))
        sched_yield();
    if (!self || (self->phase == PHASE_NEW && gs_cc_test_cancel(self)))
        return 0;
    for (;;) {
        spin_lock(&one->lock);
        err = take_or_queue(self, one, deadline_ns);
        spin_unlock(&one->lock);
        if (err != EAGAIN)
            break;
        if (gs_cc_wait_until(self, deadline_ns, false))
            return 0;
    }
    if (self->phase != PHASE_NEW)
        gs_cc_complete(self);
    if (err == ECANCELED)
        gs_cc_test_cancel(self);
    return err ? fail(err) : 0;
}

int gs_cc_sem_wait(sem_t *semaphore)
{
    return wait_until(semaphore, GS_NEVER);
}

int gs_cc_sem_timedwait(sem_t *semaphore, const struct timespec *time)
{
    return wait_until(semaphore, gs_cc_from_wall(time));
}

int gs_cc_sem_post(sem_t *semaphore)
{
    struct semaphore *one = semaphore_of(semaphore);
    spin_lock(&one->lock);
    struct thread *thread = queue_pop(&one->waiting);
    one->value += !thread;
    spin_unlock(&one->lock);
    if (thread)
        grant(thread);
    return 0;
}

int gs_cc_sem_getvalue(sem_t *semaphore, int *ret_value)
{
    *ret_value = (int)semaphore_of(semaphore)->value;
    return 0;
}
