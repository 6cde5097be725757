/* Fibers of the thread sanitizer, and stacks that the leak sanitizer would not find. Both
 * sanitizers are in the program: their functions are declared here, as each is in one build. */
#include "compiler/runtime/start/sanitizer.h"
#include "compiler/runtime/signals/masks.h"
#include "compiler/runtime/threads/thread.h"

#if defined GS_CC_ASAN || defined GS_CC_TSAN
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#define PAGE ((size_t)4096)

static char *end_of_page(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return (char *)((here + PAGE - 1) / PAGE * PAGE);
}
#endif

#ifdef GS_CC_TSAN
enum { NO_SYNC = 1 };
void *tsan_create_fiber(unsigned flags) __asm__("__tsan_create_fiber");
void *tsan_get_current_fiber(void) __asm__("__tsan_get_current_fiber");
void tsan_switch_to_fiber(void *fiber, unsigned flags) __asm__("__tsan_switch_to_fiber");
void tsan_destroy_fiber(void *fiber) __asm__("__tsan_destroy_fiber");

/* As the worker's own stack is on most systems. */
#define STACK_SIZE ((size_t)8 << 20)

/* Read by the library (src/thread/report/report.c): its switches are known to the sanitizer. */
const char gs_cc_tells_tsan __attribute__((visibility("default"))) = 1;

/* The worker itself. What it does on its own is no access of the program's. */
static _Thread_local void *native;

/* The sanitizer defers a signal until the fiber that it interrupted makes a call that is
 * intercepted; so that a fiber keeps none while it waits, none comes during the switch. */
static void switch_to(void *fiber, unsigned flags)
{
    static sigset_t all;
    static _Thread_local sigset_t before;
    if (!sigismember(&all, SIGUSR1))
        sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    tsan_switch_to_fiber(fiber, flags);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void gs_cc_sanitizer_new(struct thread *thread)
{
    thread->fiber = tsan_create_fiber(0);
    thread->own_stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (thread->own_stack == MAP_FAILED)
        abort();
}

static pthread_key_t worker_key;

static void end_worker(void *unused)
{
    (void)unused;
    gs_cc_sanitizer_stop();
}

static void make_worker_key(void)
{
    if (pthread_key_create(&worker_key, end_worker))
        abort();
}

/* A kernel thread that ends must ignore nothing. */
static void begin_worker(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_worker_key);
    pthread_setspecific(worker_key, &worker_key);
    sanitizer_begin_call();
}

/* What woke the thread has released it. */
void gs_cc_sanitizer_enter(struct thread *thread)
{
    if (!native)
        begin_worker();
    native = tsan_get_current_fiber();
    switch_to(thread->fiber, NO_SYNC);
    sanitizer_acquire(thread);
}

void gs_cc_sanitizer_leave(struct thread *thread)
{
    if (thread->is_exiting)
        sanitizer_release(&thread->join);
    switch_to(native, NO_SYNC);
}

void gs_cc_sanitizer_stop(void)
{
    if (native)
        sanitizer_end_call();
    native = NULL;
}

/* As there are several fibers, the sanitizer takes the child for that of a process with several
 * threads. There, signals that come while the fiber waits that has called fork are deferred for
 * ever, and so it is with new ones: so the worker has one that was made before. */
void *gs_cc_sanitizer_fork(void)
{
    return tsan_create_fiber(0);
}

void gs_cc_sanitizer_forked(void *fiber, bool is_child)
{
    if (!is_child) {
        tsan_destroy_fiber(fiber);
        return;
    }
    switch_to(fiber, NO_SYNC);
    sanitizer_begin_call();
}

void *gs_cc_sanitizer_stack(const struct thread *thread, size_t *ret_size)
{
    *ret_size = STACK_SIZE;
    return thread->own_stack;
}

/* The plugin has a call of the runtime ignored. */
void gs_cc_sanitizer_call(void (*fn)(void *), void *argument)
{
    sanitizer_end_call();
    fn(argument);
    sanitizer_begin_call();
}

static _Thread_local struct run {
    struct thread *thread;
    bool (*fn)(struct thread *thread);
    bool result;
    ucontext_t worker;
} running;

static void apply_mask(void)
{
    sanitizer_begin_call();
    gs_cc_masks_apply();
    sanitizer_end_call();
}

