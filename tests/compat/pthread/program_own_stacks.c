/* Code whose stack pointer has no room below it, as compiled Erlang and OCaml's threads have:
 * nothing is written there while the thread is preempted or gets signals, since it has an alternate
 * stack. A handler that is not for the alternate stack runs where the thread is. */
#include "tests/compat/pthread/program.h"

#include <ucontext.h>

enum { THREADS = 6, TURNS = 100, SIGNALS_SENT = 50, WORDS = 512, ALTERNATE = 32768 };

/* What is at the stack pointer of the code, and around it. */
struct area {
    uint64_t below[WORDS], at[16];
    char alternate[ALTERNATE];
};

static atomic_int running, handled, misplaced, of_main;
static atomic_bool all_sent;
static _Thread_local struct area *own;

static bool is_in(const void *address, const void *start, size_t size)
{
    return (uintptr_t)address - (uintptr_t)start < size;
}

static void note(int number, siginfo_t *info, void *context)
{
    char here = 0;
    const stack_t *stack = &((ucontext_t *)context)->uc_stack;
    (void)number, (void)info;
    if (!is_in(&here, own->alternate, ALTERNATE) || stack->ss_sp != own->alternate)
        misplaced++;
    handled++;
}

/* The first thread has an alternate stack, too, which this handler must not use. */
static void note_on_stack(int number)
{
    char here = 0;
    (void)number;
    misplaced += is_in(&here, own->alternate, ALTERNATE);
    of_main++;
}

/* Count down from `turns` with the stack pointer at area->at. */
static void compute(struct area *area, uint64_t turns)
{
    __asm__ volatile("movq %%rsp, %%rbx\n"
                     "movq %[sp], %%rsp\n"
                     "1: decq %[turns]\n"
                     "jnz 1b\n"
                     "movq %%rbx, %%rsp\n"
                     : [turns] "+r"(turns)
                     : [sp] "r"(area->at)
                     : "rbx", "memory", "cc");
}

static struct area *new_area(void)
{
    struct area *area = aligned_alloc(64, sizeof *area);
    return memset(area, 0xa5, sizeof *area);
}

static void use(struct area *area)
{
    const stack_t stack = {.ss_sp = area->alternate, .ss_size = ALTERNATE};
    own = area;
    SHOW_ERROR(sigaltstack(&stack, NULL));
}

/* Returns how often it was found changed. */
static void *run_code(void *argument)
{
    long changed = 0;
    use(argument);
    running++;
    for (int turn = 0; turn < TURNS || !all_sent; turn++) {
        compute(own, 1000000);
        for (int i = 0; i < WORDS; i++)
            changed += own->below[i] != 0xa5a5a5a5a5a5a5a5u;
    }
    return (void *)changed;
}

static void test_code_without_room(void)
{
    pthread_t threads[THREADS];
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaddset(&action.sa_mask, SIGUSR2);
    sigaction(SIGUSR1, &action, NULL);
    use(new_area());
    for (int i = 0; i < THREADS; i++)
        threads[i] = start(run_code, new_area());
    while (running < THREADS)
        sched_yield();
    for (int i = 0; i < SIGNALS_SENT; i++) {
        pthread_kill(threads[i % THREADS], SIGUSR1);
        sleep_ms(1);
    }
    all_sent = true;
    for (int i = 0; i < THREADS; i++)
        SHOW((long)finish(threads[i]));
    SHOW(handled > 0);
    SHOW(misplaced);
}

static void *send_to_main(void *main_thread)
{
    for (int i = 0; !all_sent; i++) {
        pthread_kill(*(pthread_t *)main_thread, i % 2 ? SIGUSR1 : SIGUSR2);
        sleep_ms(1);
    }
    return NULL;
}

/* It computes meanwhile, and is preempted: two threads have a processor at most. */
static void test_both_kinds_of_handlers(void)
{
    struct sigaction action = {.sa_handler = note_on_stack};
    pthread_t self = pthread_self();
    sigaction(SIGUSR2, &action, NULL);
    all_sent = false;
    pthread_t sender = start(send_to_main, &self), other = start(run_code, new_area());
    while (of_main < SIGNALS_SENT)
        for (volatile int turn = 0; turn < 1000; turn++)
            ;
    all_sent = true;
    SHOW((long)finish(other));
    finish(sender);
    SHOW(misplaced);
}

/* ---- What holds after a handler ---- */

static char stack[1 << 16], other_stack[1 << 16];
static pid_t child;

static void change_stack(int number)
{
    stack_t new = {.ss_sp = other_stack, .ss_size = sizeof other_stack}, old;
    (void)number;
    SHOW(sigaltstack(&new, &old));
    SHOW(old.ss_flags);
}

static void fork_in_handler(int number)
{
    (void)number;
    child = fork();
}

static void show_stack(int flags, int action_flags)
{
    stack_t set = {.ss_sp = stack, .ss_size = sizeof stack, .ss_flags = flags}, now;
    struct sigaction action = {.sa_handler = change_stack, .sa_flags = action_flags};
    SHOW(sigaltstack(&set, NULL));
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    SHOW(sigaltstack(NULL, &now));
    SHOW(now.ss_sp == stack);
    SHOW(now.ss_flags);
}

static void *test_changes_in_handlers(void *unused)
{
    struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_ONSTACK};
    int status = -1, blocked = 0;
    sigset_t mask;
    show_stack(0, 0);
    show_stack((int)(1u << 31), 0); /* SS_AUTODISARM */
    show_stack((int)(1u << 31), SA_ONSTACK);
    sigaction(SIGUSR1, &action, NULL);
    fflush(stdout);
    raise(SIGUSR1);
    if (child == 0) {
        pthread_sigmask(SIG_BLOCK, NULL, &mask);
        for (int i = 1; i < SIGRTMIN; i++)
            blocked += sigismember(&mask, i) == 1;
        _exit(blocked);
    }
    waitpid(child, &status, 0);
    SHOW(status);
    return unused;
}

/* ---- A handler for the alternate stack, where there is none, and no room either ---- */

static void exit_from_handler(int number)
{
    _exit(number);
}

static long use_all(volatile long depth)
{
    volatile char room[512] = {0};
    return depth < 0 ? room[0] : use_all(depth + 1) + room[0];
}

static void *overflow(void *unused)
{
    use_all(0);
    return unused;
}

static void test_overflow_without_an_alternate_stack(void)
{
    int status = 0;
    fflush(stdout);
    pid_t forked = fork();
    if (!forked) {
        struct sigaction action = {.sa_handler = exit_from_handler, .sa_flags = SA_ONSTACK};
        sigaction(SIGSEGV, &action, NULL);
        finish(start(overflow, NULL));
        _exit(0);
    }
    waitpid(forked, &status, 0);
    SHOW(WIFSIGNALED(status) ? WTERMSIG(status) : -1);
}

int main(void)
{
    test_overflow_without_an_alternate_stack();
    finish(start(test_changes_in_handlers, NULL));
    test_code_without_room();
    test_both_kinds_of_handlers();
    return 0;
}
