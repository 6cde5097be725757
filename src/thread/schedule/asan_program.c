/* A program that is compiled with the address sanitizer, and a library that is not: the sanitizer
 * must know which stack is in use, or exceptions and longjmp leave memory poisoned that is not
 * theirs. Each thread is resumed from the worker's own stack, by a function that notifies it, and
 * stays on its worker: so a switch costs nothing more in other programs. */
#include "thread/stack/stacks.h"

/* Defined in programs with the sanitizer. */
extern void start_switch(void **ret_fake_stack, const void *bottom,
                         size_t size) __asm__("__sanitizer_start_switch_fiber")
    __attribute__((weak));
extern void finish_switch(void *fake_stack, const void **ret_bottom,
                          size_t *ret_size) __asm__("__sanitizer_finish_switch_fiber")
    __attribute__((weak));
extern void unpoison(const volatile void *bottom,
                     size_t size) __asm__("__asan_unpoison_memory_region") __attribute__((weak));

/* Defined by the runtime of `gossamer cc` for such programs, and by `gossamer run`, whose threads
 * have thread pointers of their own: they tell the sanitizer, or need not. */
extern const char gs_cc_tells_asan __attribute__((weak));
extern const char gs_run_needs_no_asan __attribute__((weak));

bool gs_asan_is_in_program(void)
{
    return !GS_ASAN && start_switch && finish_switch && unpoison && !&gs_cc_tells_asan &&
           !&gs_run_needs_no_asan;
}

static size_t size_of_stack(const struct gs_thread *thread)
{
    return (size_t)(thread->stack_top - gs_stack_bottom(thread));
}

/* What the sanitizer keeps for the thread while that waits; above its stack. */
static void **fake_stack_of(const struct gs_thread *thread)
{
    return (void **)((uintptr_t)thread->stack_top & ~(uintptr_t)15) - 1;
}

void gs_asan_init_thread(struct gs_thread *thread)
{
    unpoison(gs_stack_bottom(thread), size_of_stack(thread));
    *fake_stack_of(thread) = NULL;
    thread->run.resume = gs_thread_resume_annotated;
    thread->migrates = false;
}

void gs_thread_resume_annotated(struct worker *worker, struct runnable *runnable)
{
    struct gs_thread *thread = gs_container_of(runnable, struct gs_thread, run);
    void **fake_stack = fake_stack_of(thread), *own;
    const void *bottom;
    size_t size;
    worker->ended_at_resume = count_read(&worker->ended);
    start_switch(&own, gs_stack_bottom(thread), size_of_stack(thread));
    finish_switch(*fake_stack, &bottom, &size);
    gs_worker_run_thread(worker, thread);
    /* Of a thread that has ended nothing is kept. */
    bool has_ended = count_read(&worker->ended) != worker->ended_at_resume;
    start_switch(has_ended ? NULL : fake_stack, bottom, size);
    finish_switch(own, NULL, NULL);
}
