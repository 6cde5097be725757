#include "thread/context/valgrind.h"
#include "thread/report/report.h"
#include "thread/schedule/scope.h"
#include "thread/schedule/thread_extra.h"
#include "thread/schedule/wait.h"
#include "thread/stack/shared_stack.h"
#include "thread/stack/stack_class.h"
#include "thread/sync/select.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* ---- Spawn ---- */

static void run(void *thread);

/* Place the control block at the top of the program's own stack, as on the runtime's. */
static int init_on_user_stack(const struct gs_thread_attributes *attributes,
                              struct gs_thread **ret_thread)
{
    char *top = (char *)attributes->stack + attributes->stack_size;
    struct user_stack_thread *at =
        (struct user_stack_thread *)((uintptr_t)(top - sizeof *at) & ~(uintptr_t)63);
    if (attributes->stack_size < sizeof *at + 1536)
        return -EINVAL;
    /* All of it: once the thread is in the list, others read whether it is live. */
    at->thread = (struct gs_thread){
        .extra = &at->extra, .stack_top = (char *)at, .stack_class = CLASS_USER_STACK};
    at->extra = (struct thread_extra){.stack = attributes->stack, .on_end = attributes->on_end};
    at->extra.valgrind_stack = valgrind_add_stack(attributes->stack, at);
    *ret_thread = &at->thread;
    return 0;
}

ALWAYS_INLINE int get_stack(struct worker *worker, const struct gs_thread_attributes *attributes,
                            gs_thread_fn *fn, struct gs_thread **ret_thread)
{
    size_t size = attributes->stack_size ? attributes->stack_size : gs_runtime.options.stack_size;
    if (attributes->stack)
        return init_on_user_stack(attributes, ret_thread);
    int class = UNLIKELY(attributes->stack_is_shared) && gs_stack_is_shared(attributes, size, fn)
                    ? CLASS_SHARED
                    : gs_stacks_class(size);
    if (class < 0)
        return class;
    if (class == CLASS_SHARED && gs_shared_stacks_prepare())
        return -ENOMEM;
    if (UNLIKELY(!worker || !worker->free[class].first))
        return gs_stacks_get(worker, class, ret_thread);
    *ret_thread = free_list_pop(&worker->free[class]);
    return 0;
}

/* Give the thread an extra, if it needs one at first. Returns 0 or -ENOMEM. */
static __attribute__((noinline)) int init_extra(struct gs_thread *thread,
                                                const struct gs_thread_attributes *attributes)
{
    bool needs_extra = attributes->name || attributes->thread_pointer;
    if (thread->stack_class != CLASS_USER_STACK) {
        gs_thread_extra_free(thread->extra);
        thread->extra = needs_extra ? gs_thread_extra_new() : NULL;
    }
    if (needs_extra && !thread->extra) {
        gs_stacks_unget(thread);
        return -ENOMEM;
    }
    if (attributes->name)
        memcpy(thread->extra->name, attributes->name, strnlen(attributes->name, NAME_SIZE - 1));
    return 0;
}

/* From here on gs_threads_cancel_all finds it. is_alone: that cannot be in progress now. */
ALWAYS_INLINE void make_live(struct gs_thread *thread, bool is_alone)
{
    /* Release: pairs with gs_thread_mark_canceled, which may have found the previous thread in this
     * control block. */
    atomic_store_explicit(&thread->cancel, CANCEL_NONE, memory_order_release);
    if (UNLIKELY(thread->stack_class == CLASS_USER_STACK)) {
        spin_lock_always(&gs_runtime.user_stack_lock);
        gs_list_append(&gs_runtime.user_stack_threads, &thread->extra->link);
        spin_unlock_always(&gs_runtime.user_stack_lock);
    }
    if (LIKELY(is_alone)) {
        thread->is_live = true;
        return;
    }
    __atomic_store_n(&thread->is_live, true, __ATOMIC_SEQ_CST);
    gs_thread_check_cancel_all(thread);
}

