/* Debug mode: a table of the events that are assigned, and whether they are added. */
#include "compat/libevent/event/base.h"
#include "compat/libevent/event/log.h"
#include "compat/libevent/event/memory.h"

#include <pthread.h>

#define FIRST_BITS 6
/* What the library ends with when a program misuses it. */
#define MISUSED ((int)0xdeaddead)

bool gs_ev_is_debugging;

static atomic_bool is_too_late;

/* Open addressing: an event is in the first place from its own on that is free or has it. */
struct entry {
    const struct event *event;
    bool is_added;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct entry *table;
static unsigned bits, count;

void event_enable_debug_mode(void)
{
    if (gs_ev_is_debugging)
        gs_ev_errx(1, "%s was called twice!", __func__);
    if (is_too_late)
        gs_ev_errx(1, "%s must be called *before* creating any events or event_bases", __func__);
    gs_ev_is_debugging = true;
}

void gs_ev_debug_begin(void)
{
    is_too_late = true;
}

void gs_ev_debug_shutdown(void)
{
    gs_ev_free(table);
    table = NULL;
    bits = count = 0;
}

static unsigned home(const struct event *event)
{
    uint64_t hash = (uint64_t)(uintptr_t)event * UINT64_C(0x9e3779b97f4a7c15);
    return (unsigned)(hash >> (64 - bits));
}

static struct entry *place_of(const struct event *event)
{
    unsigned mask = (1u << bits) - 1;
    unsigned index = home(event);
    while (table[index].event && table[index].event != event)
        index = (index + 1) & mask;
    return &table[index];
}

static struct entry *find(const struct event *event)
{
    struct entry *entry = table ? place_of(event) : NULL;
    return entry && entry->event ? entry : NULL;
}

static void grow(void)
{
    struct entry *old = table;
    unsigned old_size = old ? 1u << bits : 0;
    bits = old ? bits + 1 : FIRST_BITS;
    table = gs_ev_calloc((size_t)1 << bits, sizeof *table);
    if (!table)
        gs_ev_err(1, "Out of memory in debugging code");
    for (unsigned i = 0; i < old_size; i++)
        if (old[i].event)
            *place_of(old[i].event) = old[i];
    gs_ev_free(old);
}

static void put(const struct event *event)
{
    if (!table || 2 * count >= 1u << bits)
        grow();
    struct entry *entry = place_of(event);
    count += !entry->event;
    *entry = (struct entry){.event = event};
}

/* Those behind it move up, so that none is cut off from its own place. */
static void drop(const struct event *event)
{
    struct entry *entry = find(event);
    if (!entry)
        return;
    unsigned mask = (1u << bits) - 1, hole = (unsigned)(entry - table);
    for (unsigned i = (hole + 1) & mask; table[i].event; i = (i + 1) & mask) {
        if (((i - home(table[i].event)) & mask) < ((i - hole) & mask))
            continue;
        table[hole] = table[i];
        hole = i;
    }
    table[hole].event = NULL;
    count--;
}

void gs_ev_debug_assigned(const struct event *event)
{
    if (!atomic_load_explicit(&is_too_late, memory_order_relaxed))
        is_too_late = true;
    if (!gs_ev_is_debugging)
        return;
    pthread_mutex_lock(&mutex);
    put(event);
    pthread_mutex_unlock(&mutex);
}

void gs_ev_debug_unassigned(const struct event *event)
{
    if (!gs_ev_is_debugging)
        return;
    pthread_mutex_lock(&mutex);
    drop(event);
    pthread_mutex_unlock(&mutex);
}

static _Noreturn void end(const char *caller, const char *fault, const struct event *event)
{
    pthread_mutex_unlock(&mutex);
    gs_ev_errx(MISUSED, "%s called on %s event %p (events: 0x%x, fd: %d, flags: 0x%x)", caller,
               fault, (const void *)event, (unsigned)event->ev_events, event->ev_fd,
               (unsigned)event->ev_evcallback.evcb_flags);
}

void gs_ev_note_added(const struct event *event, bool is_added)
{
    pthread_mutex_lock(&mutex);
    struct entry *entry = find(event);
    if (!entry)
        end(__func__, "a non-initialized", event);
    entry->is_added = is_added;
    pthread_mutex_unlock(&mutex);
}

void gs_ev_check_assigned(const struct event *event, const char *caller)
{
    pthread_mutex_lock(&mutex);
    if (!find(event))
        end(caller, "a non-initialized", event);
    pthread_mutex_unlock(&mutex);
}

void gs_ev_debug_must_not_be_added(const struct event *event, const char *caller)
{
    if (!gs_ev_is_debugging)
        return;
    pthread_mutex_lock(&mutex);
    const struct entry *entry = find(event);
    if (entry && entry->is_added)
        end(caller, "an already added", event);
    pthread_mutex_unlock(&mutex);
}
