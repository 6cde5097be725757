#include "thread/stacks.h"
#include "thread/wait.h"

#include <errno.h>
#include <string.h>

/* ---- Start ---- */

static void run(void *argument)
{
    struct gs_thread *self = argument;
    fiber_enter(&self->fiber);
    gs_thread_exit(self->fn(self->argument));
}

/* On a stack of the caller's the descriptor stands as on our own. */
static int place_on(const struct gs_thread_attributes *attributes, struct gs_thread **ret_thread)
{
    char *top = (char *)attributes->stack + attributes->stack_size;
    struct gs_thread *thread =
        (struct gs_thread *)((uintptr_t)(top - sizeof *thread) & ~(uintptr_t)63);
    if (attributes->stack_size < 2 * sizeof *thread + 1024)
        return -EINVAL;
    thread->stack = attributes->stack;
    thread->stack_top = (char *)thread;
    thread->stack_class = CLASS_CALLER;
    thread->has_canary = false;
    thread->chain = 0;
    *ret_thread = thread;
    return 0;
}

static int get_stack(struct worker *worker, const struct gs_thread_attributes *attributes,
                     struct gs_thread **ret_thread)
{
    size_t size = attributes->stack_size ? attributes->stack_size : gs_runtime.options.stack_size;
    if (attributes->stack)
        return place_on(attributes, ret_thread);
    int class = gs_stacks_class(size);
    return class < 0 ? class : gs_stacks_get(worker, class, ret_thread);
}

static void name(struct gs_thread *thread, const char *name)
{
    size_t n = name ? strnlen(name, NAME_SIZE - 1) : 0;
    if (n)
        memcpy(thread->name, name, n);
    thread->name[n] = 0;
}

/* From here on all threads' cancellation finds it; is_alone: nobody can be at that now. */
static void become_live(struct gs_thread *thread, bool is_alone)
{
    gs_thread_init_cancel(thread);
    if (UNLIKELY(thread->stack_class == CLASS_CALLER)) {
        spin_lock_always(&gs_runtime.caller_lock);
        gs_list_append(&gs_runtime.caller_threads, &thread->link);
        spin_unlock_always(&gs_runtime.caller_lock);
    }
    if (LIKELY(is_alone)) {
        thread->is_live = true;
        return;
    }
    __atomic_store_n(&thread->is_live, true, __ATOMIC_SEQ_CST);
    gs_thread_canceled_with_all(thread);
}

static void init(struct gs_thread *thread, const struct gs_thread_attributes *attributes)
{
    thread->run.item = (struct gs_policy_item){.priority = (uint8_t)attributes->priority};
    thread->worker = NULL;
    atomic_init(&thread->claim, CLAIM_NONE);
    atomic_init(&thread->token, TOKEN_NONE);
    atomic_init(&thread->lock.held, false);
    thread->is_pinned = false;
    thread->deadline_place = 0;
    thread->is_uncancelable = thread->is_detached = thread->is_done = thread->is_token_wait = false;
    thread->migrates = attributes->migrates && !attributes->worker;
    thread->bound = attributes->worker ? gs_runtime.workers[attributes->worker - 1] : NULL;
    thread->is_wait_uninterrupted = thread->is_outside = false;
    thread->waiter = (struct gs_waiter){.thread = thread};
    thread->deadline_ns = thread->timer_ns = GS_NEVER;
    thread->timer.watcher.active = false;
    thread->joiner = NULL;
    thread->cleanups = NULL;
    thread->values = NULL;
    thread->select_start = 0;
    name(thread, attributes->name);
}

/* Let it be run by whoever is to run it. */
static void submit(struct worker *worker, struct gs_thread *thread)
{
    struct worker *bound = thread->bound;
    if (worker && (!gs_runtime.is_multi || bound == worker)) {
        thread->worker = worker;
        queue_push(worker, &thread->run);
    } else if (bound || !gs_runtime.is_multi) {
        gs_worker_send(bound ? bound : gs_runtime.workers[0], &thread->run);
    } else {
        gs_worker_share(worker, thread);
    }
}

