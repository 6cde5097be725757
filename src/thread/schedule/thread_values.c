/* What a thread has of its own: cleanup functions, which run when it ends, and thread-specific
 * values, with the keys and destructors of all threads. */
#include "thread/schedule/thread_extra.h"

#include <errno.h>
#include <stdlib.h>

/* ---- Cleanups ---- */

void gs_cleanup_push(struct gs_cleanup *cleanup, void (*fn)(void *), void *argument)
{
    CHECKED_THREAD();
    struct gs_thread *self = thread_current();
    *cleanup = (struct gs_cleanup){.next = self->cleanups, .fn = fn, .argument = argument};
    self->cleanups = cleanup;
}

void gs_cleanup_pop(bool run)
{
    CHECKED_THREAD();
    struct gs_thread *self = thread_current();
    struct gs_cleanup *cleanup = self->cleanups;
    self->cleanups = cleanup->next;
    if (run)
        cleanup->fn(cleanup->argument);
}

void gs_thread_run_cleanups(struct gs_thread *thread)
{
    while (thread->cleanups)
        gs_cleanup_pop(true);
}

/* ---- Thread-specific values ---- */

typedef void destroy_fn(void *value);
static _Atomic(destroy_fn *) destructors[GS_THREAD_KEYS];
static atomic_int key_count;

/* A destructor may set values again; after so many rounds they are left as they are. */
#define DESTRUCTOR_ROUNDS 4

int gs_thread_key_new(void (*destroy)(void *value))
{
    int key = atomic_load_explicit(&key_count, memory_order_relaxed);
    do {
        if (key == GS_THREAD_KEYS)
            return -EAGAIN;
    } while (!atomic_compare_exchange_weak_explicit(&key_count, &key, key + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    atomic_store(&destructors[key], destroy);
    return key;
}

void *gs_thread_value(int key)
{
    CHECKED_THREAD();
    const struct thread_extra *extra = thread_extra(thread_current());
    bool has_values = extra && extra->values && key >= 0 && key < GS_THREAD_KEYS;
    return has_values ? extra->values[key] : NULL;
}

int gs_thread_set_value(int key, void *value)
{
    CHECKED_THREAD();
    if (key < 0 || key >= atomic_load(&key_count))
        return -EINVAL;
    struct thread_extra *extra = gs_thread_get_extra(thread_current());
    if (extra && !extra->values)
        extra->values = calloc(GS_THREAD_KEYS, sizeof *extra->values);
    if (!extra || !extra->values)
        return -ENOMEM;
    extra->values[key] = value;
    return 0;
}

static bool destroy_round(void **values)
{
    bool has_called = false;
    for (int key = 0; key < GS_THREAD_KEYS; key++) {
        void *value = values[key];
        destroy_fn *destroy = atomic_load(&destructors[key]);
        values[key] = NULL;
        if (!value || !destroy)
            continue;
        destroy(value);
        has_called = true;
    }
    return has_called;
}

void gs_thread_destroy_values(struct gs_thread *thread)
{
    struct thread_extra *extra = thread_extra(thread);
    if (!extra->values)
        return;
    for (int round = 0; round < DESTRUCTOR_ROUNDS && destroy_round(extra->values); round++)
        ;
    free(extra->values);
    extra->values = NULL;
}