ALWAYS_INLINE void init(struct gs_thread *thread, const struct gs_thread_attributes *attributes)
{
    thread->run = (struct runnable){.priority = (uint8_t)attributes->priority};
    thread->worker = NULL;
    atomic_store_explicit(&thread->claim, CLAIM_NONE, memory_order_relaxed);
    atomic_store_explicit(&thread->park_state, PARK_EMPTY, memory_order_relaxed);
    atomic_init(&thread->lock.held, false);
    thread->is_uncancelable = thread->is_external = thread->has_deadline = false;
    thread->is_pinned = thread->is_detached = thread->is_done = false;
    thread->deadline_index = 0;
    thread->migrates = attributes->migrates && !attributes->worker;
    thread->shares_stack =
        attributes->stack_is_shared && !attributes->stack && !attributes->thread_pointer;
    thread->bound_worker = (uint16_t)attributes->worker;
    thread->select_start = 0;
    thread->waiter = (struct gs_waiter){.thread = thread};
    thread->deadline_ns = GS_NEVER;
    thread->joiner = NULL;
    CHECKED_SET_FATE(thread, FATE_LIVE);
#ifdef GS_CHECKED
    thread->is_blocked = false;
#endif
}

/* Put the new thread where it will be run: into a run queue, an inbox or a shared queue. */
ALWAYS_INLINE void submit(struct worker *worker, struct gs_thread *thread)
{
    struct worker *bound_worker =
        thread->bound_worker ? gs_runtime.workers[thread->bound_worker - 1] : NULL;
    if (worker && (!gs_runtime.is_multi || bound_worker == worker)) {
        /* gs_threads_cancel_all may already cancel it on another worker. */
        if (gs_runtime.is_multi)
            thread_set_worker(thread, worker);
        else
            thread->worker = worker;
        queue_push(worker, &thread->run);
    } else if (bound_worker || !gs_runtime.is_multi) {
        gs_worker_send(bound_worker ? bound_worker : gs_runtime.workers[0], &thread->run);
    } else {
        gs_worker_share(worker, thread);
    }
}

ALWAYS_INLINE void *initial_context(struct gs_thread *thread, const struct gs_thread_start *start)
{
    void *top = thread_first_top(thread);
    return start ? context_make_start(start->sp ? start->sp : top, start)
                 : context_make(top, run, thread, (uintptr_t)thread->fn);
}

void *gs_thread_initial_context(struct gs_thread *thread)
{
    return initial_context(thread, NULL);
}

ALWAYS_INLINE void count_spawn(struct worker *worker)
{
    if (worker)
        count_add(&worker->spawned, 1);
    else
        atomic_fetch_add(&gs_runtime.nonworker_spawns, 1);
}

/* Make a thread that is in no queue yet. worker: the caller, or NULL if it is no worker. */
ALWAYS_INLINE int create(struct worker *worker, const struct gs_thread_attributes *attributes,
                         gs_thread_fn *fn, void *argument, struct gs_thread **ret_thread)
{
    static const struct gs_thread_attributes none;
    struct gs_thread *thread;
    if (!attributes)
        attributes = &none;
    if (attributes->worker > gs_runtime.options.workers ||
        (unsigned)attributes->priority > GS_PRIORITY_LOW ||
        (attributes->on_end && !attributes->stack))
        return -EINVAL;
    if (attributes->thread_pointer && !gs_tls_bases_are_supported(attributes))
        return -EOPNOTSUPP;
    int err = get_stack(worker, attributes, fn, &thread);
    if (!err && (UNLIKELY(attributes->name != NULL) || UNLIKELY(attributes->thread_pointer) ||
                 UNLIKELY(thread->extra != NULL)))
        err = init_extra(thread, attributes);
    if (err)
        return err;
    init(thread, attributes);
    make_live(thread, worker && !gs_runtime.is_multi);
    if (UNLIKELY(attributes->thread_pointer))
        gs_thread_set_tls_base(thread, attributes->thread_pointer);
    if (UNLIKELY(gs_runtime.tells_asan) && !attributes->thread_pointer && !attributes->start)
        gs_asan_init_thread(thread);
    thread->fn = fn;
    if (UNLIKELY(attributes->start != NULL))
        thread->cleanups = NULL;
    else
        thread->argument = argument;
    *ret_thread = thread;
    if (UNLIKELY(thread->stack_class == CLASS_SHARED)) {
        gs_shared_stack_init_thread(thread, fn);
        return 0;
    }
    if (FIBERS) {
        char *bottom = gs_stack_bottom(thread);
        fiber_init(&thread->fiber, bottom, (size_t)(thread->stack_top - bottom));
    }
    CHECKED_INIT_PROTECTED(thread);
    thread->sp = initial_context(thread, attributes->start);
    return 0;
}

