/* Scopes. A member is canceled without the scope's lock, because that takes the lock of what it
 * waits at, which may be the scope's. So members are first marked under the lock, which keeps them
 * from being completed (cancel.c), and the cancellations are delivered afterwards. */
#include "thread/schedule/scope.h"
#include "thread/schedule/thread_extra.h"
#include "thread/schedule/wait.h"

#include <assert.h>

/* ---- Members ---- */

static void append_member(struct gs_scope *scope, struct gs_thread *thread)
{
    struct thread_extra *extra = thread->extra;
    extra->next_member = scope->members;
    extra->previous_member = &scope->members;
    if (scope->members)
        scope->members->extra->previous_member = &extra->next_member;
    scope->members = thread;
}

void gs_scope_remove(struct gs_scope *scope, struct gs_thread *thread)
{
    const struct thread_extra *extra = thread->extra;
    spin_lock(&scope->lock);
    *extra->previous_member = extra->next_member;
    if (extra->next_member)
        extra->next_member->extra->previous_member = extra->previous_member;
    spin_unlock(&scope->lock);
}

void gs_scope_leave(struct worker *worker, struct gs_scope *scope)
{
    spin_lock(&scope->lock);
    assert(scope->count);
    struct gs_waiter *waiter = waiters_pop_claimed(worker, &scope->spawning, CLAIM_WOKEN);
    if (!waiter && !--scope->count)
        waiter = waiters_pop_claimed(worker, &scope->waiting, CLAIM_WOKEN);
    spin_unlock(&scope->lock);
    gs_chaos(CHAOS_WAKE);
    if (waiter)
        thread_make_ready(worker, waiter->thread);
}

/* ---- Cancellation ---- */

/* Mark all members but `except`. Returns those that this call has marked, linked by next_canceled.
 * The caller holds the lock. */
static struct gs_thread *mark_members(struct gs_scope *scope, const struct gs_thread *except)
{
    struct gs_thread *marked = NULL;
    for (struct gs_thread *thread = scope->members; thread; thread = thread->extra->next_member)
        if (thread != except && gs_thread_mark_canceled(thread)) {
            thread->next_canceled = marked;
            marked = thread;
        }
    return marked;
}

/* Cancel the scope. error: why, unless it has a reason already; 0: none. */
static void cancel(struct gs_scope *scope, int error, const struct gs_thread *except)
{
    struct worker *worker = worker_current();
    struct claimed claimed = {.first = NULL};
    struct gs_thread *marked = NULL;
    struct gs_waiter *waiter;
    spin_lock(&scope->lock);
    if (!scope->error)
        scope->error = error;
    if (!scope->is_canceled) {
        scope->is_canceled = true;
        marked = mark_members(scope, except);
        while ((waiter = waiters_pop_claimed(worker, &scope->spawning, CLAIM_CANCELED)))
            claimed_add(&claimed, waiter);
    }
    spin_unlock(&scope->lock);
    claimed_make_ready(worker, &claimed);
    for (struct gs_thread *thread = marked, *next; thread; thread = next) {
        next = thread->next_canceled;
        gs_thread_deliver_cancel(worker, thread);
    }
}

void gs_scope_cancel(struct gs_scope *scope)
{
    CHECKED_WORKER();
    cancel(scope, 0, NULL);
}

/* The member's error counts, unless it only says that the scope was canceled. */
static void fail(struct gs_scope *scope, int error, const struct gs_thread *member)
{
    spin_lock(&scope->lock);
    bool is_consequence = error == -ECANCELED && scope->is_canceled;
    spin_unlock(&scope->lock);
    if (!is_consequence)
        cancel(scope, error, member);
}

/* ---- Spawn ---- */

static void *run_member(void *argument)
{
    struct gs_thread *self = thread_current();
    const struct thread_extra *extra = self->extra;
    int error = extra->scope_fn(argument);
    if (error < 0)
        fail(extra->scope, error, self);
    return NULL;
}

/* Reserve a place for a member, or wait for one that is handed over. Returns 0 or -errno. */
static int reserve(struct gs_scope *scope, uint64_t deadline_ns)
{
    static const struct wait_kind waiting = {.name = "place in scope",
                                             WAITS_IN(gs_scope, spawning)};
    spin_lock(&scope->lock);
    if (!scope->is_canceled && scope->max_threads && scope->count >= scope->max_threads)
        return gs_thread_wait_for_object(thread_current(), scope, &waiting, deadline_ns);
    int err = scope->is_canceled ? -ECANCELED : 0;
    scope->count += !err;
    spin_unlock(&scope->lock);
    return err;
}

/* Add the new thread, which does not run yet; if the scope was canceled meanwhile, it starts
 * canceled. */
static void add(struct gs_scope *scope, gs_scope_fn *fn, struct gs_thread *thread)
{
    thread->extra->scope = scope;
    thread->extra->scope_fn = fn;
    spin_lock(&scope->lock);
    append_member(scope, thread);
    if (scope->is_canceled)
        gs_thread_cancel_new(thread);
    spin_unlock(&scope->lock);
}

/* Returns 0 or -errno. */
static int create(struct worker *worker, const struct gs_thread_attributes *attributes,
                  void *argument, struct gs_thread **ret_thread)
{
    struct thread_extra *extra = gs_thread_extra_new();
    if (!extra)
        return -ENOMEM;
    int err = gs_thread_create_detached(worker, attributes, run_member, argument, ret_thread);
    if (!err && !(*ret_thread)->extra)
        (*ret_thread)->extra = extra;
    else
        gs_thread_extra_free(extra);
    return err;
}

int gs_scope_spawn(struct gs_scope *scope, gs_scope_fn *fn, void *argument, uint64_t deadline_ns)
{
    if (deadline_ns)
        CHECKED_WAIT(deadline_ns);
    else
        CHECKED_WORKER();
    const struct gs_thread_attributes *attributes = scope->attributes;
    struct gs_thread *thread;
    if (attributes && (attributes->stack || attributes->start))
        return -EINVAL;
    int err = reserve(scope, deadline_ns);
    if (err)
        return err;
    struct worker *worker = worker_current();
    err = create(worker, attributes, argument, &thread);
    if (err) {
        gs_scope_leave(worker, scope);
        return err;
    }
    add(scope, fn, thread);
    gs_chaos(CHAOS_PUBLISH);
    gs_thread_start(worker, thread);
    return 0;
}

/* ---- Wait ---- */

static const struct wait_kind members = {.name = "members of scope", WAITS_IN(gs_scope, waiting)},
                              last_members = {.name = "members of canceled scope",
                                              .ignores_cancel = true,
                                              WAITS_IN(gs_scope, waiting)};

static int wait_for(struct gs_scope *scope, const struct wait_kind *kind, uint64_t deadline_ns)
{
    spin_lock(&scope->lock);
    if (!scope->count) {
        spin_unlock(&scope->lock);
        return 0;
    }
    return gs_thread_wait_for_object(thread_current(), scope, kind, deadline_ns);
}

int gs_scope_wait(struct gs_scope *scope, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct thread_extra *extra = thread_extra(thread_current());
    if (extra && extra->scope == scope)
        return -EDEADLK;
    int err = wait_for(scope, &members, deadline_ns);
    if (!err)
        return scope->error;
    cancel(scope, err, NULL);
    do
        err = wait_for(scope, &last_members, GS_NEVER);
    while (err);
    return scope->error;
}
