/* Answers in which bytes were changed. */
#define WITH_GETADDRINFO
#include "tests/dns/fixture.h"

enum { ROUNDS = 40, AT_ONCE = 50 };

static void *find_mutated(void *number)
{
    char name[32];
    snprintf(name, sizeof name, "mutated.x%u.test", (unsigned)(uintptr_t)number);
    int err = find_until(name, after(20 * GS_MILLISECOND));
    MUST(!err || err == -ETIMEDOUT || err == -GS_ENONAME || err == -GS_ENAMESERVER);
    return NULL;
}

static void *meet_mutations(void *unused)
{
    struct gs_thread *threads[AT_ONCE];
    for (unsigned round = 0; round < ROUNDS; round++) {
        atomic_store(&server.mutations, 1 + round % 8);
        for (uintptr_t i = 0; i < AT_ONCE; i++)
            threads[i] = spawn(find_mutated, (void *)i);
        for (unsigned i = 0; i < AT_ONCE; i++)
            join(threads[i]);
    }
    MUST_EQ(find_name("four.test"), 0);
    return unused;
}

TEST(answers_that_were_changed_have_documented_results)
{
    run_usual(meet_mutations);
}
