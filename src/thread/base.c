/* Threads that bring a thread pointer (the FS base, TPIDR_EL0), and with it thread-local storage of their own. They are resumed by
 * the worker's own stack, which sets it before and puts its own back afterwards, so that switching between other threads knows
 * nothing of it. */
#include "thread/stacks.h"

#include <gossamer/sys.h>
#include <sys/syscall.h>

#ifdef __x86_64__
#include <asm/prctl.h>

/* Where programs may set the GS base, they may set the FS base, too. */
static void *read_base(void)
{
    void *base = NULL;
    if (gs_runtime.uses_gs)
        __asm__ volatile("rdfsbase %0" : "=r"(base));
    else
        gs_syscall(SYS_arch_prctl, ARCH_GET_FS, (long)&base, 0, 0, 0, 0);
    return base;
}

static void write_base(void *base)
{
    if (gs_runtime.uses_gs)
        __asm__ volatile("wrfsbase %0" : : "r"(base) : "memory");
    else
        gs_syscall(SYS_arch_prctl, ARCH_SET_FS, (long)base, 0, 0, 0, 0);
}
#else
static void *read_base(void)
{
    void *base;
    __asm__ volatile("mrs %0, tpidr_el0" : "=r"(base));
    return base;
}

static void write_base(void *base)
{
    __asm__ volatile("msr tpidr_el0, %0" : : "r"(base) : "memory");
}
#endif

/* What the compiler takes for the thread pointer: on x86-64 it stands where the base points. */
static void *thread_pointer(void)
{
    void *pointer;
#ifdef __x86_64__
    __asm__ volatile("movq %%fs:0, %0" : "=r"(pointer));
#else
    pointer = read_base();
#endif
    return pointer;
}

void gs_worker_note_base(struct worker *worker)
{
    worker->own_base = read_base();
}

/* The tick that is due at each switch sends the thread back here. A canary of the stack protector would be compared with that of
 * another thread-local storage. */
__attribute__((no_stack_protector)) void gs_thread_resume_based(struct worker *worker,
                                                                struct runnable *runnable)
{
    struct gs_thread *thread = gs_container_of(runnable, struct gs_thread, run);
    int countdown = worker->countdown;
    worker->is_based = true;
    worker->countdown = 0;
    write_base(thread->base);
    worker->own_thread = thread_pointer();
    gs_worker_run_thread(worker, thread);
    write_base(worker->own_base);
    worker->own_thread = thread_pointer();
    worker->is_based = false;
    worker->countdown = countdown;
}

struct worker *gs_worker_from_stack(const void *sp)
{
    const struct gs_thread *thread = gs_stacks_holding(sp);
    if (thread)
        return thread->base ? thread->worker : NULL;
    for (unsigned i = 0; i < gs_runtime.worker_count; i++) {
        struct worker *worker = gs_runtime.workers[i];
        if ((uintptr_t)sp - (uintptr_t)worker->stack < worker->stack_size)
            return worker;
    }
    return NULL;
}

/* Where the worker is found by the stack, that must be one of ours. */
bool gs_bases_are_supported(const struct gs_thread_attributes *attributes)
{
    return gs_runtime.uses_gs || (!attributes->stack && !attributes->start);
}

void gs_thread_set_base(struct gs_thread *thread, void *base)
{
    thread->base = base;
    thread->run.resume = base ? gs_thread_resume_based : NULL;
    if (UNLIKELY(base != NULL))
        atomic_store(&gs_runtime.has_bases, true);
}
