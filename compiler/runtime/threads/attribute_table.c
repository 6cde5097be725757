#include "compiler/runtime/start/memory.h"
#include "compiler/runtime/threads/attributes.h"

#include <stdlib.h>
#include <string.h>

/* Of a thread, in the list of its bucket. */
struct entry {
    struct entry *next;
    const struct thread *thread;
    struct attributes *attributes;
};

enum { FIRST_BUCKETS = 64 };

static atomic_flag lock = ATOMIC_FLAG_INIT; /* of all that follows */
static struct entry **buckets;
static size_t bucket_count, entry_count; /* bucket_count: a power of two, or 0 */
static struct attributes *last;          /* that was given to a thread */

static struct entry **bucket_of(const struct thread *thread)
{
    return &buckets[((uintptr_t)thread / sizeof *thread) & (bucket_count - 1)];
}

static struct entry **find(const struct thread *thread)
{
    struct entry **at = bucket_of(thread);
    while (*at && (*at)->thread != thread)
        at = &(*at)->next;
    return at;
}

/* Returns the old ones. */
static struct entry **use_buckets(struct entry **more, size_t count)
{
    size_t old_count = bucket_count;
    struct entry **old = buckets;
    bucket_count = count;
    buckets = more;
    for (size_t i = 0; i < old_count; i++)
        while (old[i]) {
            struct entry *entry = old[i];
            old[i] = entry->next;
            struct entry **bucket = bucket_of(entry->thread);
            entry->next = *bucket;
            *bucket = entry;
        }
    return old;
}

/* The caller has the lock; it is free meanwhile, as the allocator may be the program's. */
static void make_room(void)
{
    while (entry_count >= bucket_count) {
        size_t count = bucket_count ? 2 * bucket_count : FIRST_BUCKETS;
        spin_unlock(&lock);
        struct entry **more = calloc(count, sizeof(struct entry *));
        if (!more)
            abort();
        spin_lock(&lock);
        struct entry **unused = count > bucket_count ? use_buckets(more, count) : more;
        spin_unlock(&lock);
        free(unused);
        spin_lock(&lock);
    }
}

static size_t size_of(const struct attributes *attributes)
{
    return sizeof *attributes + attributes->cpus_size;
}

void gs_cc_attributes_free(struct attributes *attributes)
{
    gs_cc_release(attributes, size_of(attributes));
}

static void let_go(struct attributes *attributes)
{
    if (attributes && !--attributes->count)
        gs_cc_attributes_free(attributes);
}

/* Whether threads can share them: all but the number and the count. */
static bool is_equal(const struct attributes *one, const struct attributes *other)
{
    return one->stack == other->stack && one->stack_size == other->stack_size &&
           one->guard_size == other->guard_size && one->policy == other->policy &&
           one->priority == other->priority && one->ceiling == other->ceiling &&
           one->has_scheduling == other->has_scheduling && one->is_explicit == other->is_explicit &&
           one->cpus_size == other->cpus_size && !memcmp(one->cpus, other->cpus, one->cpus_size);
}

const struct attributes *gs_cc_attributes_of(const struct thread *thread)
{
    if (!has_attributes(thread))
        return NULL;
    spin_lock(&lock);
    const struct entry *entry = bucket_count ? *find(thread) : NULL;
    spin_unlock(&lock);
    return entry ? entry->attributes : NULL;
}

struct attributes *gs_cc_attributes_new(const struct attributes *copied, size_t cpus_size)
{
    const size_t size = sizeof(struct attributes) + cpus_size;
    struct attributes *attributes = memset(gs_cc_allocate(size), 0, size);
    attributes->guard_size = DEFAULT_GUARD;
    if (copied)
        memcpy(attributes, copied, sizeof *attributes);
    if (copied && copied->cpus_size == cpus_size)
        memcpy(attributes->cpus, copied->cpus, cpus_size);
    attributes->count = 0;
    attributes->cpus_size = cpus_size;
    return attributes;
}

void gs_cc_attributes_set(struct thread *thread, struct attributes *attributes)
{
    spin_lock(&lock);
    make_room();
    struct entry **place = find(thread), *entry = *place;
    if (!entry) {
        entry = *place = gs_cc_allocate(sizeof *entry);
        *entry = (struct entry){NULL, thread, NULL};
        entry_count++;
    }
    if (last && is_equal(last, attributes)) {
        gs_cc_attributes_free(attributes);
        attributes = last;
    } else {
        let_go(last);
        last = attributes;
        last->count++;
    }
    attributes->count++;
    let_go(entry->attributes);
    entry->attributes = attributes;
    atomic_fetch_or(&thread->cancel, HAS_ATTRIBUTES);
    spin_unlock(&lock);
}

void gs_cc_attributes_forget(struct thread *thread)
{
    spin_lock(&lock);
    struct entry **place = find(thread), *entry = *place;
    if (entry) {
        *place = entry->next;
        let_go(entry->attributes);
        gs_cc_release(entry, sizeof *entry);
        entry_count--;
    }
    spin_unlock(&lock);
}

/* Another thread may have had the table in its hands. */
void gs_cc_attributes_after_fork(struct thread *self)
{
    bool is_held = atomic_flag_test_and_set(&lock);
    const struct entry *entry = !is_held && bucket_count ? *find(self) : NULL;
    struct attributes *own = entry ? entry->attributes : NULL;
    atomic_flag_clear(&lock);
    buckets = NULL;
    bucket_count = entry_count = 0;
    last = NULL;
    atomic_fetch_and(&self->cancel, (unsigned char)~HAS_ATTRIBUTES);
    if (own)
        gs_cc_attributes_set(self, gs_cc_attributes_new(own, own->cpus_size));
}
