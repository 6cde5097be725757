/* The life of a thread: it starts and resumes on the stack of its worker, and ends. */
#include "compiler/runtime/threads/thread.h"
#include "compiler/runtime/libraries/library_locals.h"
#include "compiler/runtime/locks/shared_mutex.h"
#include "compiler/runtime/signals/masks.h"
#include "compiler/runtime/signals/signals.h"
#include "compiler/runtime/start/memory.h"
#include "compiler/runtime/threads/attributes.h"
#include "compiler/runtime/threads/threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

_Thread_local struct gs_cc_state gs_cc_state __attribute__((tls_model("initial-exec")));

void gs_cc_spin(atomic_flag *lock)
{
    for (unsigned turns = 1; atomic_flag_test_and_set_explicit(lock, memory_order_acquire); turns++)
        if (turns % 1024 == 0)
            sched_yield();
}

struct extra *gs_cc_extra(struct thread *thread)
{
    if (!thread->extra)
        thread->extra = memset(gs_cc_allocate(sizeof *thread->extra), 0, sizeof *thread->extra);
    return thread->extra;
}

/* ---- The end ---- */

static void free_records(struct gs_cc_record *record)
{
    while (record) {
        struct gs_cc_record *caller = record->caller;
        gs_cc_record_free(record);
        record = caller;
    }
}

/* Programs join threads that have detached themselves: until its memory is used again, it remains a
 * detached one, which cannot be joined. */
void gs_cc_free_thread(struct thread *thread)
{
    atomic_store_explicit(&thread->join, JOIN_DETACHED, memory_order_relaxed);
    gs_cc_signals_forget(thread);
    if (has_attributes(thread))
        gs_cc_attributes_forget(thread);
    if (thread->extra) {
        gs_cc_free_pending(thread);
        free(thread->extra->values);
        gs_cc_release_locals(thread->extra->locals);
        free(thread->extra->ceilings);
        gs_cc_kept_free(thread->extra);
        gs_cc_release(thread->extra, sizeof *thread->extra);
    }
    gs_cc_thread_release(thread);
}

/* Its worker does not touch it any more when it is done: whoever joins it frees it. */
static void complete(struct thread *thread)
{
    gs_resumable_end(&thread->resumable);
    gs_cc_masks_end(thread);
    gs_cc_shared_end(thread);
    if (thread->extra)
        gs_cc_alternate_stack_end(thread);
    uintptr_t join = gs_cc_end_for_joiner(thread);
    if (join == JOIN_DETACHED)
        gs_cc_free_thread(thread);
    else if (join != JOIN_NONE)
        gs_cc_wake((struct thread *)join);
}

static void end_process(void *status)
{
    exit((int)(intptr_t)status);
}

static void clean_up(void *thread)
{
    gs_cc_run_cleanups(thread);
    gs_cc_run_enders(thread);
    gs_cc_destroy_values(thread);
}

static void free_frames(struct gs_cc_state *state, struct thread *thread)
{
    state->suspending = 0;
    free_records(thread->record);
    thread->record = NULL;
    if (thread->extra && thread->extra->cleanups)
        return; /* they are in environments, as what they look at */
    while (thread->environments)
        gs_cc_environment_free((char *)thread->environments + 16);
}

static void finish(struct thread *thread)
{
    struct gs_cc_state *state = &gs_cc_state;
    unsigned char kept = has_attributes(thread) ? HAS_ATTRIBUTES : 0;
    atomic_store_explicit(&thread->cancel, CANCEL_DISABLED | kept, memory_order_relaxed);
    thread->is_exiting = true;
    bool ends_process = thread->is_first && thread->has_returned;
    if (!ends_process && gs_cc_has_cleanups(thread)) {
        gs_cc_complete(thread);
        gs_cc_call_on_stack(clean_up, thread);
        state->suspending = 0;
        return; /* it is resumed when this is done */
    }
    gs_cc_complete(thread);
    /* Handlers of the exit may wait, so they need a stack. */
    if (ends_process)
        gs_cc_call_on_stack(end_process, thread->argument);
    else
        complete(thread);
}

void gs_cc_exit(struct thread *self, void *result)
{
    self->argument = result;
    self->is_exiting = true;
    if (!self->stack) {
        gs_cc_state.suspending = 1;
        return;
    }
    gs_cc_run_cleanups_on_stack(self);
    __atomic_store_n(&self->stack, NULL, __ATOMIC_RELEASE);
    gs_resumable_wake(&self->resumable);
    gs_cc_end_stack(self);
    gs_thread_exit(NULL);
}

/* ---- Running ---- */

#define CACHE_LINE 64

/* Resume calls from the innermost on, until one has to wait. Returns whether all are complete. */
static bool resume_records(struct gs_cc_state *state, struct thread *thread)
{
    struct gs_cc_record *record = thread->record;
    while (record) {
        struct gs_cc_record *caller = record->caller;
        thread->record = caller; /* for dumps: the record ends now */
        record->site->resume(record);
        if (state->suspending) {
            thread->record = state->first ? state->first : caller;
            if (state->last)
                state->last->caller = caller;
            return false;
        }
        record = caller;
    }
    thread->record = NULL;
    thread->argument = (void *)state->result[0];
    thread->has_returned = true;
    return true;
}

