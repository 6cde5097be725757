/* The part of a whole that is one worker's. */
#ifndef GS_LOAD_SHARE_H
#define GS_LOAD_SHARE_H

#include <stddef.h>
#include <stdint.h>

/* The index-th of count. */
struct load_share {
    size_t index, count;
};

/* All shares add up to the whole, and differ by one at most. */
static inline uint64_t gs_load_share_of(uint64_t whole, struct load_share share)
{
    return whole / share.count + (share.index < whole % share.count);
}

#endif
