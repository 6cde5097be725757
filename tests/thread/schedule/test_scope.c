/* Scopes: their members end before the wait returns, the first error cancels the others, and
 * nothing is used afterwards. */
#include "tests/thread/fixture.h"

#include <gossamer/scope.h>

enum { MEMBERS = 20 };

static atomic_int started, ended;

static void reset(void)
{
    atomic_store(&started, 0);
    atomic_store(&ended, 0);
}

static int succeed(void *unused)
{
    (void)unused;
    atomic_fetch_add(&started, 1);
    gs_thread_yield();
    atomic_fetch_add(&ended, 1);
    return 0;
}

static int wait_forever(void *unused)
{
    (void)unused;
    atomic_fetch_add(&started, 1);
    int err = gs_thread_sleep(GS_NEVER);
    atomic_fetch_add(&ended, 1);
    return err;
}

static int fail_with(void *error)
{
    gs_thread_yield();
    return (int)(intptr_t)error;
}

static void *error_of(int error)
{
    return (void *)(intptr_t)error;
}

static void spawn_members(struct gs_scope *scope, gs_scope_fn *fn, int count)
{
    for (int i = 0; i < count; i++)
        MUST_EQ(gs_scope_spawn(scope, fn, NULL, GS_NEVER), 0);
}

THREAD_TEST(scope_without_members_ends_at_once, run_both)
{
    struct gs_scope scope = {0}, canceled = {0};
    MUST_EQ(gs_scope_wait(&scope, GS_NEVER), 0);
    MUST_EQ(gs_scope_wait(&scope, 0), 0);
    gs_scope_cancel(&canceled);
    MUST_EQ(gs_scope_spawn(&canceled, succeed, NULL, GS_NEVER), -ECANCELED);
    MUST_EQ(gs_scope_wait(&canceled, GS_NEVER), 0);
}

THREAD(wait_for_all)
{
    struct gs_scope scope = {0};
    reset();
    spawn_members(&scope, succeed, MEMBERS);
    MUST_EQ(gs_scope_wait(&scope, GS_NEVER), 0);
    MUST_EQ(atomic_load(&ended), MEMBERS);
}

TEST(wait_returns_when_all_members_have_ended)
{
    run_both(wait_for_all);
}

THREAD_TEST(stacks_of_members_that_have_ended_are_used_again, run_on_one)
{
    struct gs_threads_stats before, after;
    wait_for_all(NULL);
    gs_threads_stats(&before);
    for (int i = 0; i < 10; i++)
        wait_for_all(NULL);
    gs_threads_stats(&after);
    MUST_EQ(after.stacks, before.stacks);
}

THREAD_TEST(first_error_cancels_the_other_members_and_is_returned, run_both)
{
    struct gs_scope scope = {0};
    reset();
    spawn_members(&scope, wait_forever, MEMBERS);
    MUST_EQ(gs_scope_spawn(&scope, fail_with, error_of(-EIO), GS_NEVER), 0);
    MUST_EQ(gs_scope_wait(&scope, GS_NEVER), -EIO);
    MUST_EQ(atomic_load(&ended), MEMBERS);
    MUST_EQ(gs_scope_spawn(&scope, succeed, NULL, GS_NEVER), -ECANCELED);
}

THREAD_TEST(cancellation_is_no_error_but_an_error_afterwards_is_one, run_both)
{
    struct gs_scope quiet = {0}, failing = {0};
    reset();
    spawn_members(&quiet, wait_forever, MEMBERS);
    gs_scope_cancel(&quiet);
    gs_scope_cancel(&quiet);
    MUST_EQ(gs_scope_wait(&quiet, GS_NEVER), 0);
    MUST_EQ(atomic_load(&ended), MEMBERS);
    MUST(!gs_thread_is_canceled());
    MUST_EQ(gs_scope_spawn(&failing, fail_with, error_of(-EIO), GS_NEVER), 0);
    gs_scope_cancel(&failing);
    MUST_EQ(gs_scope_wait(&failing, GS_NEVER), -EIO);
    MUST_EQ(gs_scope_spawn(&failing, succeed, NULL, GS_NEVER), -ECANCELED);
}