static bool start(struct gs_cc_state *state, struct thread *thread)
{
    void *(*fn)(void *) = thread->start;
    thread->has_started = true;
    thread->environments = NULL;
    void *result = fn(thread->argument);
    if (state->suspending) {
        thread->record = state->first;
        return false;
    }
    thread->argument = result;
    thread->has_returned = true;
    return true;
}

/* Returns whether its calls are over, and it waits for none. */
static bool go_on(struct thread *thread)
{
    struct gs_cc_state *state = &gs_cc_state;
    if (!thread->is_exiting &&
        (thread->has_started ? resume_records(state, thread) : start(state, thread)))
        thread->is_exiting = true;
    thread->err = *state->err;
    kept_leave(thread);
    if (!thread->is_exiting || thread->stack)
        return false;
    free_frames(state, thread);
    return true;
}

/* What it has left when it began to wait is no longer in the cache: all of it comes back at once,
 * and not one after the other. */
static inline void prefetch(const struct thread *thread)
{
    for (size_t line = 0; line < 2; line++) {
        __builtin_prefetch((const char *)thread->record + line * CACHE_LINE);
        __builtin_prefetch((const char *)thread->environments + line * CACHE_LINE, 1);
    }
}

static void step(struct gs_resumable *resumable)
{
    struct gs_cc_state *state = &gs_cc_state;
    struct thread *thread = gs_container_of(resumable, struct thread, resumable);
    bool was_at_descriptor = resumable->fd >= 0;
    prefetch(thread);
    if (was_at_descriptor)
        gs_resumable_unwatch(resumable);
    if (thread->stack) { /* the wake-up has missed it */
        if (thread->is_polling)
            gs_thread_cancel(thread->stack);
        else
            gs_cc_wake(thread);
        return;
    }
    state->self = thread;
    state->suspending = 0;
    state->may_leave = 1;
    state->steps++;
    state->first = state->last = NULL;
    if (!state->err)
        state->err = &errno;
    *state->err = thread->err;
    if (__builtin_expect(must_enter(state, thread), 0))
        gs_cc_scheduling_enter(thread);
    kept_enter(thread);
    if (__builtin_expect(!has_handed(thread), 1) ||
        !gs_cc_signals_handle_in_step(thread, was_at_descriptor)) {
        if (go_on(thread))
            finish(thread);
    }
    state->suspending = state->may_leave = 0;
    state->self = NULL;
}

static struct thread *new_thread(void *(*fn)(void *), void *argument)
{
    struct thread *thread = gs_cc_thread_allocate();
    /* Not all of it: gcc would do that by an instruction that takes 10 ns. */
    memset(&thread->record, 0, sizeof *thread - offsetof(struct thread, record));
    gs_resumable_init(&thread->resumable, step);
    thread->start = fn;
    thread->argument = argument;
    return thread;
}

/* Threads stay on the worker where they start; they are dealt out in turn. */
static unsigned next_worker(void)
{
    static atomic_uint count;
    return gs_cc_workers == 1 ? 0 : atomic_fetch_add(&count, 1) % gs_cc_workers + 1;
}

int gs_cc_pthread_create(pthread_t *ret_thread, const pthread_attr_t *attributes,
                         void *(*fn)(void *), void *argument)
{
    int state = PTHREAD_CREATE_JOINABLE, err = 0;
    const struct thread *self = thread_self();
    if (!attributes)
        attributes = gs_cc_default_attributes();
    if (attributes)
        pthread_attr_getdetachstate(attributes, &state);
    struct thread *thread = new_thread(fn, argument);
    atomic_init(&thread->join, state == PTHREAD_CREATE_DETACHED ? JOIN_DETACHED : JOIN_NONE);
    if (attributes || (self && has_attributes(self)))
        err = gs_cc_attributes_create(thread, attributes);
    if (err) {
        gs_cc_free_thread(thread);
        return err;
    }
    *ret_thread = (pthread_t)thread;
    if (gs_cc_kept)
        gs_cc_kept_new(thread);
    gs_cc_masks_new(thread, attributes);
    err = gs_resumable_start(&thread->resumable, next_worker());
    if (err) {
        gs_cc_masks_end(thread);
        gs_cc_free_thread(thread);
    }
    return -err;
}

struct thread *gs_cc_start_first(void *(*fn)(void *))
{
    struct thread *thread = new_thread(fn, NULL);
    thread->is_first = true;
    gs_cc_signals_start(thread, false);
    return gs_resumable_start(&thread->resumable, 0) ? NULL : thread;
}

/* ---- Calls of the program ---- */

void gs_cc_pthread_exit(void *result)
{
    if (!thread_self() && gs_cc_is_outside())
        pthread_exit(result);
    gs_cc_exit(thread_self(), result);
}

/* In a handler, the thread whose signal it is. */
pthread_t gs_cc_pthread_self(void)
{
    struct thread *self = thread_self();
    if (!self && gs_cc_is_outside())
        return pthread_self();
    return (pthread_t)(self ? self : gs_cc_handling.target);
}

int gs_cc_pthread_equal(pthread_t one, pthread_t other)
{
    return one == other;
}
