#include "base/agenda.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* The heap holds this many, or the following share of all if that is more. Each refilling looks at
 * all that is beyond the horizon and takes half a heap: a larger share is looked at less often, a
 * smaller heap is faster. */
#define NEAR_LEAST 1024
#define NEAR_SHARE 8

/* When many are inserted into an empty agenda, the heap spills at this size for the first times, while the places that it has to
 * tell those of whom it lets go are still in the cache. */
#define SPILLED_AT_FIRST 4096

/* When more than so many in a row, and than this share of the heap, were moved, all of it is put right. */
#define LATE_LEAST 16
#define LATE_SHARE 16

#define SAMPLES 127
/* How many nodes ahead the memory of their owners is fetched. */
#define AHEAD 256

static int reserve_far(struct gs_agenda *agenda, uint32_t count)
{
    uint64_t capacity = agenda->far_capacity ? agenda->far_capacity : NEAR_LEAST;
    while (capacity < count)
        capacity *= 2;
    if (capacity >= GS_AGENDA_FAR)
        return -ENOMEM;
    struct gs_heap_node *far = realloc(agenda->far, (size_t)capacity * sizeof *far);
    if (!far)
        return -ENOMEM;
    agenda->far = far;
    agenda->far_capacity = (uint32_t)capacity;
    return 0;
}

int gs_agenda_grow(struct gs_agenda *agenda, uint32_t count)
{
    uint32_t share = count / NEAR_SHARE > NEAR_LEAST ? count / NEAR_SHARE : NEAR_LEAST;
    int err = gs_heap_reserve(&agenda->near, count < share ? count : share);
    if (!err && count > agenda->near.capacity)
        err = reserve_far(agenda, count);
    if (!err)
        agenda->reserved = agenda->far ? agenda->far_capacity : agenda->near.capacity;
    return err;
}

void gs_agenda_done(struct gs_agenda *agenda)
{
    gs_heap_done(&agenda->near);
    free(agenda->far);
    *agenda = (struct gs_agenda){.key_of = agenda->key_of};
}

/* The last takes its place. */
static void take_far(struct gs_agenda *agenda, uint32_t index)
{
    struct gs_heap_node last = agenda->far[--agenda->far_count];
    if (index == agenda->far_count)
        return;
    agenda->far[index] = last;
    *last.place = GS_AGENDA_FAR | index;
}

static void sort(uint64_t *keys, unsigned count)
{
    for (unsigned gap = count / 2; gap; gap /= 2)
        for (unsigned i = gap; i < count; i++) {
            uint64_t key = keys[i];
            unsigned j = i;
            for (; j >= gap && keys[j - gap] > key; j -= gap)
                keys[j] = keys[j - gap];
            keys[j] = key;
        }
}

/* One of the keys, such that about `wanted` of the `count` are not larger. */
static uint64_t quantile(struct gs_agenda *agenda, const struct gs_heap_node *nodes, uint32_t count,
                         uint32_t wanted)
{
    uint64_t keys[SAMPLES];
    for (unsigned i = 0; i < SAMPLES; i++) {
        agenda->seed = agenda->seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        keys[i] = nodes[(agenda->seed >> 32) * count >> 32].key;
    }
    sort(keys, SAMPLES);
    return keys[(uint64_t)wanted * SAMPLES / count];
}

/* The heap is full: keep the nearest quarter of it. Its order is lost. */
static void spill(struct gs_agenda *agenda)
{
    struct gs_heap *near = &agenda->near;
    struct gs_heap_node *nodes = gs_heap_first(near);
    uint32_t count = near->count, quarter = count / 4, smaller = 0;
    uint64_t pivot = quantile(agenda, nodes, count, quarter);
    for (uint32_t i = 0; i < count; i++)
        smaller += nodes[i].key < pivot;
    uint32_t equals = smaller < quarter ? quarter - smaller : 0;
    near->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool is_kept = nodes[i].key < pivot || (nodes[i].key == pivot && equals);
        equals -= is_kept && nodes[i].key == pivot;
        if (is_kept)
            nodes[near->count++] = nodes[i];
        else
            gs_agenda_put_far(agenda, nodes[i]);
    }
    agenda->horizon = pivot;
}

/* Have all that is not later than `limit` come into the heap, which loses its order. A sample may
 * deceive: if too much comes, the heap spills, and the limit is nearer for the rest. */
static void bring_near(struct gs_agenda *agenda, uint64_t limit)
{
    struct gs_heap *near = &agenda->near;
    struct gs_heap_node *nodes = gs_heap_first(near);
    agenda->horizon = limit;
    for (uint32_t i = 0; i < agenda->far_count;) {
        struct gs_heap_node node = agenda->far[i];
        if (i + AHEAD < agenda->far_count && agenda->far[i + AHEAD].key <= limit)
            __builtin_prefetch(agenda->far[i + AHEAD].place, 1);
        if (node.key > limit) {
            i++;
            continue;
        }
        node.key = agenda->key_of(node.place);
        if (node.key > limit) {
            agenda->far[i++].key = node.key;
            continue;
        }
        take_far(agenda, i);
        nodes[near->count++] = node;
        if (near->count < near->capacity)
            continue;
        spill(agenda);
        if (!agenda->horizon)
            break;
        limit = agenda->horizon - 1;
    }
}

/* What is in the array comes into the heap, if that is empty; nothing, if what would have come was
 * moved. */
