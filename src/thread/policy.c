/* Policies beside the built-in one. Neither allocates: an item brings the links that its queue is made of. */
#include <gossamer/thread.h>

/* ---- Shortest remaining work first ----
 * A pairing heap (Fredman, Sedgewick, Sleator and Tarjan, 1986) by key: the children of an item hang on its `child`, and are linked
 * by `next`. The key is the number of pushes so far plus what the work is worth in pushes: so often, and no more, can an item be
 * overtaken by those that come later. What a thread gains by some progress has to outweigh that it comes anew, or threads with
 * much work would take turns instead of being finished one by one: so a doubling is worth that much. */

#define DOUBLING_BITS 14u                           /* a doubling is worth 16,384 pushes */
#define CLASS_WORTH (UINT64_C(64) << DOUBLING_BITS) /* more than any work */

struct shortest {
    struct gs_policy_item *root;
    uint64_t pushes;
};

/* By ratio rather than by difference, whatever the unit. */
static uint64_t worth(uint64_t work)
{
    if (!work)
        return 0;
    unsigned zeros = (unsigned)__builtin_clzll(work);
    uint64_t rest = work << zeros << 1; /* without its highest bit */
    return ((uint64_t)(63 - zeros) << DOUBLING_BITS) + (rest >> (64 - DOUBLING_BITS));
}

static uint64_t class_of(const struct gs_policy_item *item)
{
    static const uint64_t classes[] = {
        [GS_PRIORITY_HIGH] = 0, [GS_PRIORITY_NORMAL] = 1, [GS_PRIORITY_LOW] = 2};
    return classes[item->priority];
}

/* Of two trees one. Neither may be NULL. */
static struct gs_policy_item *meld(struct gs_policy_item *a, struct gs_policy_item *b)
{
    if (b->key < a->key) {
        struct gs_policy_item *other = a;
        a = b;
        b = other;
    }
    b->next = a->child;
    a->child = b;
    return a;
}

/* Two by two, and then what came of that, last first. */
static struct gs_policy_item *meld_all(struct gs_policy_item *trees)
{
    struct gs_policy_item *pairs = NULL, *root = NULL;
    while (trees) {
        struct gs_policy_item *tree = trees, *second = tree->next;
        trees = second ? second->next : NULL;
        if (second)
            tree = meld(tree, second);
        tree->next = pairs;
        pairs = tree;
    }
    while (pairs) {
        struct gs_policy_item *tree = pairs;
        pairs = tree->next;
        root = root ? meld(root, tree) : tree;
    }
    return root;
}

static void shortest_push(void *queue, struct gs_policy_item *item)
{
    struct shortest *shortest = queue;
    item->key = shortest->pushes++ + worth(item->remaining) + class_of(item) * CLASS_WORTH;
    item->child = NULL;
    shortest->root = shortest->root ? meld(shortest->root, item) : item;
}

static struct gs_policy_item *shortest_pop(void *queue)
{
    struct shortest *shortest = queue;
    struct gs_policy_item *item = shortest->root;
    if (item)
        shortest->root = meld_all(item->child);
    return item;
}

const struct gs_policy gs_policy_shortest = {
    .name = "shortest",
    .size = sizeof(struct shortest),
    .push = shortest_push,
    .pop = shortest_pop,
};

/* ---- Cohorts ----
 * One list, in which those of a place stand together: who is ready joins the cohort of its place, if there is one, and otherwise
 * begins one at the end. A table says who is the last of a place's cohort; places that share an entry displace each other, and then
 * their cohorts are shorter. The key is an item's number in its cohort, which takes COHORT_MOST: so a place whose threads keep
 * coming back holds up the others only so long. */

#define TABLE_SIZE 1024u
#define COHORT_MOST 256u

struct cohorts {
    struct gs_policy_item *first, *last;
    struct gs_policy_item *last_of[TABLE_SIZE];
};

static struct gs_policy_item **entry_of(struct cohorts *cohorts, const void *place)
{
    uint64_t mixed = (uint64_t)(uintptr_t)place * UINT64_C(0x9e3779b97f4a7c15);
    return &cohorts->last_of[mixed >> 54];
}
_Static_assert(TABLE_SIZE == 1u << (64 - 54), "as entry_of shifts");

static void cohort_push(void *queue, struct gs_policy_item *item)
{
    struct cohorts *cohorts = queue;
    struct gs_policy_item **entry = entry_of(cohorts, item->place), *before = *entry;
    bool joins = before && before->place == item->place && before->key < COHORT_MOST;
    item->key = joins ? before->key + 1 : 1;
    if (!joins)
        before = cohorts->last;
    *entry = item;
    struct gs_policy_item **link = before ? &before->next : &cohorts->first;
    item->next = *link;
    *link = item;
    if (!item->next)
        cohorts->last = item;
}

static struct gs_policy_item *cohort_pop(void *queue)
{
    struct cohorts *cohorts = queue;
    struct gs_policy_item *item = cohorts->first;
    if (!item)
        return NULL;
    cohorts->first = item->next;
    if (!cohorts->first)
        cohorts->last = NULL;
    struct gs_policy_item **entry = entry_of(cohorts, item->place);
    if (*entry == item)
        *entry = NULL;
    return item;
}

const struct gs_policy gs_policy_cohort = {
    .name = "cohort",
    .size = sizeof(struct cohorts),
    .push = cohort_push,
    .pop = cohort_pop,
};
