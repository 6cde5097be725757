#include "serve/accept/evictor.h"

#include <stdlib.h>

int serve_evictors_init(struct serve_evictors *evictors, unsigned count, serve_evict_fn *evict)
{
    evictors->evict = evict;
    evictors->count = count;
    evictors->items = calloc(count, sizeof *evictors->items);
    return evictors->items ? 0 : -ENOMEM;
}

void serve_evictors_done(struct serve_evictors *evictors)
{
    free(evictors->items);
    evictors->items = NULL;
}

static void ask(struct serve_evictor *evictor, unsigned left)
{
    atomic_store(&evictor->left, left);
    gs_async_send(&evictor->async);
}

/* left: how many workers have not been asked. If two requests meet at a worker, they go on as one:
 * a worker that still lacks a slot after a pause asks again. */
static void ask_next(struct serve_evictor *evictor, unsigned left)
{
    struct serve_evictors *evictors = evictor->evictors;
    unsigned at = evictor->index;
    while (left--) {
        at = (at + 1) % evictors->count;
        struct serve_evictor *next = atomic_load(&evictors->items[at]);
        if (!next)
            continue;
        ask(next, left);
        return;
    }
}

static void on_ask(struct gs_async *async)
{
    struct serve_evictor *evictor = gs_container_of(async, struct serve_evictor, async);
    unsigned left = atomic_exchange(&evictor->left, 0);
    if (!evictor->evictors->evict(evictor->data))
        ask_next(evictor, left);
}

void serve_evictor_init(struct serve_evictor *evictor, struct serve_evictors *evictors,
                        unsigned index, struct gs_loop *loop, void *data)
{
    *evictor = (struct serve_evictor){.evictors = evictors, .index = index, .data = data};
    gs_async_init(&evictor->async, loop, on_ask);
    gs_async_start(&evictor->async);
}

void serve_evictor_publish(struct serve_evictor *evictor)
{
    atomic_store(&evictor->evictors->items[evictor->index], evictor);
}

void serve_evictor_make_room(struct serve_evictor *evictor)
{
    if (!evictor->evictors->evict(evictor->data))
        ask_next(evictor, evictor->evictors->count - 1);
}

void serve_evictor_ask(struct serve_evictor *evictor)
{
    ask(evictor, evictor->evictors->count - 1);
}