THREAD_TEST(members_are_canceled_at_the_deadline_and_still_waited_for, run_both)
{
    struct gs_scope scope = {0}, never = {0};
    reset();
    spawn_members(&scope, wait_forever, MEMBERS);
    MUST_EQ(gs_scope_wait(&scope, after(GS_MILLISECOND)), -ETIMEDOUT);
    MUST_EQ(atomic_load(&ended), MEMBERS);
    spawn_members(&never, wait_forever, 1);
    MUST_EQ(gs_scope_wait(&never, 0), -ETIMEDOUT);
    MUST_EQ(atomic_load(&ended), MEMBERS + 1);
}

static void *own(void *unused)
{
    struct gs_scope scope = {0};
    (void)unused;
    spawn_members(&scope, wait_forever, MEMBERS);
    int err = gs_scope_wait(&scope, GS_NEVER);
    MUST_EQ(atomic_load(&ended), MEMBERS);
    return error_of(err);
}

THREAD_TEST(cancellation_of_the_owner_cancels_the_members_and_is_reported, run_both)
{
    reset();
    struct gs_thread *owner = spawn(own, NULL);
    while (atomic_load(&started) < MEMBERS)
        gs_thread_yield();
    gs_thread_cancel(owner);
    MUST_EQ((intptr_t)join(owner), -ECANCELED);
}

static int cancel_self(void *unused)
{
    (void)unused;
    gs_thread_cancel(gs_thread_self());
    return gs_thread_sleep(GS_NEVER);
}

THREAD_TEST(member_that_was_canceled_by_others_fails, run_both)
{
    struct gs_scope scope = {0};
    reset();
    spawn_members(&scope, wait_forever, 1);
    MUST_EQ(gs_scope_spawn(&scope, cancel_self, NULL, GS_NEVER), 0);
    MUST_EQ(gs_scope_wait(&scope, GS_NEVER), -ECANCELED);
    MUST_EQ(atomic_load(&ended), 1);
}

/* ---- Spawns by members, and limits ---- */

struct tree {
    struct gs_scope scope;
    atomic_int count;
};
struct branch {
    struct tree *tree;
    int depth;
};

static int grow(void *branch_)
{
    struct branch *branch = branch_;
    struct tree *tree = branch->tree;
    int depth = branch->depth, err = 0;
    free(branch);
    atomic_fetch_add(&tree->count, 1);
    for (int i = 0; !err && depth && i < 2; i++) {
        branch = malloc(sizeof *branch);
        MUST(branch);
        *branch = (struct branch){tree, depth - 1};
        err = gs_scope_spawn(&tree->scope, grow, branch, GS_NEVER);
        if (err)
            free(branch);
    }
    MUST_EQ(depth ? gs_scope_wait(&tree->scope, GS_NEVER) : -EDEADLK, -EDEADLK);
    return err;
}

THREAD_TEST(members_spawn_into_their_scope, run_both)
{
    static struct tree tree;
    struct branch *root = malloc(sizeof *root);
    MUST(root);
    memset(&tree, 0, sizeof tree);
    *root = (struct branch){&tree, 6};
    MUST_EQ(gs_scope_spawn(&tree.scope, grow, root, GS_NEVER), 0);
    MUST_EQ(gs_scope_wait(&tree.scope, GS_NEVER), 0);
    MUST_EQ(atomic_load(&tree.count), 127);
}

static atomic_int present;

static int be_few(void *unused)
{
    (void)unused;
    MUST(atomic_fetch_add(&present, 1) < 3);
    gs_thread_yield();
    gs_thread_yield();
    atomic_fetch_sub(&present, 1);
    atomic_fetch_add(&ended, 1);
    return 0;
}

THREAD_TEST(limit_holds_and_spawn_waits_for_a_place, run_both)
{
    const struct gs_thread_attributes attributes = {.name = "few", .migrates = true};
    struct gs_scope scope = {.max_threads = 3, .attributes = &attributes};
    reset();
    spawn_members(&scope, be_few, 10 * MEMBERS);
    MUST_EQ(gs_scope_wait(&scope, GS_NEVER), 0);
    MUST_EQ(atomic_load(&ended), 10 * MEMBERS);
}

