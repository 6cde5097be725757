/* In order of arrival: a reader that comes after a waiting writer waits behind it. */
#include "thread/wait.h"

enum { READER, WRITER };

static bool may_enter(const struct gs_rwlock *rwlock, int64_t kind)
{
    return !rwlock->has_writer && (kind == READER || !rwlock->readers);
}

static void enter(struct gs_rwlock *rwlock, int64_t kind, const struct gs_thread *thread)
{
    rwlock->holders ^= (uintptr_t)thread;
    if (kind == READER)
        rwlock->readers++;
    else
        rwlock->has_writer = true;
}

/* Under the lock: let in the first, and further readers behind a reader. worker: the caller; NULL: the caller is none. */
static void let_in(struct gs_rwlock *rwlock, struct worker *worker)
{
    struct gs_waiter *waiter;
    while ((waiter = rwlock->waiting.first) && may_enter(rwlock, waiter->value)) {
        int64_t kind = waiter->value;
        waiters_remove(&rwlock->waiting, waiter);
        if (!waiter_claim(worker, waiter, CLAIM_WOKEN))
            continue;
        enter(rwlock, kind, waiter->thread);
        thread_ready(worker, waiter->thread);
    }
}

/* Who stood behind may be able to enter now. */
static void given_up(void *object, struct gs_thread *thread, bool was_queued)
{
    (void)thread, (void)was_queued;
    let_in(object, gs_worker_or_null());
}

static int lock(struct gs_rwlock *rwlock, int64_t kind, uint64_t deadline_ns)
{
    static const struct wait_kind kinds[] = {
        {.what = "reader lock",
         .holder = HOLDER_RWLOCK,
         .given_up = given_up,
         WAITS_IN(gs_rwlock, waiting)},
        {.what = "writer lock",
         .holder = HOLDER_RWLOCK,
         .given_up = given_up,
         WAITS_IN(gs_rwlock, waiting)},
    };
    struct gs_thread *self = thread_current();
    spin_lock(&rwlock->lock);
    if (!rwlock->waiting.first && may_enter(rwlock, kind)) {
        enter(rwlock, kind, self);
        spin_unlock(&rwlock->lock);
        return 0;
    }
    self->waiter.value = kind;
    return wait_in(self, rwlock, &kinds[kind], deadline_ns);
}

int gs_rwlock_read(struct gs_rwlock *rwlock, uint64_t deadline_ns)
{
    return lock(rwlock, READER, deadline_ns);
}

int gs_rwlock_write(struct gs_rwlock *rwlock, uint64_t deadline_ns)
{
    return lock(rwlock, WRITER, deadline_ns);
}

void gs_rwlock_unlock(struct gs_rwlock *rwlock)
{
    spin_lock(&rwlock->lock);
    if (rwlock->has_writer)
        rwlock->has_writer = false;
    else
        rwlock->readers--;
    rwlock->holders = rwlock->readers ? rwlock->holders ^ (uintptr_t)thread_current() : 0;
    let_in(rwlock, worker_current());
    spin_unlock(&rwlock->lock);
}
