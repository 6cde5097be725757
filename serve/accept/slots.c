#include "serve/accept/slots.h"

void serve_slots_init(struct serve_slots *slots, uint64_t max)
{
    *slots = (struct serve_slots){.max = max, .lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER};
    gs_list_init(&slots->waiters);
}

bool serve_slots_acquire(struct serve_slots *slots)
{
    uint64_t used = atomic_load(&slots->used);
    while (used < slots->max)
        if (atomic_compare_exchange_weak(&slots->used, &used, used + 1))
            return true;
    return false;
}

void serve_slots_acquire_extra(struct serve_slots *slots)
{
    atomic_fetch_add(&slots->used, 1);
}

bool serve_slots_have_free(const struct serve_slots *slots, uint64_t count)
{
    uint64_t used = atomic_load_explicit(&slots->used, memory_order_relaxed);
    return used < slots->max && slots->max - used >= count;
}

/* The caller holds the lock. */
static void wake_all(struct serve_slots *slots)
{
    GS_LIST_FOREACH (link, &slots->waiters) {
        struct serve_slot_waiter *waiter = gs_container_of(link, struct serve_slot_waiter, link);
        gs_list_remove(link);
        gs_async_send(&waiter->async);
    }
    atomic_store(&slots->has_waiters, false);
}

/* Sequentially consistent, here and in serve_slots_wait: of a thread that releases a slot and one
 * that begins to wait, at least one sees the other. Exchanged, as the loop's mailbox is. */
void serve_slots_release(struct serve_slots *slots)
{
    atomic_fetch_sub(&slots->used, 1);
    if (!atomic_load(&slots->has_waiters))
        return;
    pthread_mutex_lock(&slots->lock);
    wake_all(slots);
    pthread_mutex_unlock(&slots->lock);
}

void serve_slots_wait(struct serve_slots *slots, struct serve_slot_waiter *waiter)
{
    pthread_mutex_lock(&slots->lock);
    if (!gs_list_is_linked(&waiter->link))
        gs_list_append(&slots->waiters, &waiter->link);
    atomic_exchange(&slots->has_waiters, true);
    if (atomic_load(&slots->used) < slots->max)
        wake_all(slots);
    pthread_mutex_unlock(&slots->lock);
}

void serve_slots_cancel_wait(struct serve_slots *slots, struct serve_slot_waiter *waiter)
{
    pthread_mutex_lock(&slots->lock);
    if (gs_list_is_linked(&waiter->link))
        gs_list_remove(&waiter->link);
    pthread_mutex_unlock(&slots->lock);
}
