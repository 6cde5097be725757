/* The benefit of a queue of the program's own in front of its threads, which chooses the next job:
 * PROGRAM response|places first|shortest|cohort prints one number.
 *
 *     response: jobs with very different amounts of work start together; the mean time until one
 *               finishes, in pieces of work of any job
 *     places:   jobs that use the data of many places; nanoseconds per job */
#include "bench/threads/measure.h"

#include <gossamer/sync.h>
#include <gossamer/thread.h>

#define THREADS 16
#define JOBS 2000
#define SMALL 2
#define LARGE 200 /* in pieces of work; every tenth job is large */
#define PLACES 256
#define AT_EACH 16
#define BYTES (24 << 10)

struct job {
    struct job *next, *child;
    unsigned left; /* pieces of work */
    unsigned place;
};

/* ---- Queues ---- */

struct list {
    struct job *first, *last;
};

static void list_push(struct list *list, struct job *job)
{
    job->next = NULL;
    *(list->first ? &list->last->next : &list->first) = job;
    list->last = job;
}

static struct job *list_pop(struct list *list)
{
    struct job *job = list->first;
    if (job)
        list->first = job->next;
    return job;
}

static struct list jobs;

static void push_first(struct job *job)
{
    list_push(&jobs, job);
}

static struct job *pop_first(void)
{
    return list_pop(&jobs);
}

/* Shortest remaining work first: a pairing heap (Fredman, Sedgewick, Sleator and Tarjan, 1986). */
static struct job *root;

static struct job *merge(struct job *a, struct job *b)
{
    if (!a || !b)
        return a ? a : b;
    struct job *least = b->left < a->left ? b : a, *other = least == a ? b : a;
    other->next = least->child;
    least->child = other;
    return least;
}

static void push_shortest(struct job *job)
{
    job->child = NULL;
    root = merge(root, job);
}

static struct job *pop_shortest(void)
{
    struct job *least = root, *pairs = NULL;
    for (struct job *tree = least ? least->child : NULL, *next; tree; tree = next) {
        struct job *second = tree->next;
        next = second ? second->next : NULL;
        struct job *pair = merge(tree, second);
        pair->next = pairs;
        pairs = pair;
    }
    root = NULL;
    for (struct job *tree = pairs, *next; tree; tree = next) {
        next = tree->next;
        root = merge(root, tree);
    }
    return least;
}

/* Cohorts: the jobs of a place in a row; places in the order of their first job. */
static struct list cohorts[PLACES];
static unsigned order[PLACES], first_place, place_count;

static void push_cohort(struct job *job)
{
    if (!cohorts[job->place].first)
        order[(first_place + place_count++) % PLACES] = job->place;
    list_push(&cohorts[job->place], job);
}

static struct job *pop_cohort(void)
{
    if (!place_count)
        return NULL;
    struct list *cohort = &cohorts[order[first_place]];
    struct job *job = list_pop(cohort);
    if (!cohort->first) {
        first_place = (first_place + 1) % PLACES;
        place_count--;
    }
    return job;
}

static const struct queue {
    const char *name;
    void (*push)(struct job *job);
    struct job *(*pop)(void);
} queues[] = {{"first", push_first, pop_first},
              {"shortest", push_shortest, pop_shortest},
              {"cohort", push_cohort, pop_cohort}};

/* ---- Threads ---- */

static const struct queue *queue;
static struct gs_semaphore ready; /* the jobs in the queue; at the end, one more for each thread */
static struct gs_wait_group unfinished;
static double pieces, responses;
static char data[PLACES][BYTES];

static void submit(struct job *job)
{
    queue->push(job);
    gs_semaphore_post(&ready);
}

static void execute(struct job *job)
{
    for (size_t i = 0; !job->left && i < BYTES; i += 64)
        data[job->place][i]++;
    if (job->left) {
        pieces++;
        gs_thread_yield();
    }
    if (job->left > 1) {
        job->left--;
        submit(job);
        return;
    }
    responses += pieces;
    gs_wait_group_done(&unfinished);
}

static void *work(void *unused)
{
    struct job *job;
    while (must(!gs_semaphore_wait(&ready, GS_NEVER)), (job = queue->pop()))
        execute(job);
    return unused;
}

static void measure_response(void)
{
    static struct job all[JOBS];
    gs_wait_group_add(&unfinished, JOBS);
    for (size_t i = 0; i < JOBS; i++) {
        all[i].left = i % 10 ? SMALL : LARGE;
        submit(&all[i]);
    }
    must(!gs_wait_group_wait(&unfinished, GS_NEVER));
    best_ns = responses / JOBS;
}

static void measure_places(void)
{
    static struct job all[PLACES * AT_EACH];
    for (int round = 0; round < ROUNDS; round++) {
        gs_wait_group_add(&unfinished, (uint64_t)PLACES * AT_EACH);
        begin();
        for (unsigned i = 0; i < PLACES * AT_EACH; i++) {
            all[i].place = i % PLACES;
            submit(&all[i]);
        }
        must(!gs_wait_group_wait(&unfinished, GS_NEVER));
        end((double)PLACES * AT_EACH);
    }
}

static void *run(void *argument)
{
    for (int i = 0; i < THREADS; i++)
        must(!gs_thread_spawn(NULL, work, NULL, NULL));
    if (!strcmp(argument, "places"))
        measure_places();
    else
        measure_response();
    for (int i = 0; i < THREADS; i++)
        gs_semaphore_post(&ready);
    return NULL;
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 2 && i < sizeof queues / sizeof *queues; i++) {
        if (strcmp(argv[2], queues[i].name))
            continue;
        queue = &queues[i];
        must(!gs_threads_run(NULL, run, argv[1], NULL));
        printf("%.3f\n", best_ns);
        return 0;
    }
    return 2;
}
