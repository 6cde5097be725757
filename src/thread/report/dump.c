/* gs_threads_dump, and the same by a signal. All threads are looked at, then written: writing may
 * block. Threads that wait in the same place are one group: a program with ten thousand threads has
 * a few places where they wait. */
#include "thread/report/backtrace.h"
#include "thread/schedule/thread_extra.h"
#include "thread/stack/shared_stack.h"

struct dump {
    int fd;
    uint64_t now_ns;
    struct worker *worker;          /* the calling worker; NULL: none */
    const struct gs_thread *caller; /* the calling thread; NULL: none */
    const void *pc;                 /* the return address of its call */
};

/* The worker that runs the thread now; NULL: none. */
NOT_FOR_TSAN static struct worker *runner_of(const struct gs_thread *thread)
{
    for (unsigned i = 0; i < gs_runtime.worker_count; i++) {
        struct worker *worker = gs_runtime.workers[i];
        if (*(struct gs_thread *const volatile *)&worker->current == thread)
            return worker;
    }
    return NULL;
}

/* Whether no worker can run the thread while the dump is written: only the calling worker could, or
 * no worker runs threads any more. */
NOT_FOR_TSAN static bool is_stable(const struct dump *dump, const struct gs_thread *thread)
{
    bool is_mobile = thread->migrates && gs_runtime.is_multi;
    const struct worker *worker = *(struct worker *const volatile *)&thread->worker;
    return gs_runtime.is_deadlocked || (dump->worker && !is_mobile && worker == dump->worker);
}

/* Whether it will get a place on a stack when it runs first. */
NOT_FOR_TSAN static bool has_no_stack_yet(const struct gs_thread *thread)
{
    return thread->stack_class == CLASS_SHARED && !thread->stack_top;
}

NOT_FOR_TSAN static bool has_context(const struct gs_thread *thread)
{
    const char *sp = thread->sp;
    return sp >= gs_stack_bottom(thread) && sp + sizeof(struct context) <= thread->stack_top &&
           gs_stack_readable(thread, (uintptr_t)sp);
}

/* The thread may end meanwhile, and its control block be reused. */
NOT_FOR_TSAN static void copy_name(char *to, const volatile char *from)
{
    int i = 0;
    for (; i < NAME_SIZE - 1 && from[i]; i++)
        to[i] = from[i];
    to[i] = 0;
}

/* ---- Groups ----
 * Their memory is bounded. It is guarded as the symbols are. */

enum { GROUPS_MAX = 256 };
enum state { IS_RUNNING, IS_CREATED, IS_NEW, IS_READY, IS_WAITING };

/* A thread, as it was when the dump came to it. It may end before it is written. */
struct dumped {
    const struct gs_thread *thread;
    char name[NAME_SIZE];
    const void *function; /* that it runs; NULL: unknown */
    enum state state;
    unsigned worker;              /* which runs it, from 1 */
    char activity[64];            /* of that worker; empty: the thread calls for the dump */
    const struct wait_kind *kind; /* if it waits; else NULL, as the next two */
    const void *object;
    uint64_t waited_ns;
    size_t used;          /* bytes of its stack */
    const void *waits_in; /* the function of the library; NULL: it has left no frame */
    struct backtrace backtrace;
};

static struct group {
    unsigned count;
    struct dumped longest; /* the one that has waited longest */
} groups[GROUPS_MAX];
static unsigned group_count;
static unsigned thread_count, ungrouped; /* ungrouped: there were too many groups */

/* One that runs is a group of its own. */
static bool is_alike(const struct dumped *a, const struct dumped *b)
{
    const struct backtrace *left = &a->backtrace, *right = &b->backtrace;
    return a->state == b->state && a->state != IS_RUNNING && a->kind == b->kind &&
           left->count == right->count && !memcmp(left->first, right->first, sizeof left->first) &&
           !memcmp(left->last, right->last, sizeof left->last);
}

/* Returns the group, which is empty if it is new; NULL: there are too many. */
static struct group *find_group(const struct dumped *dumped)
{
    for (unsigned i = 0; i < group_count; i++)
        if (is_alike(&groups[i].longest, dumped))
            return &groups[i];
    if (group_count == GROUPS_MAX)
        return NULL;
    struct group *group = &groups[group_count++];
    *group = (struct group){.longest = *dumped};
    return group;
}

static void add_to_group(const struct dumped *dumped)
{
    struct group *group = find_group(dumped);
    thread_count++;
    if (!group) {
        ungrouped++;
        return;
    }
    group->count++;
    if (dumped->waited_ns > group->longest.waited_ns)
        group->longest = *dumped;
}

/* ---- One thread ---- */

/* The calls of a thread that another worker runs are not known. */
NOT_FOR_TSAN static void describe_running(const struct dump *dump, const struct worker *runner,
                                          struct dumped *dumped)
{
    dumped->state = IS_RUNNING;
    dumped->worker = runner->index + 1;
    if (dumped->thread == dump->caller)
        gs_backtrace_of_caller(dumped->thread, dump->pc, &dumped->backtrace);
    else
        gs_worker_activity(runner, dumped->activity, sizeof dumped->activity);
}

static bool is_librarys(const void *pc)
{
    struct symbol symbol;
    gs_symbols_find(pc, &symbol);
    return symbol.name && !strncmp(symbol.name, "gs_", 3);
}

/* Leave out the newest calls, as far as they are the library's, so that threads which wait in the
 * same place are alike: a call has other frames within the library if it takes another path. */