int gs_thread_spawn(const struct gs_thread_attributes *attributes, gs_thread_fn *fn, void *argument,
                    struct gs_thread **ret_thread)
{
    CHECKED_RUNNING();
    struct worker *worker = gs_worker_or_null();
    struct gs_thread *thread;
    if (attributes && attributes->on_end && ret_thread)
        return -EINVAL;
    int err = create(worker, attributes, fn, argument, &thread);
    if (err)
        return err;
    thread->is_detached = !ret_thread;
    if (ret_thread)
        *ret_thread = thread;
    if (!worker)
        gs_runtime_enter();
    count_spawn(worker);
    submit(worker, thread);
    if (!worker)
        gs_runtime_leave();
    return 0;
}

int gs_thread_create_detached(struct worker *worker, const struct gs_thread_attributes *attributes,
                              gs_thread_fn *fn, void *argument, struct gs_thread **ret_thread)
{
    int err = create(worker, attributes, fn, argument, ret_thread);
    if (!err)
        (*ret_thread)->is_detached = true;
    return err;
}

void gs_thread_start(struct worker *worker, struct gs_thread *thread)
{
    count_spawn(worker);
    submit(worker, thread);
}

/* ---- End ---- */

static void release(struct worker *worker, struct gs_thread *thread)
{
    fiber_done(&thread->fiber);
    if (LIKELY(thread->stack_class != CLASS_USER_STACK)) {
        gs_stacks_put(worker, thread);
        return;
    }
    struct thread_extra *extra = thread->extra;
    valgrind_remove_stack(extra->valgrind_stack);
    void (*on_end)(void *) = extra->on_end;
    void *result = thread->result;
    spin_lock_always(&gs_runtime.user_stack_lock);
    gs_list_remove(&extra->link);
    spin_unlock_always(&gs_runtime.user_stack_lock);
    if (LIKELY(!on_end))
        return;
    if (worker->has_thread_tls_base) {
        worker->on_end = on_end;
        worker->end_result = result;
    } else {
        on_end(result);
    }
}

/* The scope may end as soon as it is left, and memory of the program's, on which the thread ran, be
 * freed: so the thread is released before. */
static void complete_member(struct worker *worker, struct gs_thread *thread, struct gs_scope *scope)
{
    gs_scope_remove(scope, thread);
    release(worker, thread);
    gs_chaos(CHAOS_END);
    gs_scope_leave(worker, scope);
}

void gs_thread_complete(struct worker *worker, struct gs_thread *thread)
{
    spin_lock(&thread->lock);
    struct gs_thread *joiner = thread->joiner;
    struct thread_extra *extra = thread_extra(thread);
    struct gs_scope *scope = UNLIKELY(extra != NULL) ? extra->scope : NULL;
    bool is_detached = thread->is_detached;
    bool is_claimed = joiner && thread_claim(joiner, CLAIM_WOKEN);
    struct claimed watchers = {.first = NULL};
    thread->is_done = true;
    if (UNLIKELY(extra != NULL))
        gs_select_claim_watchers(extra, &watchers);
    CHECKED_SET_FATE(thread, is_detached ? FATE_DETACHED : FATE_LIVE);
    spin_unlock(&thread->lock);
    gs_chaos(CHAOS_END);
    claimed_make_ready(worker, &watchers);
    if (UNLIKELY(scope != NULL))
        complete_member(worker, thread, scope);
    else if (is_detached)
        release(worker, thread);
    else if (is_claimed)
        thread_make_ready(worker, joiner);
}

/* Called on the next stack: the thread's is no longer in use. */
__attribute__((no_stack_protector)) static void finish(void *argument)
{
    struct gs_thread *thread = argument;
    struct worker *worker = worker_current();
    worker_left_thread(worker);
    gs_chaos(CHAOS_END);
    count_add(&worker->ended, 1);
    gs_chaos(CHAOS_END);
    /* A pending cancellation refers to the thread: the worker that delivers it completes it. */
    if (UNLIKELY(atomic_load_explicit(&thread->cancel, memory_order_relaxed) != CANCEL_NONE) ||
        gs_runtime.is_multi) {
        if (atomic_exchange(&thread->cancel, CANCEL_FINISHED) == CANCEL_SENT)
            return;
    }
    gs_thread_complete(worker, thread);
}

