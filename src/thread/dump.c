/* All threads, by call and by signal. */
#include "thread/calls.h"
#include "thread/stacks.h"

struct dump {
    int fd;
    uint64_t now_ns;
    struct worker *worker;          /* who writes it; NULL: none */
    const struct gs_thread *caller; /* the thread that asked */
    const void *pc;                 /* where its call returns to */
};

/* The worker that runs it now; NULL: it does not run. */
NOT_FOR_TSAN static struct worker *runner_of(const struct gs_thread *thread)
{
    for (unsigned i = 0; i < gs_runtime.worker_count; i++) {
        struct worker *worker = gs_runtime.workers[i];
        if (*(struct gs_thread *const volatile *)&worker->current == thread)
            return worker;
    }
    return NULL;
}

/* Whether nobody can run it while the dump is written: only its worker could, which is here, or no worker runs anything. */
NOT_FOR_TSAN static bool is_steady(const struct dump *dump, const struct gs_thread *thread)
{
    bool is_mobile = thread->migrates && gs_runtime.is_multi;
    const struct worker *worker = *(struct worker *const volatile *)&thread->worker;
    return gs_runtime.is_deadlocked || (dump->worker && !is_mobile && worker == dump->worker);
}

NOT_FOR_TSAN static bool has_context(const struct gs_thread *thread)
{
    const char *sp = thread->sp;
    return sp >= thread->stack && sp + sizeof(struct context) <= thread->stack_top;
}

NOT_FOR_TSAN static void put_calls(const struct dump *dump, const struct gs_thread *thread)
{
    struct calls calls;
    if (thread == dump->caller)
        gs_calls_of_caller(thread, dump->pc, &calls);
    else
        gs_calls_of_waiting(thread, is_steady(dump, thread), &calls);
    gs_report_calls(dump->fd, &calls);
}

NOT_FOR_TSAN static void put_waiting(const struct dump *dump, const struct gs_thread *thread)
{
    const struct wait_kind *waits = thread_waits(thread) ? thread->waits : NULL;
    size_t used = (size_t)(thread->stack_top - (const char *)thread->sp);
    struct symbol symbol;
    if (context_pc(thread->sp) == (void *)gs_context_start) {
        gs_symbols_find((const void *)(uintptr_t)thread->fn, &symbol);
        gs_report_put(dump->fd, "is to be started in");
        gs_report_symbol(dump->fd, &symbol);
        gs_report_put(dump->fd, "\n");
        return;
    }
    uint64_t since_ns = thread->since_ns < dump->now_ns ? thread->since_ns : dump->now_ns;
    if (waits)
        gs_report_put(dump->fd, "waits for %s at %p since %.3f ms, %zu bytes of stack\n",
                      waits->what, thread->waits_at, (double)(dump->now_ns - since_ns) / 1e6, used);
    else
        gs_report_put(dump->fd, "is ready, %zu bytes of stack\n", used);
    put_calls(dump, thread);
}

/* On another worker. What sits in a system call is not asked for its calls: the call would end early. */
NOT_FOR_TSAN static void put_running(const struct dump *dump, const struct gs_thread *thread,
                                     struct worker *runner)
{
    char doing[64];
    struct calls calls;
    bool is_in_call = gs_worker_call(runner, doing, sizeof doing);
    gs_report_put(dump->fd, "runs on worker %u and %s\n", runner->index + 1, doing);
    if (!is_in_call && gs_calls_of_running(runner, thread, &calls))
        gs_report_calls(dump->fd, &calls);
}

/* The thread may be a new one by now. */
NOT_FOR_TSAN static void copy_name(char *to, const volatile char *from)
{
    for (int i = 0; i < NAME_SIZE - 1; i++)
        to[i] = from[i];
    to[NAME_SIZE - 1] = 0;
}

NOT_FOR_TSAN static void put_thread(const struct dump *dump, const struct gs_thread *thread)
{
    struct worker *runner = runner_of(thread);
    char name[NAME_SIZE];
    copy_name(name, thread->name);
    gs_report_put(dump->fd, "thread %p \"%s\": ", (const void *)thread, name);
    if (runner && thread == dump->caller) {
        gs_report_put(dump->fd, "runs on worker %u\n", runner->index + 1);
        put_calls(dump, thread);
    } else if (runner) {
        put_running(dump, thread, runner);
    } else if (has_context(thread)) {
        put_waiting(dump, thread);
    } else {
        gs_report_put(dump->fd, "is being made\n");
    }
}

NOT_FOR_TSAN static void *put_all(void *argument)
{
    const struct dump *dump = argument;
    struct gs_thread *thread;
    gs_symbols_begin(true);
    for (int class = 0; class < STACK_CLASSES; class ++)
        for (size_t i = 0; (thread = gs_stacks_at(class, i)); i++)
            if (thread->is_live && !thread->is_done)
                put_thread(dump, thread);
    spin_lock_always(&gs_runtime.caller_lock);
    GS_LIST_EACH(link, &gs_runtime.caller_threads)
    put_thread(dump, gs_container_of(link, struct gs_thread, link));
    spin_unlock_always(&gs_runtime.caller_lock);
    gs_symbols_end();
    return NULL;
}

/* What is written needs more of a stack than a thread may have left. */
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
        gs_thread_borrow(put_all, &dump);
    else
        put_all(&dump);
}

/* ---- By signal: the first worker's loop takes it ---- */

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

void gs_reports_stop_dumping(struct worker *worker)
{
    if (gs_runtime.options.dump_signal)
        gs_signal_stop(&worker->dump);
}
