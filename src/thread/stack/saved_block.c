#include "thread/stack/saved_block.h"
#include "thread/stack/stack_class.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <sys/mman.h>

/* At the start of each. Blocks that were never used begin at `fresh`. */
struct chunk {
    struct gs_list link; /* in one of the worker's lists, unless it is full */
    void *free;          /* those that were freed: each has the address of the next */
    uint32_t size, fresh, used, populated;
    uint32_t max; /* blocks that it has room for */
};
#define HEADER ((size_t)64)
_Static_assert(sizeof(struct chunk) <= HEADER, "room for the header");

/* All chunks; guarded by gs_stack_classes_lock. */
static struct {
    char *base;
    size_t max, used; /* chunks; used: so many were ever taken, which is read without the lock */
    struct slot_set returned;
} store;

/* Chunks made writable at a time. */
#define OPENED ((size_t)16)

/* A worker with so many chunks soon uses all of a new one: its pages are made in groups, since each
 * page fault costs more than the page. */
#define CHUNKS_TO_POPULATE 4u
#define POPULATED ((size_t)32 << 10)

int gs_saved_blocks_init(char *base, size_t size)
{
    store.base = base;
    store.max = size / SAVED_CHUNK;
    return gs_slot_set_init(&store.returned, store.max);
}

void gs_saved_blocks_init_worker(struct saved_blocks *blocks)
{
    for (size_t i = 0; i < SAVED_SIZES; i++)
        gs_list_init(&blocks->with_room[i]);
    gs_list_init(&blocks->empty);
    blocks->chunks = blocks->empty_count = blocks->empty_low = 0;
}

/* ---- Chunks ---- */

static struct chunk *chunk_at(size_t index)
{
    return (struct chunk *)(store.base + index * SAVED_CHUNK);
}

static struct chunk *take_from_store(void)
{
    struct chunk *chunk = NULL;
    spin_lock_always(&gs_stack_classes_lock);
    if (store.returned.count) {
        chunk = chunk_at(gs_slot_set_take(&store.returned));
    } else if (store.used + OPENED <= store.max &&
               (store.used % OPENED ||
                !gs_stacks_open(chunk_at(store.used), OPENED * SAVED_CHUNK))) {
        chunk = chunk_at(store.used);
        __atomic_store_n(&store.used, store.used + 1, __ATOMIC_RELEASE);
    }
    spin_unlock_always(&gs_stack_classes_lock);
    return chunk;
}

static void return_to_store(struct chunk *chunk)
{
    (void)gs_sys_madvise(chunk, SAVED_CHUNK, MADV_DONTNEED);
    spin_lock_always(&gs_stack_classes_lock);
    gs_slot_set_add(&store.returned, (size_t)((char *)chunk - store.base) / SAVED_CHUNK);
    spin_unlock_always(&gs_stack_classes_lock);
}

static struct gs_list *list_for(struct saved_blocks *blocks, size_t size)
{
    return &blocks->with_room[size <= SAVED_SIZE_MAX ? size / SAVED_UNIT : 0];
}

static struct chunk *chunk_of_link(struct gs_list *link)
{
    return gs_container_of(link, struct chunk, link);
}

static struct chunk *take_empty(struct saved_blocks *blocks)
{
    struct chunk *chunk = chunk_of_link(blocks->empty.next);
    gs_list_remove(&chunk->link);
    if (--blocks->empty_count < blocks->empty_low)
        blocks->empty_low = blocks->empty_count;
    return chunk;
}

static struct chunk *new_chunk(struct saved_blocks *blocks)
{
    struct chunk *chunk = take_from_store();
    if (chunk)
        chunk->populated = ++blocks->chunks > CHUNKS_TO_POPULATE ? 0 : SAVED_CHUNK;
    return chunk;
}

static struct chunk *add_chunk(struct saved_blocks *blocks, size_t size)
{
    struct chunk *chunk = blocks->empty_count ? take_empty(blocks) : new_chunk(blocks);
    if (!chunk)
        return NULL;
    chunk->free = NULL;
    chunk->size = (uint32_t)size;
    chunk->fresh = HEADER;
    chunk->used = 0;
    chunk->max = size <= SAVED_SIZE_MAX ? (uint32_t)((SAVED_CHUNK - HEADER) / size) : 1;
    gs_list_append(list_for(blocks, size), &chunk->link);
    return chunk;
}

/* ---- Blocks ---- */

static void *take_fresh(struct chunk *chunk)
{
    char *block = (char *)chunk + chunk->fresh;
    chunk->fresh += chunk->size;
    if (UNLIKELY(chunk->fresh > chunk->populated) && chunk->max > 1) {
        (void)gs_sys_madvise((char *)chunk + chunk->populated, POPULATED, MADV_POPULATE_WRITE);
        chunk->populated += POPULATED;
    }
    return block;
}

void *gs_saved_block_new(struct saved_blocks *blocks, size_t size)
{
    struct gs_list *list = list_for(blocks, size);
    struct chunk *chunk =
        LIKELY(!gs_list_is_empty(list)) ? chunk_of_link(list->next) : add_chunk(blocks, size);
    if (UNLIKELY(!chunk))
        return NULL;
    void *block = chunk->free;
    if (block)
        chunk->free = *(void **)block;
    else
        block = take_fresh(chunk);
    if (++chunk->used == chunk->max)
        gs_list_remove(&chunk->link);
    return block;
}

void gs_saved_block_free(struct saved_blocks *blocks, void *block)
{
    struct chunk *chunk = (struct chunk *)((uintptr_t)block & ~(SAVED_CHUNK - 1));
    bool was_full = chunk->used == chunk->max;
    *(void **)block = chunk->free;
    chunk->free = block;
    if (UNLIKELY(!--chunk->used)) {
        if (!was_full)
            gs_list_remove(&chunk->link);
        gs_list_prepend(&blocks->empty, &chunk->link);
        blocks->empty_count++;
    } else if (UNLIKELY(was_full)) {
        gs_list_prepend(list_for(blocks, chunk->size), &chunk->link);
    }
}

void gs_saved_blocks_trim(struct saved_blocks *blocks, bool is_all)
{
    size_t surplus = is_all ? blocks->empty_count : blocks->empty_low;
    blocks->chunks -= surplus;
    while (surplus--)
        return_to_store(take_empty(blocks));
    blocks->empty_low = blocks->empty_count;
}

void gs_saved_blocks_reclaim(void)
{
    if (store.used)
        (void)gs_sys_madvise(store.base, store.used * SAVED_CHUNK, MADV_DONTNEED);
    for (size_t i = 0; i < store.used; i++)
        if (!gs_slot_set_has(&store.returned, i))
            gs_slot_set_add(&store.returned, i);
}

bool gs_saved_block_is_readable(const char *at, size_t size)
{
    size_t offset = (size_t)(at - store.base);
    size_t end = __atomic_load_n(&store.used, __ATOMIC_ACQUIRE) * SAVED_CHUNK;
    return offset < end && size <= end - offset;
}
