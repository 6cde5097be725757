/* Policies beside the built-in one. */
#include <gossamer/thread.h>

/* ---- Shortest remaining work first: a list by key, which is the work plus the time of arrival, in pushes: so that those with much
 * work are overtaken only so often. ---- */

struct shortest {
    struct gs_policy_item *first;
    uint64_t pushes;
};

static void shortest_push(void *queue, struct gs_policy_item *item)
{
    struct shortest *shortest = queue;
    struct gs_policy_item **link = &shortest->first;
    item->key = item->remaining + shortest->pushes++;
    while (*link && (*link)->key <= item->key)
        link = &(*link)->next;
    item->next = *link;
    *link = item;
}

static struct gs_policy_item *shortest_pop(void *queue)
{
    struct shortest *shortest = queue;
    struct gs_policy_item *item = shortest->first;
    if (item)
        shortest->first = item->next;
    return item;
}

const struct gs_policy gs_policy_shortest = {
    .name = "shortest",
    .size = sizeof(struct shortest),
    .push = shortest_push,
    .pop = shortest_pop,
};

/* ---- Cohorts: one queue for each place, run until it is empty or has had its turn; the queues in a ring ---- */

#define PLACES 64u
#define TURN 256u

struct place {
    struct gs_policy_item *first, *last;
};
struct cohort {
    struct place places[PLACES];
    unsigned current, left;
    uint64_t count;
};

static void cohort_push(void *queue, struct gs_policy_item *item)
{
    struct cohort *cohort = queue;
    struct place *place = &cohort->places[((uintptr_t)item->place >> 4) % PLACES];
    item->next = NULL;
    *(place->first ? &place->last->next : &place->first) = item;
    place->last = item;
    cohort->count++;
}

static struct gs_policy_item *cohort_pop(void *queue)
{
    struct cohort *cohort = queue;
    if (!cohort->count)
        return NULL;
    while (!cohort->left || !cohort->places[cohort->current].first) {
        cohort->current = (cohort->current + 1) % PLACES;
        cohort->left = TURN;
    }
    struct place *place = &cohort->places[cohort->current];
    struct gs_policy_item *item = place->first;
    place->first = item->next;
    cohort->count--;
    cohort->left--;
    return item;
}

const struct gs_policy gs_policy_cohort = {
    .name = "cohort",
    .size = sizeof(struct cohort),
    .push = cohort_push,
    .pop = cohort_pop,
};
