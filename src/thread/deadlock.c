/* Deadlock: no thread can go on. Each thread waits for at most one other that can be named, so they form chains, of which each
 * ends or runs into one cycle. */
#include "thread/calls.h"
#include "thread/stacks.h"

/* Numbers the chains that were followed, of all reports. */
static unsigned followed;

/* Whose stack, with the descriptor, holds the address; NULL: nobody's. */
static struct gs_thread *thread_holding(uintptr_t address)
{
    const char *at = (const char *)address;
    GS_LIST_EACH(link, &gs_runtime.caller_threads)
    {
        struct gs_thread *thread = gs_container_of(link, struct gs_thread, link);
        if (at >= thread->stack && at < (const char *)(thread + 1))
            return thread;
    }
    struct gs_thread *thread = gs_stacks_holding(at);
    return thread && at >= thread->stack && at < (const char *)(thread + 1) ? thread : NULL;
}

static struct gs_thread *holder_of_mutex(const struct gs_mutex *mutex)
{
    return thread_holding(atomic_load(&mutex->owner) & ~GS_MUTEX_WAITED);
}

/* Of several readers none is known. What the threads' addresses sum up to is one only if those who lock also unlock. */
static struct gs_thread *holder_of_rwlock(const struct gs_rwlock *rwlock)
{
    bool is_alone = rwlock->has_writer || rwlock->readers == 1;
    struct gs_thread *thread = is_alone ? thread_holding(rwlock->holders) : NULL;
    return (uintptr_t)thread == rwlock->holders ? thread : NULL;
}

/* The thread that this one waits for; NULL: none that can be named. */
static struct gs_thread *blocker_of(const struct gs_thread *thread)
{
    if (!thread->is_live || thread->is_done || !thread_waits(thread))
        return NULL;
    switch (thread->waits->holder) {
    case HOLDER_THREAD:
        return (struct gs_thread *)thread->waits_at;
    case HOLDER_MUTEX:
        return holder_of_mutex(thread->waits_at);
    case HOLDER_RWLOCK:
        return holder_of_rwlock(thread->waits_at);
    case HOLDER_ONCE:
        return ((const struct gs_once *)thread->waits_at)->runner;
    default:
        return NULL;
    }
}

static bool has_ended(const struct gs_thread *thread)
{
    return !thread->is_live || thread->is_done;
}

static void put_wait(int fd, const struct gs_thread *thread, const struct gs_thread *blocker)
{
    gs_report_put(fd, " \"%s\" waits for %s of \"%s\"", thread->name, thread->waits->what,
                  blocker->name);
}

static void put_cycle(int fd, const struct gs_thread *first)
{
    const struct gs_thread *at = first;
    gs_report_put(fd, "cycle:");
    do {
        const struct gs_thread *next = blocker_of(at);
        put_wait(fd, at, next);
        gs_report_put(fd, next == first ? "\n" : ",");
        at = next;
    } while (at != first);
}

/* Follow the chain that begins with the thread, up to where an earlier one, or it itself, has been. */
static void follow(int fd, struct gs_thread *thread, unsigned earlier)
{
    unsigned number = ++followed;
    while (thread->chain <= earlier) {
        struct gs_thread *blocker = blocker_of(thread);
        thread->chain = number;
        if (!blocker)
            return;
        if (has_ended(blocker)) {
            gs_report_put(fd, "left behind:");
            put_wait(fd, thread, blocker);
            gs_report_put(fd, ", which has ended\n");
            return;
        }
        thread = blocker;
    }
    if (thread->chain == number)
        put_cycle(fd, thread);
}

void gs_report_deadlock(void)
{
    int fd = gs_report_fd();
    unsigned earlier = followed;
    struct gs_thread *thread;
    gs_report_put(fd, "deadlock: no thread can go on\n");
    for (int class = 0; class < STACK_CLASSES; class ++)
        for (size_t i = 0; (thread = gs_stacks_at(class, i)); i++)
            if (!has_ended(thread))
                follow(fd, thread, earlier);
    GS_LIST_EACH(link, &gs_runtime.caller_threads)
    follow(fd, gs_container_of(link, struct gs_thread, link), earlier);
    if (fd >= 0)
        gs_threads_dump(fd);
}
