/* What threads leave on shared stacks, which the run may have wiped. */
#include "tests/thread/stack/shared.h"
#include "thread/schedule/thread.h"

enum { SECRETS = 8000 };

__attribute__((noinline)) static void use_secrets(void)
{
    unsigned char secrets[SECRETS];
    memset(secrets, 0xa5, sizeof secrets);
    __asm__ volatile("" : : "r"(secrets) : "memory");
}

static void *leave_secrets(void *unused)
{
    use_secrets();
    return unused;
}

static void *leave_secrets_and_wait(void *unused)
{
    use_secrets();
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    return unused;
}

/* How many bytes of 0xa5 are below the caller's frame. */
static size_t count_secrets(void)
{
    const volatile unsigned char *low = (void *)gs_stack_bottom(thread_current());
    const volatile unsigned char *frame = __builtin_frame_address(0);
    size_t n = 0;
    while (low < frame - 1024)
        n += *low++ == 0xa5;
    return n;
}

static void *look_for_secrets(void *ret_n)
{
    *(size_t *)ret_n = count_secrets();
    return NULL;
}

static void *leave_secrets_each(void *ret_n)
{
    size_t *n = ret_n, *after_wait = &n[0], *after_end = &n[1];
    struct gs_thread *waiting = spawn_as(&shared, leave_secrets_and_wait, NULL);
    MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    join(spawn_as(&shared, look_for_secrets, after_wait));
    gs_thread_unpark(waiting);
    join(waiting);
    join(spawn_as(&shared, leave_secrets, NULL));
    join(spawn_as(&shared, look_for_secrets, after_end));
    return NULL;
}

/* How much of two threads a third one finds: of one that waits, and of one that has ended. */
static void find_secrets(bool wipes, size_t ret_n[2])
{
    const struct gs_threads_options options = {.wipes_shared_stacks = wipes};
    gs_shared_stacks_max = 1;
    CHECK_EQ(gs_threads_run(&options, leave_secrets_each, ret_n, NULL), 0);
    gs_shared_stacks_max = SHARED_STACKS;
}

TEST(next_thread_finds_nothing_on_a_shared_stack_that_is_wiped)
{
    size_t n[2];
    if (GS_ASAN + GS_TSAN > 0 || IS_EMULATED)
        SKIP("each thread has a stack of its own");
    find_secrets(false, n);
    CHECK(n[0] > SECRETS / 2 && n[1] > SECRETS / 2);
    find_secrets(true, n);
    CHECK(n[0] < 10 && n[1] < 10);
}
