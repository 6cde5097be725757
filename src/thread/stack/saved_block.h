/* Memory for what evicted threads have on their stacks (shared_stack.h): blocks of some hundred
 * bytes. Chunks of addresses of the reservation (stacks.h) have blocks of one size each, and belong
 * to a worker, which alone uses them. They are never unmapped: a report may still read a block that
 * was just freed, and then finds something else there. Chunks without a block in use are given back
 * when they were not needed for a while. */
#ifndef GS_THREAD_SAVED_BLOCK_H
#define GS_THREAD_SAVED_BLOCK_H

#include <gossamer/list.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sizes are multiples of the unit. Those above the limit take a chunk each. */
#define SAVED_UNIT ((size_t)16)
#define SAVED_SIZE_MAX ((size_t)4096)
#define SAVED_CHUNK ((size_t)64 << 10)
#define SAVED_SIZES (SAVED_SIZE_MAX / SAVED_UNIT + 1)

/* The chunks of a worker. */
struct saved_blocks {
    struct gs_list with_room[SAVED_SIZES]; /* by size; 0: for large ones, always empty */
    struct gs_list empty;                  /* chunks that can have blocks of any size */
    size_t chunks, empty_count;
    size_t empty_low; /* the least empty_count since the last trim */
};

/* The reservation has `size` bytes for chunks at `base`, which is aligned to SAVED_CHUNK. Returns 0
 * or -ENOMEM. */
int gs_saved_blocks_init(char *base, size_t size);

void gs_saved_blocks_init_worker(struct saved_blocks *blocks);

/* Returns NULL if there is no memory. */
void *gs_saved_block_new(struct saved_blocks *blocks, size_t size);
void gs_saved_block_free(struct saved_blocks *blocks, void *block);

/* Give back empty chunks that were not needed since the last call; is_all: all empty ones. */
void gs_saved_blocks_trim(struct saved_blocks *blocks, bool is_all);

/* No block is in use any more, of any worker. */
void gs_saved_blocks_reclaim(void);

/* Whether this memory can be read: it is in a chunk, whatever that is used for. */
bool gs_saved_block_is_readable(const char *at, size_t size);

#endif
