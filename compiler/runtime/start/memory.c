#include "compiler/runtime/start/memory.h"
#include "compiler/runtime/signals/signals.h"
#include "compiler/runtime/start/abi.h"
#include "compiler/runtime/start/sanitizer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STEP 8u
#define ALIGNMENT 16u
#define CLASSES 64u
#define SLAB_SIZE ((size_t)64 << 10)
#define HANDLERS_BOXES 4096u
#define LEAST_PAGE 4096u

struct block {
    struct block *next;
};

static _Thread_local struct block *free_blocks[CLASSES] __attribute__((tls_model("initial-exec")));
static _Thread_local struct block *free_aligned[CLASSES] __attribute__((tls_model("initial-exec")));
static _Thread_local char *slab, *slab_end;

static _Noreturn void fail(void)
{
    fputs("gossamer cc: no memory for a thread\n", stderr);
    abort();
}

/* Not by the program's allocator, which may use thread-local variables, that is, a block. */
static char *map(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        fail();
    return at;
}

/* Blocks of all sizes are cut from the same slab. */
static __attribute__((noinline)) void *cut(size_t size, size_t alignment)
{
    size_t gap = -(uintptr_t)slab % alignment;
    if ((size_t)(slab_end - slab) < size + gap) {
        slab = map(SLAB_SIZE);
        slab_end = slab + SLAB_SIZE;
        gap = 0; /* it is aligned as a page is */
    }
    void *block = slab + gap;
    slab += size + gap;
    return block;
}

static __attribute__((noinline)) void *allocate_large(size_t size)
{
    void *block = malloc(size);
    if (!block)
        fail();
    return block;
}

/* Inline in what compiled code calls for each wait. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE void *allocate(struct block **free_list, size_t size, size_t alignment)
{
    if (IS_SANITIZED)
        return allocate_large(size);
    size_t class = (size + STEP - 1) / STEP;
    if (class >= CLASSES)
        return allocate_large(size);
    struct block *block = free_list[class];
    if (!block)
        return cut(class * STEP, alignment);
    free_list[class] = block->next;
    return block;
}

ALWAYS_INLINE void release(struct block **free_list, void *block, size_t size)
{
    if (IS_SANITIZED) {
        free(block);
        return;
    }
    size_t class = (size + STEP - 1) / STEP;
    if (class >= CLASSES) {
        free(block);
        return;
    }
    struct block *freed = block;
    freed->next = free_list[class];
    free_list[class] = freed;
}

void *gs_cc_allocate(size_t size)
{
    return allocate(free_blocks, size, STEP);
}

void gs_cc_release(void *block, size_t size)
{
    release(free_blocks, block, size);
}

void *gs_cc_allocate_aligned(size_t size)
{
    return allocate(free_aligned, size, ALIGNMENT);
}

void gs_cc_release_aligned(void *block, size_t size)
{
    release(free_aligned, block, size);
}

/* ---- Thread-local variables: all blocks have the same size ---- */

static _Thread_local struct block *free_locals;

void *gs_cc_allocate_locals(size_t size, size_t alignment)
{
    if (!IS_SANITIZED && !free_locals)
        return size < SLAB_SIZE / 4 && alignment < LEAST_PAGE ? cut(size, alignment) : map(size);
    struct block *block = IS_SANITIZED ? aligned_alloc(alignment, size) : free_locals;
    if (!block)
        fail();
    if (!IS_SANITIZED)
        free_locals = block->next;
    return block;
}

void gs_cc_release_locals(void *locals)
{
    struct block *block = locals;
    if (!block)
        return;
    if (IS_SANITIZED) {
        free(block);
        return;
    }
    block->next = free_locals;
    free_locals = block;
}

/* ---- Records ---- */

struct gs_cc_record *gs_cc_record(const struct gs_cc_site *site)
{
    struct gs_cc_state *state = &gs_cc_state;
    struct gs_cc_record *record = allocate(free_blocks, site->size, STEP);
    record->site = site;
    record->caller = NULL;
    if (state->last)
        state->last->caller = record;
    else
        state->first = record;
    state->last = record;
    return record;
}

void gs_cc_record_free(struct gs_cc_record *record)
{
    release(free_blocks, record, record->site->size);
}

void gs_cc_save(const char *slots, const struct gs_cc_place *places, uint64_t index)
{
    const struct gs_cc_place *place = &places[index];
    char *record = (char *)gs_cc_record(place->site);
    for (uint64_t i = 0; i < place->count; i++)
        memcpy(record + place->copies[i].record, slots + place->copies[i].slot,
               place->copies[i].size);
}

uint64_t gs_cc_restore(char *slots, const struct gs_cc_place *places)
{
    struct gs_cc_record *record = gs_cc_state.resuming;
    uint64_t index = record->site->index;
    const struct gs_cc_place *place = &places[index];
    gs_cc_state.resuming = NULL;
    for (uint64_t i = 0; i < place->count; i++)
        memcpy(slots + place->copies[i].slot, (char *)record + place->copies[i].record,
               place->copies[i].size);
    gs_cc_record_free(record);
    return index;
}

/* Of handlers that the kernel calls: they may have interrupted the allocator. A box is freed before
 * those that are older, unless the handler has jumped away. */
static _Thread_local _Alignas(ALIGNMENT) char handlers_boxes[HANDLERS_BOXES];

static void *box_of_handler(uint64_t size)
{
    uint64_t rounded = (size + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
    if (rounded > HANDLERS_BOXES - gs_cc_handling.boxes)
        return NULL;
    void *box = handlers_boxes + gs_cc_handling.boxes;
    gs_cc_handling.boxes += (uint32_t)rounded;
    return box;
}

void *gs_cc_box(uint64_t size)
{
    void *box = NULL;
    if (__builtin_expect(gs_cc_handling.has_mask, false) && !gs_cc_state.self)
        box = box_of_handler(size);
    return box ? box : gs_cc_allocate_aligned(size);
}

void gs_cc_box_free(void *box, uint64_t size)
{
    uintptr_t offset = (uintptr_t)box - (uintptr_t)handlers_boxes;
    if (__builtin_expect(offset < HANDLERS_BOXES, false))
        gs_cc_handling.boxes = (uint32_t)offset;
    else
        gs_cc_release_aligned(box, size);
}
