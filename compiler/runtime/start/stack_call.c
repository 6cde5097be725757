/* Calls on a stack: of functions that are not converted, of others that call back, and all that the
 * first thread does. */
#include "compiler/runtime/start/memory.h"
#include "compiler/runtime/start/stack_size.h"
#include "compiler/runtime/threads/attributes.h"
#include "compiler/runtime/threads/thread.h"

#include <sys/resource.h>

/* Stacks for calls that were not compiled, and for the end of threads: as those of POSIX threads on
 * most systems, or less if there are too many; and for waits of the runtime. */
#define STACK_SIZE ((size_t)8 << 20)
#define LARGEST_STACK_SIZE ((size_t)64 << 20)
#define SMALLER_STACK_SIZE ((size_t)1 << 20)
#define WAIT_STACK_SIZE ((size_t)256 << 10)

void gs_cc_end_stack(struct thread *self)
{
    kept_leave(self);
    gs_cc_state.self = NULL;
    gs_cc_sanitizer_leave_stack(self, true);
    gs_cc_sanitizer_end_stack(self);
}

struct stack_call {
    struct thread *thread;
    void (*call)(void *);
    void *box;
    size_t size;
};

/* As much as the system gives the first thread of a process, within what the library has. */
static size_t size_of_first(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur <= STACK_SIZE)
        return STACK_SIZE;
    return LARGEST_STACK_SIZE;
}

/* What is above the frame of the function that starts a call is on the same page. */
static void note_stack(struct thread *thread, const char *frame, size_t size)
{
    enum { PAGE = 4096 };
    struct extra *extra = gs_cc_extra(thread);
    extra->end_of_stack = (char *)frame + (PAGE - (uintptr_t)frame % PAGE);
    extra->stack_size = size;
}

static void *run_on_stack(void *argument)
{
    struct stack_call call = *(struct stack_call *)argument;
    struct thread *thread = call.thread;
    note_stack(thread, __builtin_frame_address(0), call.size);
    gs_cc_release(argument, sizeof call);
    gs_cc_sanitizer_begin_stack(thread, call.size);
    return_to_stack(thread);
    gs_cc_state.suspending = 0;
    errno = thread->err;
    /* The calls that it makes have phases and progress of their own. */
    size_t progress = thread->progress;
    thread->progress = 0;
    set_phase(thread, PHASE_NEW);
    call.call(call.box);
    thread->progress = progress;
    thread->err = errno;
    gs_cc_end_stack(thread);
    atomic_store(&thread->phase, PHASE_GRANTED);
    __atomic_store_n(&thread->stack, NULL, __ATOMIC_RELEASE);
    gs_resumable_wake(&thread->resumable);
    return NULL;
}

/* A stack of the program's is used if it has room for what the call is known to need, or at least
 * for what the runtime does. */
static void choose_stack(const struct attributes *has, struct gs_thread_attributes *attributes)
{
    enum { LEAST = 64 << 10, ALIGNMENT = 64 };
    uintptr_t lowest = ((uintptr_t)has->stack + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
    size_t skipped = lowest - (uintptr_t)has->stack;
    size_t needed = attributes->stack_size < STACK_SIZE ? attributes->stack_size : LEAST;
    if (has->stack && has->stack_size >= needed + skipped) {
        attributes->stack = (char *)has->stack + skipped;
        attributes->stack_size = (has->stack_size - skipped) & ~(size_t)(ALIGNMENT - 1);
    } else if (has->stack_size > STACK_SIZE && attributes->stack_size == STACK_SIZE) {
        attributes->stack_size = has->stack_size;
    }
}

static int spawn(struct thread *self, struct stack_call *call, size_t size,
                 const struct attributes *has)
{
    struct gs_thread_attributes attributes = {
        .name = "stack call", .stack_size = size, .worker = gs_threads_worker()};
    if (has && size != WAIT_STACK_SIZE)
        choose_stack(has, &attributes);
    call->size = attributes.stack_size;
    return gs_thread_spawn(&attributes, run_on_stack, call, &self->stack);
}

static void call_on_stack(void (*call)(void *), void *box, size_t size)
{
    struct thread *self = thread_self();
    if (!self || self->stack) {
        call(box);
        return;
    }
    if (self->phase == PHASE_GRANTED) {
        gs_cc_complete(self);
        return;
    }
    struct stack_call *argument = gs_cc_allocate(sizeof *argument);
    *argument = (struct stack_call){self, call, box, 0};
    set_phase(self, PHASE_WAITING);
    self->err = errno;
    if (spawn(self, argument, size, gs_cc_attributes_of(self)) &&
        spawn(self, argument, SMALLER_STACK_SIZE, NULL)) {
        gs_cc_release(argument, sizeof *argument);
        call(box); /* no memory for a stack: the worker waits with it */
        gs_cc_complete(self);
        return;
    }
    gs_thread_detach(self->stack);
    gs_cc_suspend(self, false);
}

void gs_cc___on_stack(void (*call)(void *), void *box, const unsigned *need)
{
    call_on_stack(call, box, gs_cc_stack_size_for(*need, STACK_SIZE));
}

void gs_cc_call_on_stack(void (*call)(void *), void *box)
{
    call_on_stack(call, box, STACK_SIZE);
}

void gs_cc_run_first(void (*call)(void *))
{
    call_on_stack(call, NULL, size_of_first());
}

void gs_cc_wait_on_stack(void (*call)(void *), void *box)
{
    call_on_stack(call, box, WAIT_STACK_SIZE);
}
