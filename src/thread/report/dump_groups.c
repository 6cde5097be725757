/* Threads that wait in the same place are one group of a dump: a program with ten thousand threads
 * has a few places where they wait. */
#include "thread/report/dump.h"

enum { GROUPS_MAX = 256 };

struct group {
    unsigned count;
    struct dumped longest; /* the one that has waited longest */
    struct program_calls calls;
};

static struct group groups[GROUPS_MAX];
static unsigned group_count;
static unsigned thread_count, ungrouped; /* ungrouped: there were too many groups */

void gs_dump_clear_groups(void)
{
    group_count = thread_count = ungrouped = 0;
}

/* ---- Collecting ---- */

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
    for (unsigned i = 0; i < group_count && dumped->state != DUMPED_RUNNING; i++) {
        const struct dumped *other = &groups[i].longest;
        if (other->state == dumped->state && other->kind == dumped->kind &&
            is_equal(&groups[i].calls, calls))
            return &groups[i];
    }
    if (group_count == GROUPS_MAX)
        return NULL;
    struct group *group = &groups[group_count++];
    *group = (struct group){.longest = *dumped, .calls = *calls};
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
    group->count++;
    if (!group->calls.innermost)
        group->calls.innermost = calls->innermost;
    if (dumped->waited_ns > group->longest.waited_ns)
        group->longest = *dumped;
}

/* ---- Writing ---- */

static void print_thread(int fd, const struct dumped *dumped)
{
    static const char *const states[] = {
        [DUMPED_CREATED] = "being created",
        [DUMPED_NEW] = "about to start",
        [DUMPED_READY] = "ready",
    };
    char object[160];
    gs_report_printf(fd, "thread %p \"%s\": ", (const void *)dumped->thread, dumped->name);
    if (dumped->state == DUMPED_RUNNING) {
        gs_report_printf(fd, "runs on worker %u%s%s", dumped->worker,
                         dumped->activity[0] ? ", " : "", dumped->activity);
    } else if (dumped->state != DUMPED_WAITING) {
        gs_report_printf(fd, "is %s", states[dumped->state]);
    } else {
        gs_dump_object(dumped->kind, dumped->object, object, sizeof object);
        gs_report_printf(fd, "has waited %.3f ms for %s%s", (double)dumped->waited_ns / 1e6,
                         dumped->kind->name, object);
    }
    if (dumped->used)
        gs_report_printf(fd, ", %zu bytes of stack", dumped->used);
    gs_report_printf(fd, "\n");
}

static void print_group(int fd, const struct group *group)
{
    if (group->count > 1)
        gs_report_printf(fd, "%u threads like this one%s:\n", group->count,
                         group->longest.kind ? ", which has waited longest" : "");
    print_thread(fd, &group->longest);
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

/* Returns how many threads run. */
static unsigned print_running(int fd)
{
    unsigned count = 0;
    for (unsigned i = 0; i < group_count; i++) {
        if (groups[i].longest.state != DUMPED_RUNNING)
            continue;
        print_group(fd, &groups[i]);
        groups[i].count = 0;
        count++;
    }
    return count;
}

void gs_dump_print_groups(int fd)
{
    struct group *group;
    unsigned running = print_running(fd), others = group_count - running;
    if (thread_count > group_count)
        gs_report_printf(fd, "%u threads do not run, in %u group%s\n", thread_count - running,
                         others, others == 1 ? "" : "s");
    while ((group = largest_group())) {
        print_group(fd, group);
        group->count = 0;
    }
    if (ungrouped)
        gs_report_printf(fd, "%u threads more are in other groups\n", ungrouped);
}