static void refill(struct gs_agenda *agenda)
{
    uint32_t wanted = agenda->near.capacity / 2;
    if (agenda->near.count || !agenda->far_count)
        return;
    agenda->spilled_at = agenda->near.capacity;
    bring_near(agenda, wanted < agenda->far_count
                           ? quantile(agenda, agenda->far, agenda->far_count, wanted)
                           : UINT64_MAX);
    gs_heap_order(&agenda->near);
}

void gs_agenda_insert_near(struct gs_agenda *agenda, uint64_t key, uint32_t *place)
{
    uint32_t capacity = agenda->near.capacity;
    if (!gs_agenda_count(agenda))
        agenda->spilled_at = capacity < SPILLED_AT_FIRST ? capacity : SPILLED_AT_FIRST;
    if (agenda->near.count == capacity ||
        (agenda->near.count == agenda->spilled_at && agenda->far)) {
        spill(agenda);
        gs_heap_order(&agenda->near);
    }
    if (key < agenda->horizon || !agenda->far_count)
        gs_heap_insert(&agenda->near, key, place);
    else
        gs_agenda_put_far(agenda, (struct gs_heap_node){key, place});
}

void gs_agenda_remove(struct gs_agenda *agenda, uint32_t *place)
{
    if (*place & GS_AGENDA_FAR)
        take_far(agenda, *place & ~GS_AGENDA_FAR);
    else
        gs_heap_remove(&agenda->near, place);
    *place = 0;
}

void gs_agenda_hasten(struct gs_agenda *agenda, uint32_t *place, uint64_t key)
{
    if (!(*place & GS_AGENDA_FAR)) {
        gs_heap_move(&agenda->near, place, key);
    } else if (key >= agenda->horizon) {
        agenda->far[*place & ~GS_AGENDA_FAR].key = key;
    } else {
        take_far(agenda, *place & ~GS_AGENDA_FAR);
        gs_agenda_insert(agenda, key, place);
    }
}

/* Put the top right, if its own key is later by now. */
static bool is_top_late(struct gs_agenda *agenda)
{
    struct gs_heap_node top = *gs_heap_first(&agenda->near);
    uint64_t key = agenda->key_of(top.place);
    if (key == top.key)
        return false;
    if (key < agenda->horizon || !agenda->far_count) {
        gs_heap_move(&agenda->near, top.place, key);
    } else {
        gs_heap_remove(&agenda->near, top.place);
        gs_agenda_put_far(agenda, (struct gs_heap_node){key, top.place});
    }
    return true;
}

/* Put all of the heap right. */
static void put_right(struct gs_agenda *agenda)
{
    struct gs_heap *near = &agenda->near;
    struct gs_heap_node *nodes = gs_heap_first(near);
    uint32_t count = near->count;
    near->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct gs_heap_node node = {agenda->key_of(nodes[i].place), nodes[i].place};
        if (node.key < agenda->horizon || !agenda->far_count)
            nodes[near->count++] = node;
        else
            gs_agenda_put_far(agenda, node);
    }
    gs_heap_order(near);
}

/* Until the top's key is its own or later than `limit`, or NEAR_LEAST were put right: then it returns
 * false. If so many are late that the others may be expected to be, one pass over all of them is
 * cheaper than one after the other. */
static bool put_top_right(struct gs_agenda *agenda, uint64_t limit)
{
    const struct gs_heap *near = &agenda->near;
    for (uint32_t i = 0; near->count && gs_heap_first(near)->key <= limit; i++) {
        if (i == NEAR_LEAST)
            return false;
        if (!is_top_late(agenda))
            break;
        if (i >= LATE_LEAST && i > near->count / LATE_SHARE) {
            put_right(agenda);
            break;
        }
    }
    return true;
}

uint64_t gs_agenda_next(struct gs_agenda *agenda)
{
    refill(agenda);
    (void)put_top_right(agenda, UINT64_MAX);
    if (agenda->near.count)
        return gs_heap_first(&agenda->near)->key;
    return agenda->far_count ? agenda->horizon : UINT64_MAX;
}

uint32_t *gs_agenda_due(struct gs_agenda *agenda, uint64_t now)
{
    const struct gs_heap *near = &agenda->near;
    if (agenda->horizon <= now)
        refill(agenda);
    if (!put_top_right(agenda, now) || !near->count || gs_heap_first(near)->key > now)
        return NULL;
    return gs_heap_first(near)->place;
}

#ifdef NDEBUG

void gs_agenda_check(const struct gs_agenda *agenda)
{
    (void)agenda;
}

#else

/* A node is not beyond what its owner says, and on its side of the horizon. */
static bool is_right(const struct gs_agenda *agenda, struct gs_heap_node node, bool is_far)
{
    bool is_on_its_side = is_far ? node.key >= agenda->horizon : node.key <= agenda->horizon;
    return node.key <= agenda->key_of(node.place) && (is_on_its_side || !agenda->far_count);
}

void gs_agenda_check(const struct gs_agenda *agenda)
{
    gs_heap_check(&agenda->near);
    for (uint32_t i = 0; i < agenda->near.count; i++)
        assert(is_right(agenda, gs_heap_first(&agenda->near)[i], false) && "3, 4");
    for (uint32_t i = 0; i < agenda->far_count; i++) {
        assert(*agenda->far[i].place == (GS_AGENDA_FAR | i) && "2");
        assert(is_right(agenda, agenda->far[i], true) && "3, 4");
    }
    assert(agenda->far_count <= agenda->far_capacity && "5");
}

#endif
