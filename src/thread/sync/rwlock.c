/* Readers and writers are served in FIFO order: a reader that arrives after a waiting writer is
 * queued behind it. */
#include "thread/schedule/wait.h"

enum { READER, WRITER };

static bool may_acquire(const struct gs_rwlock *rwlock, int64_t kind)
{
    return !rwlock->has_writer && (kind == READER || !rwlock->readers);
}

static void acquire(struct gs_rwlock *rwlock, int64_t kind, const struct gs_thread *thread)
{
    rwlock->holders ^= (uintptr_t)thread;
    if (kind == READER)
        rwlock->readers++;
    else
        rwlock->has_writer = true;
}

/* Grant the lock to the first waiter, and to further readers behind a reader. The caller holds the
 * spin lock, and makes the claimed threads ready. worker: the caller, or NULL if it is no
 * worker. */
static void grant(struct gs_rwlock *rwlock, struct worker *worker, struct claimed *claimed)
{
    struct gs_waiter *waiter;
    while ((waiter = rwlock->waiting.first) && may_acquire(rwlock, waiter->value)) {
        int64_t kind = waiter->value;
        waiters_remove(&rwlock->waiting, waiter);
        if (!waiter_claim(worker, waiter, CLAIM_WOKEN))
            continue;
        acquire(rwlock, kind, waiter->thread);
        claimed_add(claimed, waiter);
    }
}

/* The waiters behind the thread may be able to acquire the lock now. */
static void abandon(void *object, struct gs_thread *thread, bool was_queued,
                    struct claimed *claimed)
{
    (void)thread, (void)was_queued;
    grant(object, gs_worker_or_null(), claimed);
}

static int lock(struct gs_rwlock *rwlock, int64_t kind, uint64_t deadline_ns)
{
    static const struct wait_kind kinds[] = {
        {.name = "reader lock",
         .holder = HOLDER_WRITER,
         .abandon = abandon,
         WAITS_IN(gs_rwlock, waiting)},
        {.name = "writer lock",
         .holder = HOLDER_RWLOCK,
         .abandon = abandon,
         WAITS_IN(gs_rwlock, waiting)},
    };
    struct gs_thread *self = thread_current();
    spin_lock(&rwlock->lock);
    if (!rwlock->waiting.first && may_acquire(rwlock, kind)) {
        acquire(rwlock, kind, self);
        spin_unlock(&rwlock->lock);
        return 0;
    }
    self->waiter.value = kind;
    return wait_for_object(self->worker, rwlock, &kinds[kind], deadline_ns);
}

int gs_rwlock_rdlock(struct gs_rwlock *rwlock, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    IF_CHECKED(gs_checked_rwlock_lock(THIS_CALL, rwlock));
    return lock(rwlock, READER, deadline_ns);
}

int gs_rwlock_wrlock(struct gs_rwlock *rwlock, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    IF_CHECKED(gs_checked_rwlock_lock(THIS_CALL, rwlock));
    return lock(rwlock, WRITER, deadline_ns);
}

void gs_rwlock_unlock(struct gs_rwlock *rwlock)
{
    CHECKED_THREAD();
    struct worker *worker = worker_current();
    struct claimed claimed = {.first = NULL};
    spin_lock(&rwlock->lock);
    IF_CHECKED(gs_checked_rwlock_held(THIS_CALL, rwlock));
    if (rwlock->has_writer)
        rwlock->has_writer = false;
    else
        rwlock->readers--;
    rwlock->holders = rwlock->readers ? rwlock->holders ^ (uintptr_t)thread_current() : 0;
    grant(rwlock, worker, &claimed);
    spin_unlock(&rwlock->lock);
    claimed_make_ready(worker, &claimed);
}
