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

/* ---- One thread ---- */

/* The calls of a thread that another worker runs are not known. */
NOT_FOR_TSAN static void describe_running(const struct dump *dump, const struct worker *runner,
                                          struct dumped *dumped, struct program_calls *ret_calls)
{
    struct backtrace backtrace;
    dumped->state = DUMPED_RUNNING;
    dumped->worker = runner->index + 1;
    if (dumped->thread == dump->caller) {
        gs_backtrace_of_caller(dumped->thread, dump->pc, &backtrace);
        gs_program_calls_of(&backtrace, ret_calls);
    } else {
        gs_worker_activity(runner, dumped->activity, sizeof dumped->activity);
    }
}

NOT_FOR_TSAN static void describe_suspended(const struct dump *dump, struct gs_thread *thread,
                                            struct dumped *dumped, struct program_calls *ret_calls)
{
    struct backtrace backtrace;
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
    gs_program_calls_of(&backtrace, ret_calls);
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
        describe_running(dump, runner, &dumped, &calls);
    } else if (!has_context(thread) && !has_no_stack_yet(thread)) {
        dumped.state = DUMPED_CREATED;
    } else if (is_new(thread)) {
        dumped.state = DUMPED_NEW;
        calls.calls[calls.count++] = (const void *)(uintptr_t)thread->fn;
    } else {
        describe_suspended(dump, thread, &dumped, &calls);
    }
    gs_dump_add(&dumped, &calls);
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
    for (int class = 0; class < STACK_CLASSES; class ++)
        for (size_t i = 0; (thread = gs_stacks_at(class, i)); i++)
            add_thread(dump, thread);
    spin_lock_always(&gs_runtime.user_stack_lock);
    GS_LIST_FOREACH (link, &gs_runtime.user_stack_threads)
        add_thread(dump, thread_on_user_stack(link));
    spin_unlock_always(&gs_runtime.user_stack_lock);
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