THREAD_TEST(spawn_without_a_place_times_out, run_both)
{
    struct gs_scope scope = {.max_threads = 2};
    reset();
    spawn_members(&scope, wait_forever, 2);
    MUST_EQ(gs_scope_spawn(&scope, succeed, NULL, 0), -ETIMEDOUT);
    MUST_EQ(gs_scope_spawn(&scope, succeed, NULL, after(GS_MILLISECOND)), -ETIMEDOUT);
    MUST_EQ(gs_scope_wait(&scope, 0), -ETIMEDOUT);
    MUST_EQ(atomic_load(&started), 2);
}

static void *spawn_too_many(void *scope)
{
    return error_of(gs_scope_spawn(scope, succeed, NULL, GS_NEVER));
}

THREAD_TEST(cancellation_ends_spawns_that_wait_for_a_place, run_both)
{
    struct gs_scope scope = {.max_threads = 1};
    reset();
    spawn_members(&scope, wait_forever, 1);
    struct gs_thread *first = spawn(spawn_too_many, &scope), *other = spawn(spawn_too_many, &scope);
    for (int i = 0; i < 10; i++)
        gs_thread_yield();
    gs_thread_cancel(first);
    MUST_EQ((intptr_t)join(first), -ECANCELED);
    gs_scope_cancel(&scope);
    MUST_EQ((intptr_t)join(other), -ECANCELED);
    MUST_EQ(gs_scope_wait(&scope, GS_NEVER), 0);
    MUST_EQ(atomic_load(&started), 1);
}

/* ---- The end of a member ---- */

static int exit_early(void *unused)
{
    (void)unused;
    gs_thread_exit(error_of(-EIO));
}

static int key;

static void destroy_late(void *value)
{
    gs_thread_yield();
    atomic_fetch_add((atomic_int *)value, 1);
}

static int leave_late(void *unused)
{
    (void)unused;
    return gs_thread_set_value(key, &ended);
}

THREAD(end_members)
{
    struct gs_scope scope = {0};
    reset();
    MUST_EQ(gs_scope_spawn(&scope, exit_early, NULL, GS_NEVER), 0);
    spawn_members(&scope, leave_late, MEMBERS);
    MUST_EQ(gs_scope_wait(&scope, GS_NEVER), 0);
    MUST_EQ(atomic_load(&ended), MEMBERS);
}

TEST(members_have_ended_with_the_destructors_of_their_values)
{
    key = gs_thread_key_new(destroy_late);
    CHECK(key >= 0);
    run_both(end_members);
}

THREAD_TEST(invalid_attributes_are_refused_and_leave_no_member, run_both)
{
    char stack[8];
    const struct gs_thread_attributes with_stack = {.stack = stack, .stack_size = sizeof stack},
                                      no_worker = {.worker = 100};
    struct gs_scope scope = {.attributes = &with_stack};
    MUST_EQ(gs_scope_spawn(&scope, succeed, NULL, GS_NEVER), -EINVAL);
    scope.attributes = &no_worker;
    MUST_EQ(gs_scope_spawn(&scope, succeed, NULL, GS_NEVER), -EINVAL);
    MUST_EQ(gs_scope_wait(&scope, GS_NEVER), 0);
}

static int spawn_nested(void *unused)
{
    struct gs_scope scope = {0};
    (void)unused;
    spawn_members(&scope, wait_forever, 3);
    return gs_scope_wait(&scope, GS_NEVER);
}

THREAD_TEST(cancellation_reaches_nested_scopes, run_both)
{
    struct gs_scope scope = {0};
    reset();
    spawn_members(&scope, spawn_nested, MEMBERS);
    while (atomic_load(&started) < 3 * MEMBERS)
        gs_thread_yield();
    MUST_EQ(gs_scope_spawn(&scope, fail_with, error_of(-EIO), GS_NEVER), 0);
    MUST_EQ(gs_scope_wait(&scope, GS_NEVER), -EIO);
    MUST_EQ(atomic_load(&ended), 3 * MEMBERS);
}
