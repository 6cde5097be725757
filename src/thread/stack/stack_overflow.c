/* Stack overflow: the guard below the stack was accessed, or the canary there was overwritten. It
 * is reported, and then causes the same signal as without the runtime. */
#include "thread/report/backtrace.h"
#include "thread/schedule/thread_extra.h"
#include "thread/stack/shared_stack.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif
#define MINSIGSTKSZ_LEGACY 2048 /* where the kernel does not say how large a frame is */
#define RED_ZONE 128            /* which the kernel leaves free below the stack pointer */

static struct sigaction previous_segv;

/* Print where a stack overflowed, and how deep its calls were. */
static void print_depth(int fd, const struct backtrace *backtrace)
{
    struct symbol symbol;
    gs_symbols_open(false);
    gs_symbols_find(backtrace->first[0], &symbol);
    gs_report_printf(fd, "  in");
    gs_report_symbol(fd, &symbol);
    gs_report_printf(fd, ", %u calls deep\n", backtrace->count);
    gs_report_backtrace(fd, backtrace);
    gs_symbols_close();
}

static void print_protected(const struct gs_thread *thread, const void *context)
{
    struct backtrace backtrace;
    const struct worker *worker = gs_worker_or_null();
    const struct gs_thread *user = worker ? worker->current : NULL;
    gs_backtrace_of_interrupted(NULL, context, &backtrace);
    gs_symbols_open(false);
    gs_report_printf(
        gs_report_fd(), "shared stack: thread \"%s\" waits, and its stack is used by %s \"%s\"\n",
        thread_name(thread), user ? "thread" : "a kernel thread", user ? thread_name(user) : "");
    gs_report_backtrace(gs_report_fd(), &backtrace);
    gs_symbols_close();
}

static void print_overflow(const struct gs_thread *thread, const struct backtrace *backtrace)
{
    int fd = gs_report_fd();
    gs_report_printf(fd, "stack overflow: thread \"%s\" needs more than its %zu bytes\n",
                     thread_name(thread), (size_t)(thread->stack_top - gs_stack_bottom(thread)));
    if (backtrace->count)
        print_depth(fd, backtrace);
}

/* Call the program's own handler, which may remove the cause of the fault: ours stays installed. It
 * runs with the signal mask that it would have; the kernel restores the previous mask on return. */
static void call_previous_handler(int number, siginfo_t *info, void *context)
{
    const struct sigaction previous = previous_segv;
    sigset_t blocked = previous.sa_mask;
    if (!(previous.sa_flags & SA_NODEFER))
        sigaddset(&blocked, number);
    /* As the kernel does before calling the handler: the next fault has the default action. */
    if (previous.sa_flags & (int)SA_RESETHAND)
        previous_segv = (struct sigaction){.sa_handler = SIG_DFL};
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    if (previous.sa_flags & SA_SIGINFO)
        previous.sa_sigaction(number, info, context);
    else
        previous.sa_handler(number);
}

static bool has_previous_handler(void)
{
    return previous_segv.sa_flags & SA_SIGINFO ||
           (previous_segv.sa_handler != SIG_DFL && previous_segv.sa_handler != SIG_IGN);
}

/* Whether the instruction reads relative to the GS base, which is 0 in a kernel thread that is no
 * worker: it has called a function of user threads. */
static bool is_in_nonworker(const siginfo_t *info, const void *context)
{
#ifdef __x86_64__
    const unsigned char prefix = 0x65;
    const unsigned char *pc = gs_pc_of_interrupted(context);
    /* The instruction itself can be read unless the fault is that it cannot: a call of NULL. */
    return gs_runtime.uses_gsbase && info->si_code == SEGV_MAPERR && info->si_addr != pc &&
           (uintptr_t)info->si_addr < sizeof(struct worker) && *pc == prefix &&
           !gs_worker_or_null();
#else
    (void)info, (void)context;
    return false;
#endif
}

static void print_nonworker(const void *context)
{
    struct backtrace backtrace;
    gs_backtrace_of_interrupted(NULL, context, &backtrace);
    gs_symbols_open(false);
    gs_report_printf(gs_report_fd(),
                     "no worker: a kernel thread that is none has called a function of threads\n");
    gs_report_backtrace(gs_report_fd(), &backtrace);
    gs_symbols_close();
}

/* The thread on whose stack the kernel found no room to call a handler, for a signal of any number;
 * NULL: that is not what has happened. */
