/* How the worker of the current kernel thread is found. On x86-64 the GS base points to it, where
 * the kernel allows programs to set that: nothing else uses it, and reading it is one load.
 * Elsewhere it is a thread-local variable, read through a function that is never inlined: a
 * compiler may keep the address of such a variable, which would be wrong when a thread has resumed
 * on another worker. In a kernel thread that may be no worker, where the GS base may be 0, that
 * variable is also faster than the instruction that reads the base. */
#include "thread/schedule/thread_extra.h"
#include "thread/stack/stacks.h"

#include <gossamer/sys.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

/* In the shared library, too, without a call of __tls_get_addr, which may allocate memory. */
static __thread __attribute__((tls_model("initial-exec"))) struct worker *tls_worker;

struct worker *gs_worker_from_stack(const void *sp)
{
    const struct gs_thread *thread = gs_stacks_find(sp);
    const struct thread_extra *extra = thread ? thread_extra(thread) : NULL;
    if (thread)
        return extra && extra->tls_base ? thread->worker : NULL;
    for (unsigned i = 0; i < gs_runtime.worker_count; i++) {
        struct worker *worker = gs_runtime.workers[i];
        if ((uintptr_t)sp - (uintptr_t)worker->stack < worker->stack_size)
            return worker;
    }
    return NULL;
}

static bool has_tls_bases(void)
{
    return UNLIKELY(atomic_load_explicit(&gs_runtime.has_tls_bases, memory_order_relaxed));
}

__attribute__((noinline)) struct worker *gs_worker_from_tls(void)
{
    struct worker *worker;
    if (has_tls_bases() && (worker = gs_worker_from_stack(__builtin_frame_address(0))))
        return worker;
    worker = tls_worker;
    __asm__ volatile("" : "+r"(worker));
    return worker;
}

/* Outside of a run this is called, whether or not the register is used during one: so the check
 * costs no instruction where that is used. */
struct worker *gs_worker_or_stop(void)
{
    static const char text[] =
        "gossamer: a function for user threads was called outside of gs_threads_run\n";
    struct worker *worker = gs_worker_from_tls();
    if (LIKELY(worker != NULL))
        return worker;
    gs_sys_write(STDERR_FILENO, text, sizeof text - 1);
    abort();
}

#ifdef __x86_64__
#define HWCAP2_FSGSBASE (1u << 1)

__attribute__((constructor)) static void detect_gs_base(void)
{
    gs_runtime.uses_gsbase = getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE;
}

static struct worker *read_gs_base(void)
{
    struct worker *worker;
    __asm__ volatile("rdgsbase %0" : "=r"(worker));
    return worker;
}

void gs_worker_set_current(struct worker *worker)
{
    tls_worker = worker;
    if (!gs_runtime.uses_gsbase)
        return;
    if (worker) {
        __atomic_store_n(&worker->abi_thread_pointer, __builtin_thread_pointer(), __ATOMIC_RELAXED);
        worker->saved_gs_base = read_gs_base();
    } else {
        struct worker *previous = read_gs_base();
        /* The next kernel thread with this thread pointer is a different one. */
        __atomic_store_n(&previous->abi_thread_pointer, NULL, __ATOMIC_RELAXED);
        worker = previous->saved_gs_base;
    }
    __asm__ volatile("wrgsbase %0" : : "r"(worker) : "memory");
}

/* A kernel thread that is created by a worker inherits the GS base, and keeps it when the worker
 * has ended: the thread pointer tells them apart. The memory of a worker is only reused for
 * workers. */
NOT_FOR_TSAN struct worker *gs_worker_or_null(void)
{
    if (!has_tls_bases() || !gs_runtime.uses_gsbase)
        return gs_worker_from_tls();
    struct worker *worker = read_gs_base();
    return worker && __atomic_load_n(&worker->abi_thread_pointer, __ATOMIC_RELAXED) ==
                         __builtin_thread_pointer()
               ? worker
               : NULL;
}
#else
void gs_worker_set_current(struct worker *worker)
{
    tls_worker = worker;
}

struct worker *gs_worker_or_null(void)
{
    return gs_worker_from_tls();
}
#endif
