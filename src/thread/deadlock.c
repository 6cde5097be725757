/* Deadlock: no thread can continue. Each thread waits for at most one thread that can be
 * identified, so the threads form chains, each of which ends or leads into one cycle. */
#include "thread/backtrace.h"
#include "thread/stacks.h"

/* The number of chains that were followed, in all reports. */
static unsigned followed;

/* The thread that this one waits for; NULL: none that can be identified. */
static struct gs_thread *blocker_of(const struct gs_thread *thread)
{
    if (!thread->is_live || thread->is_done || !thread_is_waiting(thread))
        return NULL;
    return gs_blocker_in_wait(thread->wait_kind, thread->wait_object, false);
}

static bool has_ended(const struct gs_thread *thread)
{
    return !thread->is_live || thread->is_done;
}

static void print_wait(int fd, const struct gs_thread *thread, const struct gs_thread *blocker)
{
    gs_report_printf(fd, " \"%s\" waits for %s of \"%s\"", thread->name, thread->wait_kind->name,
                     blocker->name);
}

static void print_cycle(int fd, const struct gs_thread *first)
{
    const struct gs_thread *at = first;
    gs_report_printf(fd, "cycle:");
    do {
        const struct gs_thread *next = blocker_of(at);
        print_wait(fd, at, next);
        gs_report_printf(fd, next == first ? "\n" : ",");
        at = next;
    } while (at != first);
}

/* Follow the chain that starts with the thread, until it reaches a thread of an earlier chain or of
 * itself. */
static void follow_chain(int fd, struct gs_thread *thread, unsigned earlier)
{
    unsigned number = ++followed;
    while (thread->chain <= earlier) {
        struct gs_thread *blocker = blocker_of(thread);
        thread->chain = number;
        if (!blocker)
            return;
        if (has_ended(blocker)) {
            gs_report_printf(fd, "stranded:");
            print_wait(fd, thread, blocker);
            gs_report_printf(fd, ", which has ended\n");
            return;
        }
        thread = blocker;
    }
    if (thread->chain == number)
        print_cycle(fd, thread);
}

void gs_report_deadlock(void)
{
    int fd = gs_report_fd();
    unsigned earlier = followed;
    struct gs_thread *thread;
    gs_report_printf(fd, "deadlock: no thread can continue\n");
    for (int class = 0; class < STACK_CLASSES; class ++)
        for (size_t i = 0; (thread = gs_stacks_at(class, i)); i++)
            if (!has_ended(thread))
                follow_chain(fd, thread, earlier);
    GS_LIST_FOREACH (link, &gs_runtime.user_stack_threads)
        follow_chain(fd, gs_container_of(link, struct gs_thread, link), earlier);
    if (fd >= 0)
        gs_threads_dump(fd);
}