static void run(void)
{
    apply_mask();
    running.result = running.fn(running.thread);
    /* The first thread may have changed the mask, which swapcontext would set back. */
    pthread_sigmask(SIG_SETMASK, NULL, &running.worker.uc_sigmask);
}

bool gs_cc_sanitizer_run(struct thread *thread, bool (*fn)(struct thread *thread))
{
    ucontext_t own;
    running.thread = thread;
    running.fn = fn;
    getcontext(&own);
    own.uc_stack.ss_sp = thread->own_stack;
    own.uc_stack.ss_size = STACK_SIZE;
    own.uc_link = &running.worker;
    makecontext(&own, run, 0);
    swapcontext(&running.worker, &own);
    apply_mask(); /* it may also have changed meanwhile */
    return running.result;
}

void gs_cc_sanitizer_done(struct thread *thread)
{
    tsan_destroy_fiber(thread->fiber);
    munmap(thread->own_stack, STACK_SIZE);
}

void gs_cc_sanitizer_begin_stack(struct thread *thread, size_t size)
{
    (void)size;
    thread->end_of_stack = end_of_page();
}

void gs_cc_sanitizer_end_stack(struct thread *thread)
{
    (void)thread;
}

/* What stands for the stack that ends about there. An address of its own will not do: the page
 * behind it may be unknown to the sanitizer, which forgets what it knows of one that is unmapped.
 * Several stacks may have the same. */
static void *sync_of(const char *end)
{
    enum { AREA = 64 << 10, COUNT = 4096 };
    static uint64_t syncs[COUNT];
    return &syncs[((uintptr_t)end + AREA / 2) / AREA % COUNT];
}

/* The next thread that has the stack does not race with this one. */
void gs_cc_sanitizer_enter_stack(struct thread *thread)
{
    sanitizer_acquire(sync_of(thread->end_of_stack));
}

void gs_cc_sanitizer_leave_stack(struct thread *thread, bool is_last)
{
    if (is_last)
        sanitizer_release(sync_of(thread->end_of_stack));
}
#endif

#ifdef GS_CC_ASAN
/* Read by the library (src/thread/schedule/asan_program.c). */
const char gs_cc_tells_asan __attribute__((visibility("default"))) = 1;

/* Not of its whole size: where it begins within its first page is not known. */
#define UNKNOWN (2 * PAGE)

void lsan_register_root_region(const void *start,
                               size_t size) __asm__("__lsan_register_root_region");
void lsan_unregister_root_region(const void *start,
                                 size_t size) __asm__("__lsan_unregister_root_region");
/* Not in programs with the leak sanitizer alone. */
void sanitizer_start_switch_fiber(void **fake, const void *bottom,
                                  size_t size) __asm__("__sanitizer_start_switch_fiber")
    __attribute__((weak));
void sanitizer_finish_switch_fiber(void *fake, const void **bottom,
                                   size_t *size) __asm__("__sanitizer_finish_switch_fiber")
    __attribute__((weak));

/* The stack of the worker, while it runs a thread that has one. */
static _Thread_local struct {
    const void *bottom;
    size_t size;
    void *fake;
} native;

void gs_cc_sanitizer_begin_stack(struct thread *thread, size_t size)
{
    thread->end_of_stack = end_of_page();
    thread->stack_size = size - UNKNOWN;
    thread->fake = NULL;
    lsan_register_root_region(thread->end_of_stack - thread->stack_size, thread->stack_size);
}

void gs_cc_sanitizer_end_stack(struct thread *thread)
{
    lsan_unregister_root_region(thread->end_of_stack - thread->stack_size, thread->stack_size);
}

/* Both on the stack of the thread: the library has switched, or is about to. */
void gs_cc_sanitizer_enter_stack(struct thread *thread)
{
    if (!sanitizer_start_switch_fiber)
        return;
    sanitizer_start_switch_fiber(&native.fake, thread->end_of_stack - thread->stack_size,
                                 thread->stack_size);
    sanitizer_finish_switch_fiber(thread->fake, &native.bottom, &native.size);
}

void gs_cc_sanitizer_leave_stack(struct thread *thread, bool is_last)
{
    if (!sanitizer_start_switch_fiber)
        return;
    sanitizer_start_switch_fiber(is_last ? NULL : &thread->fake, native.bottom, native.size);
    sanitizer_finish_switch_fiber(native.fake, NULL, NULL);
}
#endif