/* A joiner on the same worker can be woken before the stack is left: it will not run earlier.
 * Returns NULL if there is none that was claimed; *is_finished: `finish` has nothing to do. */
ALWAYS_INLINE struct gs_thread *finish_early(struct worker *worker, struct gs_thread *self,
                                             bool *is_finished)
{
    struct gs_thread *joiner = gs_runtime.is_multi ? NULL : self->joiner;
    *is_finished = joiner;
    if (!joiner)
        return NULL;
    count_add(&worker->ended, 1);
    self->is_done = true;
    return thread_claim(joiner, CLAIM_WOKEN) ? joiner : NULL;
}

/* Whether the thread, which is ready, would be the next to run if the run queue got it. */
ALWAYS_INLINE bool would_be_next(const struct worker *worker, const struct gs_thread *thread)
{
    return !worker->ready_mask && !thread->run.resume && worker->countdown > 0;
}

/* Without optimization it would have a large frame in each stack. */
#ifdef __OPTIMIZE__
#define INLINE_IF_OPTIMIZED ALWAYS_INLINE
#else
#define INLINE_IF_OPTIMIZED static
#endif

_Noreturn INLINE_IF_OPTIMIZED void end(struct gs_thread *self, void *result)
{
    CHECKED_SWITCH(worker_current(), "end", "");
    self->is_uncancelable = true;
    if (UNLIKELY(self->cleanups))
        gs_thread_run_cleanups(self);
    if (UNLIKELY(thread_extra(self) != NULL))
        gs_thread_destroy_values(self);
    self->result = result;
    assert(!self->is_pinned);
    if (UNLIKELY(self->deadline_index))
        gs_deadline_stop(self);
    if (UNLIKELY(!gs_stacks_is_intact(self)))
        gs_report_overflow(self);
    struct worker *worker = worker_current();
    if (UNLIKELY(self->stack_class == CLASS_SHARED))
        gs_shared_stack_leave(worker, self);
    thread_count_external(worker, self, false);
    bool is_finished;
    struct gs_thread *joiner = finish_early(worker, self, &is_finished);
    if (LIKELY(joiner) && LIKELY(would_be_next(worker, joiner))) {
        worker->countdown--;
        leave_to(worker, self, joiner);
    }
    if (joiner)
        queue_push(worker, &joiner->run);
    dispatch_last(worker, self, is_finished ? NULL : finish);
}

_Noreturn void gs_thread_exit(void *result)
{
    CHECKED_WAIT(GS_NEVER);
    end(thread_current(), result);
}

/* clang lacks noipa: there, `run` may call. */
#if __has_attribute(noipa)
#define NOIPA __attribute__((noipa))
#else
#define NOIPA __attribute__((noinline))
#endif

/* `run` jumps here. It ends without a call of gs_thread_exit: gs_context_leave (x86_64.S) says why.
 * A thread that has a canary makes the call, which a report of an overflow names. Not declared as
 * _Noreturn, and unknown to the optimizer as such: it would be called then. */
NOIPA static void end_of_run(void *result)
{
    CHECKED_WAIT(GS_NEVER);
    struct gs_thread *self = thread_current();
    if (UNLIKELY(self->has_canary))
        gs_thread_exit(result);
    end(self, result);
}

/* Its frame is on each stack that is saved: it keeps no register. */
static void run(void *thread)
{
    struct gs_thread *self = thread;
    fiber_enter(&self->fiber);
    void *argument = self->argument;
    self->cleanups = NULL;
    end_of_run(self->fn(argument));
}

/* ---- Join ---- */

/* Returns 0 when the thread has ended, or -errno. */
static int wait_for_end(struct gs_thread *self, struct gs_thread *thread, uint64_t deadline_ns)
{
    static const struct wait_kind joining = {.name = "join", .holder = HOLDER_THREAD};
    const struct wait wait = {.kind = &joining, .object = thread, .deadline_ns = deadline_ns};
    spin_lock(&thread->lock);
    if (thread->is_done) {
        spin_unlock(&thread->lock);
        return 0;
    }
    thread->joiner = self;
    int err = wait_locked(self, &thread->lock, &wait);
    if (LIKELY(!err))
        return 0;
    spin_lock(&thread->lock);
    bool is_done = thread->is_done;
    thread->joiner = NULL;
    spin_unlock(&thread->lock);
    return is_done ? 0 : err;
}

