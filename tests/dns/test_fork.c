/* The child of a fork has none of its parent's look-ups, and makes its own. */
#define WITH_GETADDRINFO
#include "base/sanitized.h"
#include "tests/dns/fixture.h"

static void *find_in_background(void *name)
{
    return (void *)(intptr_t)find_name(name);
}

static void *fork_during_look_up(void *unused)
{
    struct gs_thread *thread = spawn(find_in_background, "held.test");
    int status = -1;
    while (atomic_load(&server.held_queries) < 2)
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    pid_t child = gs_fork();
    MUST(child >= 0);
    if (!child) {
        MUST_EQ(find_name("n1.test"), 0);
        MUST_EQ(find_until("held.test", after(20 * GS_MILLISECOND)), -ETIMEDOUT);
        _exit(0);
    }
    MUST_EQ(gs_wait_child(child, GS_NEVER, &status), 0);
    MUST_EQ(status, 0);
    atomic_store(&server.may_answer_held, true);
    MUST_EQ((intptr_t)join(thread), 0);
    return unused;
}

TEST(child_of_a_fork_asks_by_sockets_of_its_own)
{
    if (IS_EMULATED)
        SKIP("the emulator crashes in a fork with several kernel threads");
    if (GS_TSAN)
        SKIP("the thread sanitizer does not support kernel threads in a child");
    run_usual(fork_during_look_up);
}
