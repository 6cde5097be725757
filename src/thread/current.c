/* Which worker runs on this kernel thread. On x86-64 the GS base says so, where the kernel lets programs set it: nothing else
 * uses it, and it costs one load. Elsewhere it is a thread-local variable, read through a function that is never inlined: a
 * compiler keeps the address of such a variable, which would be wrong once a thread has gone on elsewhere. */
#include "thread/state.h"

#include "loop/state.h"

#include <sys/auxv.h>

static __thread struct worker *tls_worker;

__attribute__((noinline)) struct worker *gs_worker_from_tls(void)
{
    struct worker *worker;
    if (UNLIKELY(atomic_load_explicit(&gs_runtime.has_bases, memory_order_relaxed)) &&
        (worker = gs_worker_from_stack(__builtin_frame_address(0))))
        return worker;
    worker = tls_worker;
    __asm__ volatile("" : "+r"(worker));
    return worker;
}

#ifdef __x86_64__
#define HWCAP2_FSGSBASE (1u << 1)

/* Before any worker runs. */
__attribute__((constructor)) static void choose(void)
{
    gs_runtime.uses_gs = getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE;
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
    if (!gs_runtime.uses_gs)
        return;
    if (worker) {
        worker->own_thread = __builtin_thread_pointer();
        worker->gs_before = read_gs_base();
    } else {
        worker = ((struct worker *)read_gs_base())->gs_before;
    }
    __asm__ volatile("wrgsbase %0" : : "r"(worker) : "memory");
}

/* A kernel thread that a worker makes inherits the GS base: the thread pointer tells them apart. */
struct worker *gs_worker_or_null(void)
{
    if (!gs_runtime.uses_gs)
        return gs_worker_from_tls();
    struct worker *worker = read_gs_base();
    return worker && worker->own_thread == __builtin_thread_pointer() ? worker : NULL;
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

/* Threads run when all that a step has found was told, each on memory of its own: what waking them has brought into the caches
 * should still be there. */
#define BATCH 32

void gs_worker_bound_loop(struct gs_loop *loop)
{
    loop->batch = BATCH;
}

const uint64_t *gs_worker_clock(const struct gs_loop *loop)
{
    return &loop->now_ns;
}

uint64_t gs_threads_now(void)
{
    return *worker_current()->now_ns;
}

/* A sanitizer knows where the running thread's stack is, and that is not to change. */
void *gs_thread_borrow(void *(*fn)(void *argument), void *argument)
{
    struct worker *worker = worker_current();
    if (GS_ASAN || GS_TSAN || UNLIKELY(worker->is_based))
        return fn(argument);
    return gs_context_call(fn, argument, (void *)((uintptr_t)worker->sp & ~(uintptr_t)15));
}
