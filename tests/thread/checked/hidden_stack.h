/* Hiding the stack of a waiting thread: until the thread itself continues on it, each use of it
 * ends the program, and a system call that is given one of its addresses fails. */
#ifndef GS_TESTS_THREAD_CHECKED_HIDDEN_STACK_H
#define GS_TESTS_THREAD_CHECKED_HIDDEN_STACK_H

#include "tests/thread/fixture.h"
#include "thread/schedule/thread.h"

#include <sys/mman.h>
#include <ucontext.h>

static const char *hidden_name; /* for messages */
static char *_Atomic hidden_start;
static atomic_size_t hidden_size;

/* Returns whether it was hidden. */
static bool show_stack(void)
{
    char *start = atomic_exchange(&hidden_start, NULL);
    if (start)
        MUST_EQ(mprotect(start, hidden_size, PROT_READ | PROT_WRITE), 0);
    return start;
}

/* Returns whether it is hidden now: the thread waits. If it is about to continue, it shows the
 * stack. */
static bool hide_stack(const struct gs_thread *thread)
{
    char *start = thread->stack;
    size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
    if (atomic_load(&thread->claim) != CLAIM_WAITING)
        return false;
    if (atomic_load(&hidden_start))
        return true;
    atomic_store(&hidden_size,
                 (size_t)(thread->stack_top - start + (ptrdiff_t)page_size - 1) & ~(page_size - 1));
    atomic_store(&hidden_start, start);
    MUST_EQ(mprotect(start, hidden_size, PROT_NONE), 0);
    return true;
}

static uintptr_t stack_pointer_of(const void *context)
{
    const ucontext_t *interrupted = context;
#ifdef __x86_64__
    return (uintptr_t)interrupted->uc_mcontext.gregs[REG_RSP];
#else
    return (uintptr_t)interrupted->uc_mcontext.sp;
#endif
}

/* The thread itself uses it if the stack pointer is there. */
static void on_use(int number, siginfo_t *info, void *context)
{
    uintptr_t start = (uintptr_t)atomic_load(&hidden_start);
    bool is_there = start && (uintptr_t)info->si_addr - start < hidden_size;
    if (is_there && stack_pointer_of(context) - start < hidden_size) {
        show_stack();
        return;
    }
    if (is_there) {
        fprintf(stderr, "%s: the stack of a waiting thread is used\n", hidden_name);
        _exit(1);
    }
    signal(number, SIG_DFL);
}

/* Called by a user thread. */
static void catch_uses(void)
{
    struct sigaction action = {.sa_sigaction = on_use, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    MUST_EQ(sigaction(SIGSEGV, &action, NULL), 0);
}

#endif
