/* Deadlock: no thread can continue; and, in the checked library, cycles among some of the threads.
 * Each thread waits for at most one thread that can be identified, so the threads form chains, each
 * of which ends or leads into one cycle. */
#include "thread/report/backtrace.h"
#include "thread/schedule/thread_extra.h"
#include "thread/stack/stacks.h"

/* ---- What a thread waits for ----
 *
 * NOT_FOR_TSAN: other threads may be changing the objects. What is read of them counts only if the
 * thread that holds one is blocked, too, so that it does not change. */

/* The thread whose stack or control block contains the address; NULL: none. */
static struct gs_thread *thread_holding(uintptr_t address)
{
    struct gs_thread *found = gs_stacks_find((const void *)address);
    /* Most addresses are those of control blocks. A stack of the program's own may be within one of
     * ours. */
    if ((uintptr_t)found == address)
        return found;
    found = found && thread_contains(found, address) ? found : NULL;
    GS_LIST_FOREACH (link, &gs_runtime.user_stack_threads) {
        struct gs_thread *thread = thread_on_user_stack(link);
        if (thread_contains(thread, address))
            found = thread;
    }
    return found;
}

/* A reader that waits for another reader is behind a writer that waits, and can continue if that
 * one gives up. The holder is unknown if there are several readers. The exclusive or of the
 * addresses is that of the holder only if each thread that locks also unlocks. */
NOT_FOR_TSAN static struct gs_thread *holder_of_rwlock(const struct gs_rwlock *rwlock,
                                                       bool must_be_writer)
{
    bool has_one_holder = rwlock->has_writer || (rwlock->readers == 1 && !must_be_writer);
    uintptr_t holders = rwlock->holders;
    struct gs_thread *thread = has_one_holder ? thread_holding(holders) : NULL;
    return (uintptr_t)thread == holders ? thread : NULL;
}

NOT_FOR_TSAN static struct gs_thread *holder_of(const struct wait_kind *kind, const void *object)
{
    switch (kind->holder) {
    case HOLDER_THREAD:
        return (struct gs_thread *)(uintptr_t)object;
    case HOLDER_MUTEX: {
        const struct gs_mutex *mutex = object;
        uintptr_t owner = atomic_load(&mutex->owner) & ~GS_MUTEX_CONTENDED;
        return owner ? thread_holding(owner) : NULL;
    }
    case HOLDER_RWLOCK:
        return holder_of_rwlock(object, false);
    case HOLDER_WRITER:
        return holder_of_rwlock(object, !gs_runtime.is_deadlocked);
    case HOLDER_ONCE:
        return thread_holding((uintptr_t)((const struct gs_once *)object)->runner);
    default:
        return NULL;
    }
}

static bool has_ended(const struct gs_thread *thread)
{
    return !thread->is_live || thread->is_done;
}

static bool is_blocked(const struct gs_thread *thread)
{
#ifdef GS_CHECKED
    if (!gs_runtime.is_deadlocked)
        return thread->is_blocked &&
               !(thread_must_cancel(thread) && thread_wait_is_cancelable(thread));
#endif
    return !has_ended(thread) && thread_is_waiting(thread);
}

/* The thread that this one waits for; NULL: none that can be identified. */
static struct gs_thread *blocker_of(const struct gs_thread *thread)
{
    return is_blocked(thread) ? holder_of(thread->wait_kind, thread->wait_object) : NULL;
}

/* ---- Reports ---- */

static void print_wait(int fd, const struct gs_thread *thread, const struct gs_thread *blocker)
{
    char label[LABEL_SIZE], other[LABEL_SIZE];
    gs_report_printf(fd, " \"%s\" waits for %s of \"%s\"", gs_report_label_of(thread, label),
                     thread->wait_kind->name, gs_report_label_of(blocker, other));
}

static void print_cycle(int fd, const struct gs_thread *first)
{
    const struct gs_thread *at = first;
    do {
        const struct gs_thread *next = blocker_of(at);
        print_wait(fd, at, next);
        gs_report_printf(fd, next == first ? "\n" : ",");
        at = next;
    } while (at != first);
}

