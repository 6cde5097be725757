/* The optional scheduling policies. They allocate no memory: an item contains the links of the
 * queue. */
#include <gossamer/thread.h>

/* ---- Shortest remaining work first ----
 *
 * A pairing heap (Fredman, Sedgewick, Sleator and Tarjan, 1986) by key: the children of an item
 * hang on its `child`, and are linked by `next`. The key is the number of pushes so far plus the
 * cost of the work, in pushes. Within a priority, at most cost(work) later items overtake an item;
 * doubling the work adds 16,384. This is so much because the progress of a thread has to outweigh
 * that it was pushed again: otherwise threads with much work would take turns instead of being
 * finished one by one. */

#define DOUBLING_BITS 14u                          /* a doubling costs 16,384 pushes */
#define CLASS_COST (UINT64_C(64) << DOUBLING_BITS) /* more than any work */

struct shortest {
    struct gs_policy_item *root;
    uint64_t pushes;
};

/* By the logarithm, so that the unit does not matter. */
static uint64_t cost(uint64_t work)
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

/* Merge two trees. Neither may be NULL. */
static struct gs_policy_item *merge(struct gs_policy_item *a, struct gs_policy_item *b)
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

/* Merge pairs, and then the results, last first. */
static struct gs_policy_item *merge_all(struct gs_policy_item *trees)
{
    struct gs_policy_item *pairs = NULL, *root = NULL;
    while (trees) {
        struct gs_policy_item *tree = trees, *second = tree->next;
        trees = second ? second->next : NULL;
        if (second)
            tree = merge(tree, second);
        tree->next = pairs;
        pairs = tree;
    }
    while (pairs) {
        struct gs_policy_item *tree = pairs;
        pairs = tree->next;
        root = root ? merge(root, tree) : tree;
    }
    return root;
}

static void shortest_push(void *queue, struct gs_policy_item *item)
{
    struct shortest *shortest = queue;
    item->key = shortest->pushes++ + cost(item->remaining) + class_of(item) * CLASS_COST;
    item->child = NULL;
    shortest->root = shortest->root ? merge(shortest->root, item) : item;
}

static struct gs_policy_item *shortest_pop(void *queue)
{
    struct shortest *shortest = queue;
    struct gs_policy_item *item = shortest->root;
    if (item)
        shortest->root = merge_all(item->child);
    return item;
}

const struct gs_policy gs_policy_shortest = {
    .name = "shortest",
    .size = sizeof(struct shortest),
    .push = shortest_push,
    .pop = shortest_pop,
};

/* ---- Cohorts ----
 *
 * One list, in which threads that waited at the same point are adjacent: a ready thread is added to
 * the cohort of its wait point, if there is one, and otherwise starts one at the end. A table has
 * the last thread of each cohort; wait points that share an entry displace each other, which makes
 * their cohorts shorter. The key is an item's number in its cohort, at most COHORT_MAX: this limits
 * how long a wait point whose threads become ready again and again delays the others. */

#define TABLE_SIZE 1024u
#define COHORT_MAX 256u

struct cohorts {
    struct gs_policy_item *first, *last;
    struct gs_policy_item *last_of[TABLE_SIZE];
};

static struct gs_policy_item **entry_of(struct cohorts *cohorts, const void *wait_point)
{
    uint64_t mixed = (uint64_t)(uintptr_t)wait_point * UINT64_C(0x9e3779b97f4a7c15);
    return &cohorts->last_of[mixed >> 54];
}
_Static_assert(TABLE_SIZE == 1u << (64 - 54), "as entry_of shifts");

static void cohort_push(void *queue, struct gs_policy_item *item)
{
    struct cohorts *cohorts = queue;
    struct gs_policy_item **entry = entry_of(cohorts, item->wait_point), *before = *entry;
    bool joins = before && before->wait_point == item->wait_point && before->key < COHORT_MAX;
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
    struct gs_policy_item **entry = entry_of(cohorts, item->wait_point);
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