/* What the thread's stack holds at first. */
static void *first_context(struct gs_thread *thread, const struct gs_thread_start *start)
{
    void *top = (void *)((uintptr_t)thread->stack_top & ~(uintptr_t)15);
    return start ? context_make_start(start->sp ? start->sp : top, start)
                 : context_make(top, run, thread);
}

static void count_spawn(struct worker *worker)
{
    if (worker)
        count_add(&worker->spawned, 1);
    else
        atomic_fetch_add(&gs_runtime.foreign, 1);
}

int gs_thread_spawn(const struct gs_thread_attributes *attributes, gs_thread_fn *fn, void *argument,
                    struct gs_thread **ret_thread)
{
    static const struct gs_thread_attributes none;
    struct worker *worker = gs_worker_or_null();
    struct gs_thread *thread;
    if (!attributes)
        attributes = &none;
    if (attributes->worker > gs_runtime.options.workers ||
        (unsigned)attributes->priority > GS_PRIORITY_LOW)
        return -EINVAL;
    if (attributes->thread_pointer && !gs_bases_are_supported(attributes))
        return -EOPNOTSUPP;
    int err = get_stack(worker, attributes, &thread);
    if (err)
        return err;
    init(thread, attributes);
    become_live(thread, worker && !gs_runtime.is_multi);
    gs_thread_set_base(thread, attributes->thread_pointer);
    thread->fn = fn;
    thread->argument = argument;
    thread->is_detached = !ret_thread;
    fiber_init(&thread->fiber, thread->stack, (size_t)(thread->stack_top - thread->stack));
    thread->sp = first_context(thread, attributes->start);
    if (ret_thread)
        *ret_thread = thread;
    if (!worker)
        atomic_fetch_add(&gs_runtime.arriving, 1);
    count_spawn(worker);
    submit(worker, thread);
    if (!worker)
        atomic_fetch_sub(&gs_runtime.arriving, 1);
    return 0;
}

/* ---- End ---- */

static void release(struct worker *worker, struct gs_thread *thread)
{
    fiber_done(&thread->fiber);
    if (LIKELY(thread->stack_class != CLASS_CALLER)) {
        gs_stacks_put(worker, thread);
        return;
    }
    spin_lock_always(&gs_runtime.caller_lock);
    gs_list_remove(&thread->link);
    spin_unlock_always(&gs_runtime.caller_lock);
}

void gs_thread_complete(struct worker *worker, struct gs_thread *thread)
{
    spin_lock(&thread->lock);
    struct gs_thread *joiner = thread->joiner;
    bool is_detached = thread->is_detached;
    bool is_claimed = joiner && thread_claim(joiner, CLAIM_WOKEN);
    thread->is_done = true;
    spin_unlock(&thread->lock);
    if (is_detached)
        release(worker, thread);
    else if (is_claimed)
        thread_ready(worker, joiner);
}

/* On the next stack: nobody is on the thread's any more. */
static void finish(void *argument)
{
    struct gs_thread *thread = argument;
    struct worker *worker = worker_current();
    count_add(&worker->ended, 1);
    /* A message under way refers to the thread: its delivery completes the end. */
    if (UNLIKELY(atomic_load_explicit(&thread->cancel, memory_order_relaxed) != CANCEL_NONE) ||
        gs_runtime.is_multi) {
        if (atomic_exchange(&thread->cancel, CANCEL_FINISHED) == CANCEL_SENT)
            return;
    }
    gs_thread_complete(worker, thread);
}

/* Who waits on the same worker for the end can be woken before the stack is left: it will not run before. */
static bool finish_early(struct worker *worker, struct gs_thread *self)
{
    struct gs_thread *joiner = gs_runtime.is_multi ? NULL : self->joiner;
    if (!joiner)
        return false;
    count_add(&worker->ended, 1);
    self->is_done = true;
    if (thread_claim(joiner, CLAIM_WOKEN))
        queue_push(worker, &joiner->run);
    return true;
}

