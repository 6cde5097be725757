/* Stack overflow: the guard below the stack was touched, or the canary there is gone. It is reported, and is then the signal that it
 * would have been without us. */
#include "thread/calls.h"
#include "thread/stacks.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <unistd.h>

#define SIGNAL_STACK_SIZE ((size_t)64 << 10)

static struct sigaction segv_before;

/* The function whose calls are most, and how many they are. */
static unsigned find_most(const struct calls *calls, struct symbol *ret_symbol)
{
    struct symbol symbols[CALLS_OFTEN];
    unsigned counts[CALLS_OFTEN] = {0}, most = 0;
    for (unsigned i = 0; i < CALLS_OFTEN && calls->often[i].count; i++) {
        gs_symbols_find(calls->often[i].pc, &symbols[i]);
        unsigned same = 0;
        while (same < i && !(symbols[i].name && symbols[same].name == symbols[i].name))
            same++;
        counts[same] += calls->often[i].count;
        most = counts[same] > counts[most] ? same : most;
    }
    *ret_symbol = symbols[most];
    return counts[most];
}

/* What is known of the calls on a stack that is too small. */
static void put_depth(int fd, const struct calls *calls)
{
    struct symbol symbol;
    gs_symbols_begin(false);
    gs_symbols_find(calls->first[0], &symbol);
    gs_report_put(fd, "  in");
    gs_report_symbol(fd, &symbol);
    gs_report_put(fd, ", %u calls deep\n", calls->count);
    unsigned most = find_most(calls, &symbol);
    if (most > 1) {
        gs_report_put(fd, "  %u of them are", most);
        gs_report_symbol(fd, &symbol);
        gs_report_put(fd, "\n");
    }
    gs_report_calls(fd, calls);
    gs_symbols_end();
}

static void put_overflow(const struct gs_thread *thread, const struct calls *calls)
{
    int fd = gs_report_fd();
    gs_report_put(fd, "stack overflow: thread \"%s\" needs more than its %zu bytes\n", thread->name,
                  (size_t)(thread->stack_top - thread->stack));
    if (calls->count)
        put_depth(fd, calls);
}

/* Report, and have the signal come again with its former action. */
static void on_segv(int number, siginfo_t *info, void *context)
{
    struct gs_thread *thread = gs_stacks_guarded(info->si_addr);
    struct calls calls;
    if (thread) {
        gs_calls_of_interrupted(thread, context, &calls);
        put_overflow(thread, &calls);
    }
    sigaction(number, &segv_before, NULL);
    /* One that was sent, rather than caused by what is done again on return. */
    if (info->si_code <= 0)
        raise(number);
}

struct found {
    const struct gs_thread *thread;
    const void *pc;
};

/* There is little left of the thread's stack. */
static void *put_found(void *argument)
{
    const struct found *found = argument;
    struct calls calls;
    gs_calls_of_caller(found->thread, found->pc, &calls);
    put_overflow(found->thread, &calls);
    return NULL;
}

void gs_report_overflow(struct gs_thread *thread)
{
    struct found found = {thread, __builtin_return_address(0)};
    gs_thread_borrow(put_found, &found);
    sigaction(SIGSEGV, &segv_before, NULL);
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
    sigaction(SIGSEGV, &action, &segv_before);
}

void gs_overflow_stop(void)
{
    sigaction(SIGSEGV, &segv_before, NULL);
}
