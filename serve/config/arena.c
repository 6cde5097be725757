#include "serve/config/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_SIZE = 32 << 10 };

struct serve_arena_block {
    struct serve_arena_block *next;
    size_t used, size;
    alignas(max_align_t) char bytes[];
};

void *serve_arena_take(struct serve_arena *arena, size_t size)
{
    struct serve_arena_block *block = arena->blocks;
    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    if (!block || block->size - block->used < size) {
        size_t room = size > BLOCK_SIZE ? size : BLOCK_SIZE;
        block = calloc(1, sizeof *block + room);
        if (!block)
            return NULL;
        block->next = arena->blocks;
        block->size = room;
        arena->blocks = block;
    }
    void *taken = block->bytes + block->used;
    block->used += size;
    return taken;
}

char *serve_arena_copy(struct serve_arena *arena, const char *bytes, size_t n)
{
    char *copy = serve_arena_take(arena, n + 1);
    if (copy)
        memcpy(copy, bytes, n);
    return copy;
}

/* The room is the next power of two: an array is full when its count is one. */
void *serve_arena_grow(struct serve_arena *arena, void *items, size_t count, size_t size)
{
    size_t bytes;
    if (count & (count - 1))
        return items;
    if (__builtin_mul_overflow(count ? 2 * count : 1, size, &bytes))
        return NULL;
    void *moved = serve_arena_take(arena, bytes);
    if (moved && count)
        memcpy(moved, items, count * size);
    return moved;
}

void serve_arena_free(struct serve_arena *arena)
{
    while (arena->blocks) {
        struct serve_arena_block *block = arena->blocks;
        arena->blocks = block->next;
        free(block);
    }
}
