/* Memory that is freed at once: what a configuration file becomes, with all of its texts.
 *
 *     struct serve_arena arena = {0};
 *     struct serve_node *node = serve_arena_take(&arena, sizeof *node);
 *     serve_arena_free(&arena);
 */
#ifndef GS_SERVE_ARENA_H
#define GS_SERVE_ARENA_H

#include <stddef.h>

struct serve_arena {
    struct serve_arena_block *blocks; /* the one in use first */
};

/* Returns zeroed memory for any type, or NULL. */
void *serve_arena_take(struct serve_arena *arena, size_t size);

/* Returns a copy of n bytes, with a zero behind them, or NULL. */
char *serve_arena_copy(struct serve_arena *arena, const char *bytes, size_t n);

/* Make room for one more item in an array of `count` items of `size` bytes, all of whose room came
 * from this function. Returns the array, which may have moved, or NULL. */
void *serve_arena_grow(struct serve_arena *arena, void *items, size_t count, size_t size);

void serve_arena_free(struct serve_arena *arena);

#endif
