#include "tests/thread/fixture.h"

#include <netdb.h>

static int begun;

static void block_a_while(void *unused)
{
    (void)unused;
    usleep(20000);
    __atomic_fetch_add(&begun, 1, __ATOMIC_SEQ_CST);
}

/* The first call has no deadline. */
static void *block(void *number)
{
    uint64_t deadline_ns = number ? after(5 * GS_MILLISECOND) : GS_NEVER;
    return (void *)(intptr_t)gs_run_blocking(block_a_while, NULL, deadline_ns);
}

THREAD_TEST(jobs_in_progress_are_waited_for_and_queued_ones_are_not_started, run_both)
{
    struct gs_thread *threads[12];
    int done = 0;
    begun = 0;
    MUST_EQ(gs_run_blocking(block_a_while, NULL, 0), -ETIMEDOUT);
    for (int i = 0; i < 12; i++)
        threads[i] = spawn(block, (void *)(intptr_t)i);
    for (int i = 0; i < 12; i++) {
        intptr_t result = (intptr_t)join(threads[i]);
        MUST(!result || result == -ETIMEDOUT);
        done += !result;
    }
    MUST_EQ(__atomic_load_n(&begun, __ATOMIC_SEQ_CST), done);
    MUST(done >= 1);
}

THREAD_TEST(names_are_resolved, run_both)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_family = AF_INET},
                    *found;
    MUST_EQ(gs_resolve("127.0.0.1", "80", &hints, GS_NEVER, &found), 0);
    MUST_EQ(((struct sockaddr_in *)found->ai_addr)->sin_port, htons(80));
    freeaddrinfo(found);
    MUST_EQ(gs_resolve("not a number", "80", &hints, GS_NEVER, &found), -GS_ENONAME);
}
