/* Threads with a thread pointer of their own (the FS base, TPIDR_EL0), and with it thread-local
 * storage of their own. They are resumed from the worker's own stack, which sets the thread pointer
 * before and restores it afterwards, so that switching between other threads is not affected.
 *
 * thread_extra.tls_base is the register's value while the thread runs; NULL: that of its worker.
 * worker.worker_tls_base is the value while the worker or any other thread runs.
 * worker.has_thread_tls_base says that a thread with a value of its own runs.
 * worker.on_end is the function of a thread that has ended while the thread pointer was its own; it
 * may free what that points to, so it is called when the worker's is restored.
 * worker.abi_thread_pointer is what __builtin_thread_pointer returns in the kernel thread now, by
 * which gs_worker_or_null recognizes it: on x86-64 this is not the register, but the word to which
 * the register points. */
#include "thread/schedule/thread_extra.h"
#include "thread/stack/stacks.h"

#include <gossamer/sys.h>
#include <sys/syscall.h>

#ifdef __x86_64__
#include <asm/prctl.h>

/* Where programs may set the GS base, they may also set the FS base. */
static void *read_tls_base(void)
{
    void *base = NULL;
    if (gs_runtime.uses_gsbase)
        __asm__ volatile("rdfsbase %0" : "=r"(base));
    else
        gs_syscall(SYS_arch_prctl, ARCH_GET_FS, (long)&base, 0, 0, 0, 0);
    return base;
}

static void write_tls_base(void *base)
{
    if (gs_runtime.uses_gsbase)
        __asm__ volatile("wrfsbase %0" : : "r"(base) : "memory");
    else
        gs_syscall(SYS_arch_prctl, ARCH_SET_FS, (long)base, 0, 0, 0, 0);
}
#else
static void *read_tls_base(void)
{
    void *base;
    __asm__ volatile("mrs %0, tpidr_el0" : "=r"(base));
    return base;
}

static void write_tls_base(void *base)
{
    __asm__ volatile("msr tpidr_el0, %0" : : "r"(base) : "memory");
}
#endif

/* What __builtin_thread_pointer returns: on x86-64 it is stored where the base points to. */
static void *read_abi_thread_pointer(void)
{
    void *pointer;
#ifdef __x86_64__
    __asm__ volatile("movq %%fs:0, %0" : "=r"(pointer));
#else
    pointer = read_tls_base();
#endif
    return pointer;
}

void gs_worker_save_tls_base(struct worker *worker)
{
    worker->worker_tls_base = read_tls_base();
}

/* `countdown` is 0, so each switch calls gs_worker_tick, and returns to the worker's own stack. No
 * stack protector: its canary would be compared with that of another thread-local storage. */
__attribute__((no_stack_protector)) void gs_thread_resume_with_tls_base(struct worker *worker,
                                                                        struct runnable *runnable)
{
    struct gs_thread *thread = gs_container_of(runnable, struct gs_thread, run);
    int countdown = worker->countdown;
    worker->has_thread_tls_base = true;
    worker->countdown = 0;
    write_tls_base(thread->extra->tls_base);
    worker->abi_thread_pointer = read_abi_thread_pointer();
    gs_worker_run_thread(worker, thread);
    write_tls_base(worker->worker_tls_base);
    worker->abi_thread_pointer = read_abi_thread_pointer();
    worker->has_thread_tls_base = false;
    worker->countdown = countdown;
    void (*on_end)(void *) = worker->on_end;
    if (UNLIKELY(on_end != NULL)) {
        worker->on_end = NULL;
        on_end(worker->end_result);
    }
}

__attribute__((no_stack_protector)) void gs_worker_restore_tls_base(struct worker *worker)
{
    write_tls_base(worker->worker_tls_base);
    worker->abi_thread_pointer = read_abi_thread_pointer();
}

/* Where the worker is found by the stack pointer, the stack must be one of ours. */
bool gs_tls_bases_are_supported(const struct gs_thread_attributes *attributes)
{
    return gs_runtime.uses_gsbase || (!attributes->stack && !attributes->start);
}

void gs_thread_set_tls_base(struct gs_thread *thread, void *base)
{
    thread->extra->tls_base = base;
    thread->run.resume = gs_thread_resume_with_tls_base;
    atomic_store(&gs_runtime.has_tls_bases, true);
}
