/* What is told about the threads: dump, deadlock, stack overflow. */
#include "thread/stacks.h"

#include <dlfcn.h>
#include <errno.h>
#include <gossamer/sys.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#define FRAMES_MOST 24
#define SIGNAL_STACK_SIZE ((size_t)32 << 10)

int gs_report_fd(void)
{
    if (gs_runtime.options.is_silent)
        return -1;
    return gs_runtime.options.report_fd ? gs_runtime.options.report_fd : 2;
}

__attribute__((format(printf, 2, 3))) static void put(int fd, const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (n > 0 && fd >= 0)
        (void)gs_sys_write(fd, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

/* ---- Calls ---- */

static void put_call(int fd, const void *pc)
{
    Dl_info info;
    if (!dladdr(pc, &info)) {
        put(fd, "      %p\n", pc);
        return;
    }
    const char *module = strrchr(info.dli_fname, '/');
    module = module ? module + 1 : info.dli_fname;
    size_t offset = (size_t)((const char *)pc - (const char *)info.dli_fbase);
    if (info.dli_sname)
        put(fd, "      %s (%s+0x%zx)\n", info.dli_sname, module, offset);
    else
        put(fd, "      %s+0x%zx\n", module, offset);
}

/* Follow the frame pointers, which never leave the stack and only go up. */
NOT_FOR_ASAN NOT_FOR_TSAN static void put_calls(int fd, const struct gs_thread *thread,
                                                const void *pc, const void *frame)
{
    for (int i = 0; i < FRAMES_MOST && pc; i++) {
        put_call(fd, pc);
        const char *at = frame;
        if (!at || at < thread->stack || at + 16 > thread->stack_top || (uintptr_t)at % 8)
            return;
        const void *const *words = frame;
        frame = words[0];
        pc = words[1];
        if ((const char *)frame <= at)
            frame = NULL;
    }
}

/* ---- Dump ---- */

static bool is_running(const struct gs_thread *thread)
{
    for (unsigned i = 0; i < gs_runtime.worker_count; i++)
        if (__atomic_load_n(&gs_runtime.workers[i]->current, __ATOMIC_RELAXED) == thread)
            return true;
    return false;
}

NOT_FOR_TSAN static void put_thread(int fd, const struct gs_thread *thread, uint64_t now_ns)
{
    const struct wait_kind *waits = thread_waits(thread) ? thread->waits : NULL;
    bool runs = is_running(thread);
    size_t used = (size_t)(thread->stack_top - (const char *)thread->sp);
    put(fd, "thread %p \"%s\": ", (const void *)thread, thread->name);
    if (runs)
        put(fd, "runs\n");
    else if (waits)
        put(fd, "waits for %s at %p since %.3f ms, %zu bytes of stack\n", waits->what,
            thread->waits_at, (double)(now_ns - thread->since_ns) / 1e6, used);
    else
        put(fd, "is ready, %zu bytes of stack\n", used);
    if (!runs)
        put_calls(fd, thread, context_pc(thread->sp), context_frame(thread->sp));
}

NOT_FOR_TSAN void gs_threads_dump(int fd)
{
    uint64_t now_ns = gs_clock_now();
    struct gs_thread *thread;
    for (int class = 0; class < STACK_CLASSES; class ++)
        for (size_t i = 0; (thread = gs_stacks_at(class, i)); i++)
            if (thread->is_live && !thread->is_done)
                put_thread(fd, thread, now_ns);
    spin_lock_always(&gs_runtime.caller_lock);
    GS_LIST_EACH(link, &gs_runtime.caller_threads)
    put_thread(fd, gs_container_of(link, struct gs_thread, link), now_ns);
    spin_unlock_always(&gs_runtime.caller_lock);
}

/* ---- Deadlock ---- */

static struct gs_thread *owner_of(const struct gs_mutex *mutex)
{
    const char *owner = (const char *)(atomic_load(&mutex->owner) & ~GS_MUTEX_WAITED);
    GS_LIST_EACH(link, &gs_runtime.caller_threads)
    {
        struct gs_thread *thread = gs_container_of(link, struct gs_thread, link);
        if (owner >= thread->stack && owner < (const char *)(thread + 1))
            return thread;
    }
    return gs_stacks_holding(owner);
}

/* The thread that this one waits for, where one can be named. */
static struct gs_thread *blocker_of(const struct gs_thread *thread)
{
    if (!thread_waits(thread))
        return NULL;
    if (!strcmp(thread->waits->what, "join"))
        return (struct gs_thread *)thread->waits_at;
    if (!strcmp(thread->waits->what, "mutex"))
        return owner_of(thread->waits_at);
    return NULL;
}

/* A thread on a cycle, found by two that follow the chain, one twice as fast. */
static struct gs_thread *find_cycle(struct gs_thread *thread)
{
    struct gs_thread *slow = thread, *fast = thread;
    do {
        slow = blocker_of(slow);
        fast = blocker_of(fast);
        fast = fast ? blocker_of(fast) : NULL;
        if (!fast)
            return NULL;
    } while (slow != fast);
    return slow;
}

static bool put_cycle(int fd, struct gs_thread *thread)
{
    struct gs_thread *first = find_cycle(thread), *at = first;
    if (!first)
        return false;
    put(fd, "cycle:");
    do {
        struct gs_thread *next = blocker_of(at);
        put(fd, " \"%s\" waits for %s of \"%s\"%s", at->name, at->waits->what, next->name,
            next == first ? "\n" : ",");
        at = next;
    } while (at != first);
    return true;
}

void gs_report_deadlock(void)
{
    int fd = gs_report_fd();
    struct gs_thread *thread;
    bool is_found = false;
    put(fd, "deadlock: no thread can go on\n");
    for (int class = 0; class < STACK_CLASSES; class ++)
        for (size_t i = 0; !is_found && (thread = gs_stacks_at(class, i)); i++)
            is_found = thread->is_live && !thread->is_done && put_cycle(fd, thread);
    if (fd >= 0)
        gs_threads_dump(fd);
}

/* ---- Overflow ---- */

static struct sigaction segv_before;

void gs_report_overflow(const struct gs_thread *thread, const void *context)
{
    int fd = gs_report_fd();
    const void *pc = NULL, *frame = NULL;
    if (context) {
        const ucontext_t *user = context;
#ifdef __x86_64__
        pc = (const void *)user->uc_mcontext.gregs[REG_RIP];
        frame = (const void *)user->uc_mcontext.gregs[REG_RBP];
#else
        pc = (const void *)user->uc_mcontext.pc;
        frame = (const void *)user->uc_mcontext.regs[29];
#endif
    }
    put(fd, "stack overflow: thread \"%s\" needs more than its %zu bytes\n", thread->name,
        (size_t)(thread->stack_top - thread->stack));
    put_calls(fd, thread, pc, frame);
}

/* Report, and have the signal come again with its former action. */
static void on_segv(int number, siginfo_t *info, void *context)
{
    struct gs_thread *thread = gs_stacks_guarded(info->si_addr);
    if (thread)
        gs_report_overflow(thread, context);
    sigaction(number, &segv_before, NULL);
}

/* Each kernel thread that runs user threads needs a stack for the handler. */
int gs_reports_start_worker(struct worker *worker)
{
    stack_t stack = {.ss_size = SIGNAL_STACK_SIZE};
    worker->signal_stack = stack.ss_sp = malloc(SIGNAL_STACK_SIZE);
    if (!stack.ss_sp)
        return -ENOMEM;
    sigaltstack(&stack, &worker->signal_stack_before);
    return 0;
}

void gs_reports_stop_worker(struct worker *worker)
{
    if (!worker->signal_stack)
        return;
    sigaltstack(&worker->signal_stack_before, NULL);
    free(worker->signal_stack);
    worker->signal_stack = NULL;
}

/* ---- Dump by signal ---- */

static void on_dump(struct gs_signal *signal)
{
    (void)signal;
    if (gs_report_fd() >= 0)
        gs_threads_dump(gs_report_fd());
}

/* The first worker's loop takes the signal. Returns 0 or -errno. */
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

int gs_reports_start(void)
{
    struct sigaction action = {.sa_sigaction = on_segv,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    int err = gs_reports_start_dumping(gs_runtime.workers[0]);
    if (!err)
        sigaction(SIGSEGV, &action, &segv_before);
    return err;
}

void gs_reports_stop(void)
{
    sigaction(SIGSEGV, &segv_before, NULL);
}
