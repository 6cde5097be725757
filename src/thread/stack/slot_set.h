/* A set of slots of one stack class, as a bitmap: those whose memory the kernel has got back, which
 * cannot be linked in a list for that reason. The lowest number is taken first, so that the stacks
 * in use remain together. */
#ifndef GS_THREAD_SLOT_SET_H
#define GS_THREAD_SLOT_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slot_set {
    uint64_t *words;
    size_t count;
    size_t lowest; /* no word before this one has a bit */
};

/* For slots 0 to max - 1. Takes addresses, and memory for what is used. Returns 0 or -ENOMEM. */
int gs_slot_set_init(struct slot_set *set, size_t max);
void gs_slot_set_add(struct slot_set *set, size_t slot);
bool gs_slot_set_has(const struct slot_set *set, size_t slot);

/* Remove the lowest slot, and return it. The set must not be empty. */
size_t gs_slot_set_take(struct slot_set *set);

#endif
