/* Stacks that the address and leak sanitizers would not find. They are in the program: their
 * functions are declared here. */
#include "compiler/runtime/start/sanitizer.h"
#include "compiler/runtime/threads/thread.h"

#ifdef GS_CC_ASAN

#define PAGE ((size_t)4096)

static char *end_of_page(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return (char *)((here + PAGE - 1) / PAGE * PAGE);
}

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
