/* Deadlines, the next one first, for very many of them that are mostly moved before they come.
 *
 *     struct job { uint32_t place; uint64_t deadline; ... };
 *     struct gs_agenda agenda = {.key_of = deadline_of};
 *     gs_agenda_reserve(&agenda, 1);
 *     gs_agenda_insert(&agenda, job->deadline, &job->place);
 *     while ((place = gs_agenda_due(&agenda, now)))
 *         gs_agenda_remove(&agenda, place);
 *
 * What is near stands in a heap, which is small enough for the processor's cache; what is beyond the
 * horizon stands in an array without order, and comes nearer by the thousand. Each holds its own
 * place, and has a key of its own, that only becomes later while it is in here: the key that the
 * agenda knows is a lower bound, and is put right when its turn comes. So nothing need be called
 * when a deadline is moved to later. Only gs_agenda_reserve can fail. One kernel thread at a time.
 *
 * Invariants, asserted by gs_agenda_check:
 *   1. Those of the heap.
 *   2. *place of each node beyond the horizon is that node's index, with GS_AGENDA_FAR.
 *   3. While there are nodes beyond the horizon, no key of theirs is smaller than it, and no key in
 *      the heap is larger.
 *   4. No node's key is larger than its own key.
 *   5. There is room for as many as were reserved in the heap, or else beyond the horizon.
 */
#ifndef GS_BASE_AGENDA_H
#define GS_BASE_AGENDA_H

#include "base/heap.h"

#define GS_AGENDA_FAR (1u << 31)

typedef uint64_t gs_agenda_key_fn(const uint32_t *place);

/* All zero but for key_of: empty. */
struct gs_agenda {
    gs_agenda_key_fn *key_of;
    struct gs_heap near;
    struct gs_heap_node *far;
    uint32_t far_count, far_capacity;
    uint32_t reserved;
    uint32_t spilled_at; /* nodes in the heap */
    uint64_t horizon;
    uint64_t seed;
};

void gs_agenda_done(struct gs_agenda *agenda);
void gs_agenda_remove(struct gs_agenda *agenda, uint32_t *place);

/* Give a node an earlier key than it has. */
void gs_agenda_hasten(struct gs_agenda *agenda, uint32_t *place, uint64_t key);

/* The least key; UINT64_MAX if there is none. Among more than a thousand, it may be a lower bound:
 * what was moved is put right by the thousand, and no call takes long. */
uint64_t gs_agenda_next(struct gs_agenda *agenda);

/* One with the least key, if that is not later than `now`. NULL: there is none; or gs_agenda_next
 * may still return a lower bound that is not later than `now`, and another call knows more. */
uint32_t *gs_agenda_due(struct gs_agenda *agenda, uint64_t now);

/* Assert the invariants. */
void gs_agenda_check(const struct gs_agenda *agenda);

static inline uint32_t gs_agenda_count(const struct gs_agenda *agenda)
{
    return agenda->near.count + agenda->far_count;
}

/* The places, in no order. */
static inline uint32_t *gs_agenda_at(const struct gs_agenda *agenda, uint32_t i)
{
    uint32_t near_count = agenda->near.count;
    return i < near_count ? gs_heap_first(&agenda->near)[i].place
                          : agenda->far[i - near_count].place;
}

/* The key that is known of a place; of place 0, the least there is. Something must be reserved. */
static inline uint64_t gs_agenda_key(const struct gs_agenda *agenda, uint32_t place)
{
    const struct gs_heap_node *nodes = place & GS_AGENDA_FAR ? agenda->far : agenda->near.nodes;
    return nodes[place & ~GS_AGENDA_FAR].key;
}

/* ---- What is called for each timer that starts ---- */

GS_MUST_CHECK int gs_agenda_grow(struct gs_agenda *agenda, uint32_t count);
void gs_agenda_insert_near(struct gs_agenda *agenda, uint64_t key, uint32_t *place);

/* Make room for `count` in all. Returns 0 or -ENOMEM. */
GS_MUST_CHECK static inline int gs_agenda_reserve(struct gs_agenda *agenda, uint32_t count)
{
    return count <= agenda->reserved ? 0 : gs_agenda_grow(agenda, count);
}

static inline void gs_agenda_put_far(struct gs_agenda *agenda, struct gs_heap_node node)
{
    *node.place = GS_AGENDA_FAR | agenda->far_count;
    agenda->far[agenda->far_count++] = node;
}

/* There must be room. */
static inline void gs_agenda_insert(struct gs_agenda *agenda, uint64_t key, uint32_t *place)
{
    if (key >= agenda->horizon && agenda->far_count)
        gs_agenda_put_far(agenda, (struct gs_heap_node){key, place});
    else
        gs_agenda_insert_near(agenda, key, place);
}

#endif
