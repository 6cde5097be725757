/* Name servers that have no answer, or do not answer. */
#define WITH_GETADDRINFO
#include "tests/dns/fixture.h"

static void *meet_errors(void *unused)
{
    static const struct {
        const char *name;
        int err;
    } rows[] = {
        {"missing.test", -GS_ENONAME},
        {"empty.test", -GS_ENONAME},
        {"failing.test", -GS_ENAMESERVER},
        {"refused.test", -GS_ENAMESERVER},
        {"unsupported.test", -GS_ENAMESERVER},
        {"garbage.test", -GS_ENAMESERVER},
        {"..test", -GS_ENONAME},
    };
    char label[80];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        MUST_EQ(find_name(rows[i].name), rows[i].err);
    memset(label, 'x', 70);
    strcpy(label + 70, ".test");
    MUST_EQ(find_name(label), -GS_ENONAME);
    MUST_EQ(atomic_load(&other_calls), 0);
    return unused;
}

TEST(errors_of_name_servers_have_numbers_of_their_own)
{
    run_usual(meet_errors);
}

static void *find_in_background(void *name)
{
    return (void *)(intptr_t)find_name(name);
}

/* They all take as long as one. */
static void *wait_for_nothing(void *unused)
{
    static char *const names[] = {"silent.test", "wrongid.test", "wrongquestion.test",
                                  "cutforever.test"};
    struct gs_thread *threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = spawn(find_in_background, names[i]);
    for (int i = 0; i < 3; i++)
        MUST_EQ((intptr_t)join(threads[i]), -GS_ENAMESERVER);
    MUST((intptr_t)join(threads[3]) < 0);
    return unused;
}

TEST(look_up_ends_when_no_answer_comes)
{
    run_dns(1, "nameserver 127.0.0.1\noptions timeout:1 attempts:2\n", wait_for_nothing);
    run_dns(3, "nameserver 127.0.0.1\noptions timeout:1 attempts:2\n", wait_for_nothing);
}

static void *ask_again(void *unused)
{
    MUST_EQ(find_name("lost.test"), 0);
    return unused;
}

TEST(server_that_does_not_answer_is_asked_again)
{
    run_dns(1, "nameserver 127.0.0.1\noptions timeout:1 attempts:5\n", ask_again);
}

static void *give_up(void *unused)
{
    struct gs_thread *canceled = spawn(find_in_background, "silent.test");
    unsigned queries = atomic_load(&server.queries);
    MUST_EQ(find_until("silent.test", 0), -ETIMEDOUT);
    MUST_EQ(find_until("silent.test", after(20 * GS_MILLISECOND)), -ETIMEDOUT);
    while (atomic_load(&server.queries) < queries + 2)
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    gs_thread_cancel(canceled);
    MUST_EQ((intptr_t)join(canceled), -ECANCELED);
    MUST_EQ(find_name("four.test"), 0);
    return unused;
}

/* The run ends while c-ares still waits for the answers. */
TEST(deadline_and_cancellation_end_a_look_up_at_once)
{
    run_dns(1, "nameserver 127.0.0.1\noptions timeout:30 attempts:5\n", give_up);
    run_dns(3, "nameserver 127.0.0.1\noptions timeout:30 attempts:5\n", give_up);
}

static void *ask_nobody(void *unused)
{
    MUST_EQ(find_name("four.test"), -GS_ENAMESERVER);
    return unused;
}

/* 127.0.0.2 has no server at the port. */
TEST(server_that_does_not_exist_does_not_answer)
{
    run_dns(1, "nameserver 127.0.0.2\noptions timeout:5 attempts:1\n", ask_nobody);
}

static void *ask_the_second(void *unused)
{
    MUST_EQ(find_name("four.test"), 0);
    return unused;
}

TEST(second_server_answers_in_place_of_the_first)
{
    run_dns(1, "nameserver 127.0.0.2\nnameserver 127.0.0.1\noptions timeout:1\n", ask_the_second);
}