static struct gs_thread *find_without_room(const siginfo_t *info, const char *sp)
{
    unsigned long size = getauxval(AT_MINSIGSTKSZ);
    size_t frame = RED_ZONE + (size ? size : MINSIGSTKSZ_LEGACY);
    struct worker *worker = gs_worker_or_null();
    struct gs_thread *thread = worker ? worker->current : NULL;
    bool is_on_stack = info->si_code == SI_KERNEL && thread && !worker->is_stack_in_use &&
                       sp >= gs_stack_bottom(thread) && sp < thread->stack_top;
    return is_on_stack && (size_t)(sp - gs_stack_bottom(thread)) < frame ? thread : NULL;
}

static void print_without_room(const struct gs_thread *thread, const void *context)
{
    struct backtrace backtrace;
    gs_backtrace_of_interrupted(thread, context, &backtrace);
    gs_symbols_open(false);
    gs_report_printf(gs_report_fd(),
                     "signal without SA_ONSTACK: no room for its handler on the stack of thread "
                     "\"%s\"\n",
                     thread_name(thread));
    gs_report_backtrace(gs_report_fd(), &backtrace);
    gs_symbols_close();
}

/* Report an overflow, after which the process dies; any other SIGSEGV is passed to the previous
 * action. */
static void on_segv(int number, siginfo_t *info, void *context)
{
    /* It was sent by a process, not caused by an instruction. */
    bool is_sent = info->si_code <= 0;
    /* On return an instruction is repeated; not if the kernel could not deliver another signal. */
    bool is_repeated = !is_sent && info->si_code != SI_KERNEL;
    const void *sp = gs_stack_pointer_of_interrupted(context);
    struct gs_thread *thread = is_sent ? NULL : gs_stacks_find_overflowed(info->si_addr, sp);
    struct gs_thread *waiting = is_sent ? NULL : gs_stacks_find(info->si_addr);
    struct gs_thread *without_room = find_without_room(info, sp);
    struct backtrace backtrace;
    if (thread) {
        gs_backtrace_of_interrupted(thread, context, &backtrace);
        print_overflow(thread, &backtrace);
    } else if (waiting && gs_stack_is_protected(waiting)) {
        print_protected(waiting, context);
    } else if (without_room) {
        print_without_room(without_room, context);
    } else if (!is_sent && is_in_nonworker(info, context)) {
        print_nonworker(context);
    } else if (has_previous_handler()) {
        call_previous_handler(number, info, context);
        return;
    } else if (is_sent && previous_segv.sa_handler == SIG_IGN) {
        return;
    }
    sigaction(number, &previous_segv, NULL);
    if (!is_repeated)
        raise(number);
}

struct overflow {
    const struct gs_thread *thread;
    const void *pc;
};

/* Called on the worker's stack: little is left of the thread's. */
static void *print_overflow_of_caller(void *argument)
{
    const struct overflow *overflow = argument;
    struct backtrace backtrace;
    gs_backtrace_of_caller(overflow->thread, overflow->pc, &backtrace);
    print_overflow(overflow->thread, &backtrace);
    return NULL;
}

void gs_report_overflow(struct gs_thread *thread)
{
    struct overflow overflow = {thread, __builtin_return_address(0)};
    gs_thread_call_on_worker_stack(print_overflow_of_caller, &overflow);
    sigaction(SIGSEGV, &previous_segv, NULL);
    raise(SIGSEGV);
}

void gs_report_overflow_of_waiting(struct gs_thread *thread)
{
    struct backtrace backtrace;
    gs_backtrace_of_waiting(thread, true, &backtrace);
    print_overflow(thread, &backtrace);
    sigaction(SIGSEGV, &previous_segv, NULL);
    raise(SIGSEGV);
}

/* Each kernel thread that runs user threads needs a stack for the handler. */
int gs_reports_new_worker(struct worker *worker)
{
    worker->signal_stack = malloc(SIGNAL_STACK_SIZE);
    return worker->signal_stack ? 0 : -ENOMEM;
}

void gs_reports_start_worker(struct worker *worker)
{
    const stack_t stack = {.ss_sp = worker->signal_stack, .ss_size = SIGNAL_STACK_SIZE};
    sigaltstack(&stack, &worker->signal_stack_before);
}

void gs_reports_stop_worker(struct worker *worker)
{
    sigaltstack(&worker->signal_stack_before, NULL);
}

void gs_overflow_start(void)
{
    struct sigaction action = {.sa_sigaction = on_segv,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigaction(SIGSEGV, &action, &previous_segv);
}

void gs_overflow_stop(void)
{
    sigaction(SIGSEGV, &previous_segv, NULL);
}