int gs_thread_join(struct gs_thread *thread, uint64_t deadline_ns, void **ret_result)
{
    CHECKED_WAIT(deadline_ns);
    struct gs_thread *self = thread_current();
    if (thread == self)
        return -EDEADLK;
    CHECKED_JOINABLE(thread);
    int err = wait_for_end(self, thread, deadline_ns);
    if (err)
        return err;
    if (ret_result)
        *ret_result = thread->result;
    CHECKED_SET_FATE(thread, FATE_JOINED);
    release(self->worker, thread);
    return 0;
}

void gs_thread_detach(struct gs_thread *thread)
{
    CHECKED_WORKER();
    CHECKED_JOINABLE(thread);
    spin_lock(&thread->lock);
    bool is_done = thread->is_done;
    thread->is_detached = true;
    CHECKED_SET_FATE(thread, is_done ? FATE_DETACHED : FATE_LIVE);
    spin_unlock(&thread->lock);
    if (is_done)
        release(worker_current(), thread);
}

/* ---- The running thread ---- */

__attribute__((no_stack_protector)) static void enqueue_yielded(void *argument)
{
    struct gs_thread *thread = argument;
    struct worker *worker = worker_current();
    worker_left_thread(worker);
    gs_thread_enqueue(worker, thread);
}

/* The next item is a thread of the same priority. It leaves the queue and this one is appended:
 * neither the mask nor the length changes. */
ALWAYS_INLINE void yield_same_priority(struct worker *worker, struct gs_thread *self,
                                       struct run_queue *queue)
{
    struct runnable *item = queue->first;
    worker->countdown--;
    self->run.next = NULL;
    *queue->last = &self->run;
    queue->last = &self->run.next;
    queue->first = item->next;
    dispatch_to(worker, self, thread_of(item));
}

static __attribute__((noinline)) void yield_slowly(void)
{
    struct worker *worker = worker_current();
    struct gs_thread *self = worker->current;
    if (thread_is_mobile(self)) {
        worker->yields++;
        dispatch_then(worker, self, enqueue_yielded, self);
        return;
    }
    queue_push(worker, &self->run);
    dispatch(worker, self);
}

void gs_thread_yield(void)
{
    CHECKED_WAIT(GS_NEVER);
    CHECKED_SWITCH(worker_current(), "yield", "");
    if (!worker_is_in_register()) {
        yield_slowly();
        return;
    }
    struct worker *worker = worker_from_register();
    struct gs_thread *self = worker->current;
    struct run_queue *queue = &worker->queues[level_of(GS_PRIORITY_NORMAL)];
    if (UNLIKELY(worker->ready_mask != 1u << level_of(GS_PRIORITY_NORMAL)) ||
        UNLIKELY(worker->countdown <= 0) || UNLIKELY(self->run.priority != GS_PRIORITY_NORMAL) ||
        thread_is_mobile(self) || UNLIKELY(queue->first->resume != NULL)) {
        yield_slowly();
        return;
    }
    yield_same_priority(worker, self, queue);
}

/* The worker polls before it takes its inbox. */
__attribute__((no_stack_protector)) static void return_behind_events(void *argument)
{
    struct gs_thread *thread = argument;
    struct worker *worker = worker_current();
    worker_left_thread(worker);
    if (thread_is_mobile(thread))
        gs_thread_enqueue(worker, thread);
    else
        gs_worker_send_to_self(worker, &thread->run);
}

void gs_thread_end_turn(void)
{
    CHECKED_WAIT(GS_NEVER);
    CHECKED_SWITCH(worker_current(), "end a turn", "");
    struct worker *worker = worker_current();
    struct gs_thread *self = worker->current;
    worker->is_poll_due = true;
    worker->current = NULL;
    fiber_leave(&self->fiber, &worker->fiber, false);
    gs_context_switch_then(&self->sp, worker->sp, 0, return_behind_events, self);
    fiber_enter(&self->fiber);
}

struct gs_thread *gs_thread_self(void)
{
    struct worker *worker = gs_worker_or_null();
    return worker ? worker->current : NULL;
}

const char *gs_thread_name(const struct gs_thread *thread)
{
    CHECKED_HANDLE(thread);
    return thread_name(thread);
}

void gs_thread_set_priority(struct gs_thread *thread, enum gs_priority priority)
{
    CHECKED_HANDLE(thread);
    thread->run.priority = (uint8_t)priority;
}