static void leave_out_library(struct dumped *dumped)
{
    struct backtrace *backtrace = &dumped->backtrace;
    unsigned own = 0;
    if (backtrace->count > BACKTRACE_FIRST)
        return;
    while (own < backtrace->count && is_librarys(backtrace->first[own]))
        dumped->waits_in = backtrace->first[own++];
    backtrace->count -= own;
    for (unsigned i = 0; i < BACKTRACE_FIRST; i++)
        backtrace->first[i] = i < backtrace->count ? backtrace->first[i + own] : NULL;
    memset(backtrace->last, 0, sizeof backtrace->last);
}

NOT_FOR_TSAN static void describe_suspended(const struct dump *dump, struct gs_thread *thread,
                                            struct dumped *dumped)
{
    const struct wait_kind *kind = thread->wait_kind;
    uint64_t start_ns = thread->wait_start_ns;
    dumped->used = (size_t)(thread->stack_top - (const char *)thread->sp);
    dumped->state = IS_READY;
    if (thread_is_waiting(thread) && kind) {
        dumped->state = IS_WAITING;
        dumped->kind = kind;
        dumped->object = thread->wait_object;
        dumped->waited_ns = start_ns < dump->now_ns ? dump->now_ns - start_ns : 0;
    }
    gs_backtrace_of_waiting(thread, is_stable(dump, thread), &dumped->backtrace);
    leave_out_library(dumped);
}

NOT_FOR_TSAN static bool is_new(const struct gs_thread *thread)
{
    if (has_no_stack_yet(thread))
        return true;
    struct gs_spin *lock = gs_stack_reading_lock(thread);
    const void *context = gs_stack_readable(thread, (uintptr_t)thread->sp);
    bool is_at_start = context && context_pc(context) == (void *)gs_context_start;
    gs_stack_reading_unlock(lock, thread);
    return is_at_start;
}

NOT_FOR_TSAN static void add_thread(const struct dump *dump, struct gs_thread *thread)
{
    struct worker *runner = runner_of(thread);
    struct dumped dumped = {.thread = thread};
    /* If a cancellation was sent to a thread that has ended, it is done when that has arrived. */
    if (!thread->is_live || thread->is_done || atomic_load(&thread->cancel) == CANCEL_FINISHED)
        return;
    copy_name(dumped.name, thread_name(thread));
    dumped.function = gs_report_function(thread);
    if (runner) {
        describe_running(dump, runner, &dumped);
    } else if (!has_context(thread) && !has_no_stack_yet(thread)) {
        dumped.state = IS_CREATED;
        dumped.function = NULL;
    } else if (is_new(thread)) {
        dumped.state = IS_NEW;
        dumped.backtrace.first[dumped.backtrace.count++] = (const void *)(uintptr_t)thread->fn;
    } else {
        describe_suspended(dump, thread, &dumped);
    }
    add_to_group(&dumped);
}

/* ---- Writing ---- */

static void print_thread(int fd, const struct dumped *dumped)
{
    static const char *const states[] = {
        [IS_CREATED] = "being created",
        [IS_NEW] = "about to start",
        [IS_READY] = "ready",
    };
    char object[160], label[LABEL_SIZE];
    gs_report_printf(fd, "thread %p \"%s\": ", (const void *)dumped->thread,
                     gs_report_label(dumped->name, dumped->function, label));
    if (dumped->state == IS_RUNNING) {
        gs_report_printf(fd, "runs on worker %u%s%s", dumped->worker,
                         dumped->activity[0] ? ", " : "", dumped->activity);
    } else if (dumped->state != IS_WAITING) {
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
    if (group->longest.waits_in)
        gs_report_call(fd, group->longest.waits_in);
    gs_report_backtrace(fd, &group->longest.backtrace);
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
        if (groups[i].longest.state != IS_RUNNING)
            continue;
        print_group(fd, &groups[i]);
        groups[i].count = 0;
        count++;
    }
    return count;
}

/* Threads that run come first, then the others, the largest group first. */
static void print_groups(int fd)
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

/* ---- All threads ---- */

/* Defined by the runtime of `gossamer cc`: writes the threads that it has compiled. */
extern void gs_cc_dump(int fd) __attribute__((weak));

NOT_FOR_TSAN static void *print_all(void *argument)
{
    const struct dump *dump = argument;
    struct gs_thread *thread;
    gs_symbols_open(true);
    group_count = thread_count = ungrouped = 0;
    for (int class = 0; class < STACK_CLASSES; class ++)
        for (size_t i = 0; (thread = gs_stacks_at(class, i)); i++)
            add_thread(dump, thread);
    spin_lock_always(&gs_runtime.user_stack_lock);
    GS_LIST_FOREACH (link, &gs_runtime.user_stack_threads)
        add_thread(dump, thread_on_user_stack(link));
    spin_unlock_always(&gs_runtime.user_stack_lock);
    print_groups(dump->fd);
    gs_symbols_close();
    if (gs_cc_dump)
        gs_cc_dump(dump->fd);
    return NULL;
}

/* Formatting needs more stack than the calling thread may have left. */
void gs_threads_dump(int fd)
{
    struct worker *worker = gs_worker_or_null();
    struct dump dump = {
        .fd = fd,
        .now_ns = gs_clock_now(),
        .worker = worker,
        .caller = worker ? worker->current : NULL,
        .pc = __builtin_return_address(0),
    };
    if (dump.caller)
        gs_thread_call_on_worker_stack(print_all, &dump);
    else
        print_all(&dump);
}

/* ---- By signal, which the first worker's loop handles ---- */

static void on_dump(struct gs_signal *signal)
{
    (void)signal;
    if (gs_report_fd() >= 0)
        gs_threads_dump(gs_report_fd());
}

/* Returns 0 or -errno. */
int gs_reports_start_dumping(struct worker *worker)
{
    if (!gs_runtime.options.dump_signal)
        return 0;
    gs_signal_init(&worker->dump, worker->loop, on_dump);
    return gs_signal_start(&worker->dump, gs_runtime.options.dump_signal);
}
