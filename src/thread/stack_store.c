/* Slabs of 64 KiB in one reservation of addresses. A slab has pieces of one class; those that were
 * freed are linked by their first bytes, and behind them the slab was never used. A slab without
 * pieces gives its memory back, unless it is the only one of its class that has room. */
#include "thread/stack_store.h"
#include "thread/slot_set.h"
#include "thread/worker.h"

#include <gossamer/sys.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define UNIT ((size_t)32)
#define CLASSES (STORE_PIECE_MAX / UNIT)
#define SLAB_SIZE ((size_t)64 << 10)
#define MAX_SLABS ((size_t)1 << 17)
/* Slabs made writable at a time. */
#define WRITABLE_STEP ((size_t)64)

struct slab {
    struct slab *next, *previous; /* in the list of its class; NULL: it is full, or at an end */
    uint32_t free;                /* the offset of the first freed piece; 0: none */
    uint32_t used;                /* pieces in use */
    uint32_t end;                 /* the offset from which on it was never used */
};

/* Pieces begin behind it, aligned to their unit. */
#define HEADER_SIZE ((sizeof(struct slab) + UNIT - 1) & ~(UNIT - 1))

static struct {
    struct gs_spin lock;
    char *base;
    bool has_failed;
    size_t used, writable;       /* slabs */
    struct slot_set empty;       /* slabs without memory */
    struct slab *first[CLASSES]; /* slabs with room */
    _Atomic(size_t) bytes;       /* of slabs, as far as they were used */
} store;

static size_t class_of(size_t size)
{
    return (size + UNIT - 1) / UNIT - 1;
}

static uint32_t piece_size(size_t class)
{
    return (uint32_t)((class + 1) * UNIT);
}

/* ---- Slabs ---- */

/* Where the addresses are limited, others need them more. */
static bool reserve(void)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    (void)getrlimit(RLIMIT_AS, &limit);
    store.has_failed = true;
    if (limit.rlim_cur != RLIM_INFINITY || gs_slot_set_init(&store.empty, MAX_SLABS))
        return false;
    size_t size = (MAX_SLABS + 1) * SLAB_SIZE;
    long base = gs_sys_mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (base < 0)
        return false;
    store.base = (char *)(((uintptr_t)base + SLAB_SIZE - 1) & ~(SLAB_SIZE - 1));
    /* Slabs are given back one by one. */
    (void)gs_sys_madvise(store.base, MAX_SLABS * SLAB_SIZE, MADV_NOHUGEPAGE);
    /* A core by a debugger would contain all of it. */
    (void)gs_sys_madvise(store.base, MAX_SLABS * SLAB_SIZE, MADV_DONTDUMP);
    store.has_failed = false;
    return true;
}

static struct slab *slab_at(size_t index)
{
    return (struct slab *)(store.base + index * SLAB_SIZE);
}

static struct slab *open_slab(void)
{
    if (store.has_failed || (!store.base && !reserve()))
        return NULL;
    if (store.empty.count)
        return slab_at(gs_slot_set_take(&store.empty));
    if (store.used == store.writable) {
        if (store.writable == MAX_SLABS ||
            gs_sys_mprotect(slab_at(store.used), WRITABLE_STEP * SLAB_SIZE, PROT_READ | PROT_WRITE))
            return NULL;
        (void)gs_sys_madvise(slab_at(store.used), WRITABLE_STEP * SLAB_SIZE, MADV_DODUMP);
        __atomic_store_n(&store.writable, store.writable + WRITABLE_STEP, __ATOMIC_RELEASE);
    }
    return slab_at(store.used++);
}

static void link_slab(size_t class, struct slab *slab)
{
    slab->previous = NULL;
    slab->next = store.first[class];
    if (slab->next)
        slab->next->previous = slab;
    store.first[class] = slab;
}

static void unlink_slab(size_t class, struct slab *slab)
{
    if (slab->previous)
        slab->previous->next = slab->next;
    else
        store.first[class] = slab->next;
    if (slab->next)
        slab->next->previous = slab->previous;
}

static struct slab *slab_with_room(size_t class)
{
    struct slab *slab = store.first[class];
    if (slab)
        return slab;
    slab = open_slab();
    if (!slab)
        return NULL;
    *slab = (struct slab){.end = HEADER_SIZE};
    atomic_fetch_add_explicit(&store.bytes, slab->end, memory_order_relaxed);
    link_slab(class, slab);
    return slab;
}

static bool is_full(const struct slab *slab, size_t class)
{
    return !slab->free && slab->end + piece_size(class) > SLAB_SIZE;
}

static void close_slab(size_t class, struct slab *slab)
{
    unlink_slab(class, slab);
    atomic_fetch_sub_explicit(&store.bytes, slab->end, memory_order_relaxed);
    (void)gs_sys_madvise(slab, SLAB_SIZE, MADV_DONTNEED);
    gs_slot_set_add(&store.empty, (size_t)((char *)slab - store.base) / SLAB_SIZE);
}

/* ---- Pieces ---- */

static char *take(struct slab *slab, size_t class)
{
    char *piece = (char *)slab + slab->free;
    slab->used++;
    if (slab->free) {
        memcpy(&slab->free, piece, sizeof slab->free);
        return piece;
    }
    piece = (char *)slab + slab->end;
    slab->end += piece_size(class);
    atomic_fetch_add_explicit(&store.bytes, piece_size(class), memory_order_relaxed);
    return piece;
}

void *gs_stack_store_get(size_t size)
{
    size_t class = class_of(size);
    spin_lock_always(&store.lock);
    struct slab *slab = slab_with_room(class);
    char *piece = slab ? take(slab, class) : NULL;
    if (slab && is_full(slab, class))
        unlink_slab(class, slab);
    spin_unlock_always(&store.lock);
    return piece;
}

void gs_stack_store_put(void *piece, size_t size)
{
    size_t class = class_of(size);
    struct slab *slab = (struct slab *)((uintptr_t)piece & ~(SLAB_SIZE - 1));
    spin_lock_always(&store.lock);
    if (is_full(slab, class))
        link_slab(class, slab);
    memcpy(piece, &slab->free, sizeof slab->free);
    slab->free = (uint32_t)((char *)piece - (char *)slab);
    if (!--slab->used && (slab->next || slab->previous))
        close_slab(class, slab);
    spin_unlock_always(&store.lock);
}

bool gs_stack_store_has(const void *address, size_t size)
{
    size_t writable = __atomic_load_n(&store.writable, __ATOMIC_ACQUIRE) * SLAB_SIZE;
    size_t offset = (size_t)((const char *)address - store.base);
    return writable && offset < writable && size <= writable - offset;
}

size_t gs_stack_store_bytes(void)
{
    return atomic_load_explicit(&store.bytes, memory_order_relaxed);
}

void gs_stack_store_lock(void)
{
    spin_lock_always(&store.lock);
}

void gs_stack_store_unlock(void)
{
    spin_unlock_always(&store.lock);
}
