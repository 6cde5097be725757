/* gs_threads_dump, and the same by a signal. */
#include "thread/report/dump.h"
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

/* ---- Threads that run, which are as many as workers ---- */

enum { RUNNING_MAX = 64 };

/* What is written of a thread that runs. It may end before that, with the memory of its stack. */
struct running {
    const struct gs_thread *thread;
    const struct worker *runner;
    char name[NAME_SIZE];
    char activity[64]; /* empty: the thread calls for the dump */
    struct program_calls calls;
};

/* Guarded as the groups are. */
static struct running running[RUNNING_MAX];
static unsigned running_count;

/* The calls of a thread that another worker runs are not known. */
NOT_FOR_TSAN static void add_running(const struct dump *dump, const struct gs_thread *thread,
                                     struct worker *runner)
{
    unsigned i = running_count++;
    struct backtrace backtrace;
    if (i >= RUNNING_MAX)
        return;
    running[i] = (struct running){.thread = thread, .runner = runner};
    copy_name(running[i].name, thread_name(thread));
    if (thread != dump->caller) {
        gs_worker_activity(runner, running[i].activity, sizeof running[i].activity);
        return;
    }
    gs_backtrace_of_caller(thread, dump->pc, &backtrace);
    gs_program_calls_of(&backtrace, &running[i].calls);
}

NOT_FOR_TSAN static void print_running(int fd)
{
    for (unsigned i = 0; i < running_count && i < RUNNING_MAX; i++) {
        const struct running *thread = &running[i];
        gs_report_printf(fd, "thread %p \"%s\": runs on worker %u%s%s\n",
                         (const void *)thread->thread, thread->name, thread->runner->index + 1,
                         thread->activity[0] ? ", " : "", thread->activity);
        gs_program_calls_report(fd, &thread->calls);
    }
    if (running_count > RUNNING_MAX)
        gs_report_printf(fd, "%u other threads run\n", running_count - RUNNING_MAX);
}

/* ---- Others, which are grouped ---- */

NOT_FOR_TSAN static void add_suspended(const struct dump *dump, struct gs_thread *thread,
                                       struct dumped *dumped)
{
    struct backtrace backtrace;
    struct program_calls calls;
    const struct wait_kind *kind = thread->wait_kind;
    uint64_t start_ns = thread->wait_start_ns;
    dumped->used = (size_t)(thread->stack_top - (const char *)thread->sp);
    dumped->state = DUMPED_READY;
    if (thread_is_waiting(thread) && kind) {
        dumped->state = DUMPED_WAITING;
        dumped->kind = kind;
        dumped->object = thread->wait_object;
        dumped->waited_ns = start_ns < dump->now_ns ? dump->now_ns - start_ns : 0;
    }
    gs_backtrace_of_waiting(thread, is_stable(dump, thread), &backtrace);
    gs_program_calls_of(&backtrace, &calls);
    gs_dump_add(dumped, &calls);
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
    struct program_calls calls = {0};
    if (!thread->is_live || thread->is_done)
        return;
    copy_name(dumped.name, thread_name(thread));
    if (runner) {
        add_running(dump, thread, runner);
    } else if (!has_context(thread) && !has_no_stack_yet(thread)) {
        dumped.state = DUMPED_CREATED;
        gs_dump_add(&dumped, &calls);
    } else if (is_new(thread)) {
        dumped.state = DUMPED_NEW;
        calls.calls[calls.count++] = (const void *)(uintptr_t)thread->fn;
        gs_dump_add(&dumped, &calls);
    } else {
        add_suspended(dump, thread, &dumped);
    }
}

/* Defined by the runtime of `gossamer cc`: writes the threads that it has compiled. */
extern void gs_cc_dump(int fd) __attribute__((weak));

/* Writing may block: it is done when all is collected, without the lock. */
NOT_FOR_TSAN static void *print_all(void *argument)
{
    const struct dump *dump = argument;
    struct gs_thread *thread;
    gs_symbols_open(true);
    gs_dump_clear_groups();
    running_count = 0;
    for (int class = 0; class < STACK_CLASSES; class ++)
        for (size_t i = 0; (thread = gs_stacks_at(class, i)); i++)
            add_thread(dump, thread);
    spin_lock_always(&gs_runtime.user_stack_lock);
    GS_LIST_FOREACH (link, &gs_runtime.user_stack_threads)
        add_thread(dump, thread_on_user_stack(link));
    spin_unlock_always(&gs_runtime.user_stack_lock);
    print_running(dump->fd);
    gs_dump_print_groups(dump->fd);
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
