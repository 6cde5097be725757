#include "serve/places.h"

void serve_places_init(struct serve_places *places, uint64_t most)
{
    *places =
        (struct serve_places){.most = most, .lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER};
    gs_list_init(&places->waiters);
}

bool serve_places_take(struct serve_places *places)
{
    uint64_t taken = atomic_load(&places->taken);
    while (taken < places->most)
        if (atomic_compare_exchange_weak(&places->taken, &taken, taken + 1))
            return true;
    return false;
}

void serve_places_exceed(struct serve_places *places)
{
    atomic_fetch_add(&places->taken, 1);
}

bool serve_places_are_free(const struct serve_places *places, uint64_t count)
{
    uint64_t taken = atomic_load_explicit(&places->taken, memory_order_relaxed);
    return taken < places->most && places->most - taken >= count;
}

/* The lock is held. */
static void wake_all(struct serve_places *places)
{
    GS_LIST_EACH(link, &places->waiters)
    {
        struct serve_waiter *waiter = gs_container_of(link, struct serve_waiter, link);
        gs_list_remove(link);
        gs_async_send(&waiter->async);
    }
    atomic_store(&places->awaited, false);
}

/* Sequentially consistent, here and in serve_places_wait: of who leaves and who begins to wait, one
 * at least sees the other. Exchanged, as the loop's mailbox is. */
void serve_places_leave(struct serve_places *places)
{
    atomic_fetch_sub(&places->taken, 1);
    if (!atomic_load(&places->awaited))
        return;
    pthread_mutex_lock(&places->lock);
    wake_all(places);
    pthread_mutex_unlock(&places->lock);
}

void serve_places_wait(struct serve_places *places, struct serve_waiter *waiter)
{
    pthread_mutex_lock(&places->lock);
    if (!gs_list_is_linked(&waiter->link))
        gs_list_append(&places->waiters, &waiter->link);
    atomic_exchange(&places->awaited, true);
    if (atomic_load(&places->taken) < places->most)
        wake_all(places);
    pthread_mutex_unlock(&places->lock);
}

void serve_places_forget(struct serve_places *places, struct serve_waiter *waiter)
{
    pthread_mutex_lock(&places->lock);
    if (gs_list_is_linked(&waiter->link))
        gs_list_remove(&waiter->link);
    pthread_mutex_unlock(&places->lock);
}
