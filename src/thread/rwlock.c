/* In order of arrival: a reader that comes after a waiting writer waits behind it. */
#include "thread/waiters.h"

enum { READER, WRITER };

static bool may_enter(const struct gs_rwlock *rwlock, int64_t kind)
{
    return !rwlock->has_writer && (kind == READER || !rwlock->readers);
}

static void enter(struct gs_rwlock *rwlock, int64_t kind)
{
    if (kind == READER)
        rwlock->readers++;
    else
        rwlock->has_writer = true;
}

/* Under the lock: let in the first, and further readers behind a reader. */
static void let_in(struct gs_rwlock *rwlock)
{
    struct gs_waiter *waiter;
    while ((waiter = rwlock->waiting.first) && may_enter(rwlock, waiter->value)) {
        int64_t kind = waiter->value;
        waiters_remove(&rwlock->waiting, waiter);
        if (!thread_claim(waiter->thread, CLAIM_WOKEN))
            continue;
        enter(rwlock, kind);
        thread_ready(worker_current(), waiter->thread);
    }
}

static int lock(struct gs_rwlock *rwlock, int64_t kind, uint64_t deadline_ns)
{
    static const struct wait_kind kinds[] = {{"reader lock", false}, {"writer lock", false}};
    const struct wait wait = {&kinds[kind], rwlock, deadline_ns, false};
    struct gs_waiter waiter = {.value = kind};
    spin_lock(&rwlock->lock);
    if (!rwlock->waiting.first && may_enter(rwlock, kind)) {
        enter(rwlock, kind);
        spin_unlock(&rwlock->lock);
        return 0;
    }
    int err = gs_waiters_wait(&rwlock->waiting, &waiter, &rwlock->lock, &wait);
    if (err) {
        /* Who stood behind may be able to enter now. */
        spin_lock(&rwlock->lock);
        let_in(rwlock);
        spin_unlock(&rwlock->lock);
    }
    return err;
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
    let_in(rwlock);
    spin_unlock(&rwlock->lock);
}