_Noreturn void gs_thread_exit(void *result)
{
    struct gs_thread *self = thread_current();
    self->is_uncancelable = true;
    if (UNLIKELY(self->cleanups))
        gs_thread_run_cleanups(self);
    if (UNLIKELY(self->values))
        gs_thread_destroy_values(self);
    self->argument = result;
    if (self->timer_ns != GS_NEVER)
        gs_timer_stop(&self->timer);
    if (UNLIKELY(!gs_stacks_is_sound(self)))
        gs_report_overflow(self);
    struct worker *worker = worker_current();
    thread_count_outside(worker, self, false);
    dispatch_last(worker, self, finish_early(worker, self) ? NULL : finish);
}

/* ---- Join ---- */

/* Returns 0 when it is done, or why not. */
static int wait_for_end(struct gs_thread *self, struct gs_thread *thread, uint64_t deadline_ns)
{
    static const struct wait_kind joining = {.what = "join", .holder = HOLDER_THREAD};
    const struct wait wait = {.kind = &joining, .at = thread, .deadline_ns = deadline_ns};
    spin_lock(&thread->lock);
    if (thread->is_done) {
        spin_unlock(&thread->lock);
        return 0;
    }
    thread->joiner = self;
    int err = wait_with(self, &thread->lock, &wait);
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
    struct gs_thread *self = thread_current();
    if (thread == self)
        return -EDEADLK;
    int err = wait_for_end(self, thread, deadline_ns);
    if (err)
        return err;
    if (ret_result)
        *ret_result = thread->argument;
    release(self->worker, thread);
    return 0;
}

void gs_thread_detach(struct gs_thread *thread)
{
    spin_lock(&thread->lock);
    bool is_done = thread->is_done;
    thread->is_detached = true;
    spin_unlock(&thread->lock);
    if (is_done)
        release(worker_current(), thread);
}

/* ---- The running thread ---- */

static void share(void *argument)
{
    struct gs_thread *thread = argument;
    gs_thread_arrive(worker_current(), thread);
}

/* One comes off the queue's head, and this one goes to its end: neither its mask nor its length change. */
ALWAYS_INLINE void yield_among_equals(struct worker *worker, struct gs_thread *self)
{
    struct run_queue *queue = &worker->queues[level_of(GS_PRIORITY_NORMAL)];
    struct gs_policy_item *item = queue->first;
    struct gs_thread *next = thread_of(item);
    if (UNLIKELY(next->run.resume != NULL)) {
        queue_push(worker, &self->run);
        dispatch(worker, self);
        return;
    }
    worker->countdown--;
    self->run.item.next = NULL;
    *queue->last = &self->run.item;
    queue->last = &self->run.item.next;
    queue->first = item->next;
    dispatch_to(worker, self, next);
}

void gs_thread_yield(void)
{
    struct worker *worker = worker_current();
    struct gs_thread *self = worker->current;
    self->run.item.place = NULL;
    if (UNLIKELY(self->migrates) && gs_runtime.is_multi) {
        dispatch_then(worker, self, share, self);
        return;
    }
    if (LIKELY(worker->ready_mask == 1u << level_of(GS_PRIORITY_NORMAL)) &&
        LIKELY(worker->countdown > 0) && LIKELY(self->run.item.priority == GS_PRIORITY_NORMAL) &&
        LIKELY(!worker->policy_queue)) {
        yield_among_equals(worker, self);
        return;
    }
    queue_push(worker, &self->run);
    dispatch(worker, self);
}

struct gs_thread *gs_thread_self(void)
{
    struct worker *worker = gs_worker_or_null();
    return worker ? worker->current : NULL;
}

const char *gs_thread_name(const struct gs_thread *thread)
{
    return thread->name;
}

void gs_thread_set_priority(struct gs_thread *thread, enum gs_priority priority)
{
    thread->run.item.priority = (uint8_t)priority;
}

void gs_thread_set_remaining(uint64_t work)
{
    thread_current()->run.item.remaining = work;
}
