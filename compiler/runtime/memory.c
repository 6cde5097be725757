#include "compiler/runtime/memory.h"
#include "compiler/runtime/abi.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define STEP 16u
#define CLASSES 32u
#define SLAB_SIZE ((size_t)64 << 10)

struct block {
    struct block *next;
};

static _Thread_local struct block *free_blocks[CLASSES] __attribute__((tls_model("initial-exec")));
static _Thread_local char *slab, *slab_end;

static _Noreturn void fail(void)
{
    fputs("gossamer cc: no memory for a thread\n", stderr);
    abort();
}

/* Blocks of all sizes are cut from the same slab. */
static void *cut(size_t size)
{
    if ((size_t)(slab_end - slab) < size) {
        slab = aligned_alloc(STEP, SLAB_SIZE);
        if (!slab)
            fail();
        slab_end = slab + SLAB_SIZE;
    }
    void *block = slab;
    slab += size;
    return block;
}

void *gs_cc_allocate(size_t size)
{
    size_t class = (size + STEP - 1) / STEP;
    if (class >= CLASSES) {
        void *block = malloc(size);
        if (!block)
            fail();
        return block;
    }
    struct block *block = free_blocks[class];
    if (!block)
        return cut(class * STEP);
    free_blocks[class] = block->next;
    return block;
}

void gs_cc_release(void *block, size_t size)
{
    size_t class = (size + STEP - 1) / STEP;
    if (class >= CLASSES) {
        free(block);
        return;
    }
    struct block *freed = block;
    freed->next = free_blocks[class];
    free_blocks[class] = freed;
}

/* ---- Records ---- */

struct gs_cc_record *gs_cc_record(const struct gs_cc_site *site)
{
    struct gs_cc_state *state = &gs_cc_state;
    struct gs_cc_record *record = gs_cc_allocate(site->size);
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
    gs_cc_release(record, record->site->size);
}

void *gs_cc_box(uint64_t size)
{
    return gs_cc_allocate(size);
}

void gs_cc_box_free(void *box, uint64_t size)
{
    gs_cc_release(box, size);
}
