/* Threads that wait in the same place are one group of a dump: a program with ten thousand threads
 * has a few places where they wait. */
#include "thread/report/dump.h"

enum { GROUPS_MAX = 256, SAMPLES_MAX = 4 };

struct group {
    uint64_t hash; /* of the calls */
    unsigned count;
    struct dumped shortest, longest; /* by how long they have waited */
    size_t used;                     /* the largest stack */
    struct program_calls calls;
    struct dumped samples[SAMPLES_MAX];
};

static struct group groups[GROUPS_MAX];
static unsigned group_count;
static unsigned thread_count, ungrouped; /* ungrouped: there were too many groups */

void gs_dump_clear_groups(void)
{
    group_count = thread_count = ungrouped = 0;
}

/* ---- Collecting ---- */

static uint64_t hash_of(const struct program_calls *calls)
{
    uint64_t hash = calls->count + (uint64_t)calls->omitted * 64;
    for (unsigned i = 0; i < calls->count; i++)
        hash = (hash ^ (uintptr_t)calls->calls[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return hash;
}

/* The innermost call is not compared: the kind of the wait tells as much, and a call that waits
 * leaves a frame or not, which depends on the path in it. */
static bool is_equal(const struct program_calls *a, const struct program_calls *b)
{
    return a->count == b->count && a->omitted == b->omitted && a->omitted_at == b->omitted_at &&
           !memcmp(a->calls, b->calls, a->count * sizeof a->calls[0]);
}

/* Returns the group, which is empty if it is new; NULL: there are too many. */
static struct group *find_group(const struct dumped *dumped, const struct program_calls *calls)
{
    uint64_t hash = hash_of(calls);
    for (unsigned i = 0; i < group_count; i++) {
        const struct dumped *first = &groups[i].samples[0];
        if (groups[i].hash == hash && first->state == dumped->state &&
            first->kind == dumped->kind && is_equal(&groups[i].calls, calls))
            return &groups[i];
    }
    if (group_count == GROUPS_MAX)
        return NULL;
    struct group *group = &groups[group_count++];
    *group = (struct group){.hash = hash, .shortest = *dumped, .longest = *dumped, .calls = *calls};
    return group;
}

void gs_dump_add(const struct dumped *dumped, const struct program_calls *calls)
{
    struct group *group = find_group(dumped, calls);
    thread_count++;
    if (!group) {
        ungrouped++;
        return;
    }
    if (group->count < SAMPLES_MAX)
        group->samples[group->count] = *dumped;
    group->count++;
    if (!group->calls.innermost)
        group->calls.innermost = calls->innermost;
    if (dumped->waited_ns < group->shortest.waited_ns)
        group->shortest = *dumped;
    if (dumped->waited_ns > group->longest.waited_ns)
        group->longest = *dumped;
    if (dumped->used > group->used)
        group->used = dumped->used;
}

/* ---- Writing ---- */

static double ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

/* Print where the thread waits, after the kind of its wait. */
static void print_object(int fd, const struct dumped *dumped)
{
    char object[160] = "";
    if (dumped->kind)
        gs_dump_object(dumped->kind, dumped->object, object, sizeof object);
    gs_report_printf(fd, "%s", object);
}

static void print_state(int fd, const struct group *group)
{
    static const char *const states[] = {
        [DUMPED_CREATED] = "being created",
        [DUMPED_NEW] = "about to start",
        [DUMPED_READY] = "ready",
    };
    const struct dumped *first = &group->samples[0];
    bool is_one = group->count == 1;
    if (first->state != DUMPED_WAITING)
        gs_report_printf(fd, "%s %s", is_one ? "is" : "are", states[first->state]);
    else if (is_one)
        gs_report_printf(fd, "has waited %.3f ms for %s", ms(first->waited_ns), first->kind->name);
    else
        gs_report_printf(fd, "have waited %.3f to %.3f ms for %s", ms(group->shortest.waited_ns),
                         ms(group->longest.waited_ns), first->kind->name);
    if (is_one)
        print_object(fd, first);
    if (group->used)
        gs_report_printf(fd, ", %s%zu bytes of stack", is_one ? "" : "at most ", group->used);
    gs_report_printf(fd, "\n");
}

static void print_sample(int fd, const struct dumped *dumped, const char *label)
{
    gs_report_printf(fd, "  thread %p \"%s\"", (const void *)dumped->thread, dumped->name);
    print_object(fd, dumped);
    if (dumped->kind)
        gs_report_printf(fd, ", %.3f ms%s", ms(dumped->waited_ns), label);
    gs_report_printf(fd, "\n");
}

static void print_samples(int fd, const struct group *group)
{
    unsigned count = group->count < SAMPLES_MAX ? group->count : SAMPLES_MAX, shown = count;
    bool has_longest = false;
    for (unsigned i = 0; i < count; i++) {
        has_longest |= group->samples[i].thread == group->longest.thread;
        print_sample(fd, &group->samples[i], "");
    }
    if (!has_longest && group->longest.kind) {
        print_sample(fd, &group->longest, ", the longest");
        shown++;
    }
    if (group->count > shown)
        gs_report_printf(fd, "  and %u more\n", group->count - shown);
}

static void print_group(int fd, const struct group *group)
{
    const struct dumped *first = &group->samples[0];
    if (group->count == 1)
        gs_report_printf(fd, "thread %p \"%s\": ", (const void *)first->thread, first->name);
    else
        gs_report_printf(fd, "%u threads: ", group->count);
    print_state(fd, group);
    if (group->count > 1)
        print_samples(fd, group);
    gs_program_calls_report(fd, &group->calls);
}

/* Returns the largest group that was not printed, the first of several; NULL: none. */
static struct group *largest_group(void)
{
    struct group *largest = NULL;
    for (unsigned i = 0; i < group_count; i++)
        if (groups[i].count > (largest ? largest->count : 0))
            largest = &groups[i];
    return largest;
}

void gs_dump_print_groups(int fd)
{
    struct group *group;
    if (thread_count > group_count)
        gs_report_printf(fd, "%u threads do not run, in %u group%s\n", thread_count, group_count,
                         group_count == 1 ? "" : "s");
    while ((group = largest_group())) {
        print_group(fd, group);
        group->count = 0;
    }
    if (ungrouped)
        gs_report_printf(fd, "%u threads more are in other groups\n", ungrouped);
}