/* Follow the chain that starts with the thread, until it reaches a thread of an earlier chain or of
 * itself. */
static void follow_chain(struct gs_thread *thread)
{
    static unsigned followed;
    unsigned number = ++followed;
    int fd = gs_report_fd();
    while (!thread->chain) {
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
    if (thread->chain != number)
        return;
    gs_report_printf(fd, "cycle:");
    print_cycle(fd, thread);
}

static void clear_chain(struct gs_thread *thread)
{
    thread->chain = 0;
}

static void visit_all(void (*fn)(struct gs_thread *thread))
{
    struct gs_thread *thread;
    for (int class = 0; class < STACK_CLASSES; class ++)
        for (size_t i = 0; (thread = gs_stacks_at(class, i)); i++)
            if (!has_ended(thread))
                fn(thread);
    GS_LIST_FOREACH (link, &gs_runtime.user_stack_threads)
        fn(thread_on_user_stack(link));
}

void gs_report_deadlock(void)
{
    int fd = gs_report_fd();
    gs_report_printf(fd, "deadlock: no thread can continue\n");
    visit_all(clear_chain);
    gs_symbols_open(true);
    visit_all(follow_chain);
    gs_symbols_close();
    if (fd >= 0)
        gs_threads_dump(fd);
}

/* ---- Some of the threads, while others run ----
 *
 * A thread is marked, under the lock, when it is about to wait without a deadline for what has a
 * holder, and until its call goes on. So a marked thread is in the wait that its control block
 * names, whose object is valid, and it gives nothing back: what it holds, it holds. If the chain
 * of a thread leads back to it, through marked threads only, none of them can continue. The last
 * one that is marked finds that. */
#ifdef GS_CHECKED

/* Longer cycles are not found. */
#define CYCLE_MAX 32u

static struct gs_spin lock; /* guards is_blocked of all threads */

/* Returns the number of threads in the cycle that begins with the thread; 0: it is in none. The
 * lock of the list keeps the stacks in it. */
static unsigned find_cycle(struct gs_thread *thread, struct gs_thread *ret_each[CYCLE_MAX])
{
    struct gs_thread *at = thread;
    unsigned count = 0;
    spin_lock_always(&gs_runtime.user_stack_lock);
    do {
        ret_each[count++] = at;
        at = blocker_of(at);
    } while (count < CYCLE_MAX && at && at != thread);
    spin_unlock_always(&gs_runtime.user_stack_lock);
    return at == thread ? count : 0;
}

/* One of them may be canceled meanwhile: then it waits for nothing, but is marked still. */
static void report_cycle(struct gs_thread *const *each, unsigned count)
{
    int fd = gs_report_fd();
    gs_symbols_open(true);
    if (count == 1)
        gs_report_printf(fd, "deadlock of one thread:");
    else
        gs_report_printf(fd, "deadlock among %u threads:", count);
    for (unsigned i = 0; i < count; i++) {
        print_wait(fd, each[i], each[(i + 1) % count]);
        gs_report_printf(fd, i + 1 == count ? "\n" : ",");
    }
    gs_symbols_close();
}

void gs_checked_blocked(struct gs_thread *thread)
{
    struct gs_thread *each[CYCLE_MAX];
    if (!thread->wait_kind->holder || thread->has_deadline)
        return;
    spin_lock_always(&lock);
    thread->is_blocked = true;
    unsigned count = find_cycle(thread, each);
    if (count)
        report_cycle(each, count);
    spin_unlock_always(&lock);
}

int gs_checked_resumed(struct gs_thread *thread, int result)
{
    if (!thread->is_blocked)
        return result;
    spin_lock_always(&lock);
    thread->is_blocked = false;
    spin_unlock_always(&lock);
    return result;
}

void gs_cycles_after_fork(void)
{
    atomic_store(&lock.held, false);
}
#endif
