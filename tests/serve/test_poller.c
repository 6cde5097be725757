#include "serve/operations/poller.h"

#include "tests/sandbox.h"
#include "tests/test.h"

static const struct serve_poller_facts as_measured = {
    .kernel_major = 6, .kernel_minor = 18, .is_x86 = true};
static struct serve_poller_choice choice;

static void choose(const char *arch, struct serve_poller_facts facts)
{
    CHECK(serve_poller_choose(serve_arch_find(arch), &facts, &choice));
}

#define CHECK_EPOLL(reason_)                                                                       \
    do {                                                                                           \
        CHECK_STR(choice.poller, "epoll");                                                         \
        if (!strstr(choice.reason, reason_))                                                       \
            TEST_FAIL("not the reason: %s, but: %s", reason_, choice.reason);                      \
    } while (0)

TEST(io_uring_is_chosen_where_it_was_measured_to_be_ahead)
{
    choose("event", as_measured);
    CHECK_STR(choice.poller, "io_uring");
    CHECK(strstr(choice.reason, "of epoll's processor time"));
}

TEST(epoll_is_chosen_for_architectures_that_gain_nothing_or_were_not_measured)
{
    choose("user", as_measured);
    CHECK_EPOLL("0.98 to 1.03 of epoll's processor time");
    choose("stage", as_measured);
    CHECK_EPOLL("not measured");
}

TEST(architectures_without_loops_get_no_poller)
{
    CHECK(!serve_poller_choose(serve_arch_find("thread"), &as_measured, &choice));
}

TEST(epoll_is_chosen_on_kernels_and_processors_that_were_not_measured)
{
    struct serve_poller_facts facts = as_measured;
    facts.kernel_minor = 17;
    choose("event", facts);
    CHECK_EPOLL("before 6.18");
    facts.kernel_major = 7;
    facts.kernel_minor = 0;
    choose("event", facts);
    CHECK_STR(choice.poller, "io_uring");
    facts.is_x86 = false;
    choose("event", facts);
    CHECK_EPOLL("x86-64");
}

TEST(epoll_is_chosen_with_the_reason_why_there_is_no_io_uring)
{
    struct serve_poller_facts facts = as_measured;
    facts.setup = -EPERM;
    choose("event", facts);
    CHECK_EPOLL("seccomp");
    facts.disabled = 2;
    choose("event", facts);
    CHECK_EPOLL("kernel.io_uring_disabled is 2");
    facts.setup = -ENOSYS;
    choose("event", facts);
    CHECK_EPOLL("no io_uring");
    facts.setup = -ENOMEM;
    choose("event", facts);
    CHECK_EPOLL("RLIMIT_MEMLOCK");
    facts.setup = -EMFILE;
    choose("event", facts);
    CHECK_EPOLL(strerror(EMFILE));
}

TEST(the_environment_switches_io_uring_off)
{
    struct serve_poller_facts facts;
    setenv("GOSSAMER_NO_IO_URING", "1", 1);
    serve_poller_find_facts(&facts);
    CHECK(facts.is_switched_off && facts.kernel_major >= 5);
    unsetenv("GOSSAMER_NO_IO_URING");
    choose("event", facts);
    CHECK_EPOLL("GOSSAMER_NO_IO_URING");
}

enum { CANNOT_REFUSE = 77 };

static _Noreturn void choose_in_sandbox(void)
{
    struct serve_poller_facts facts;
    if (refuse_call(SYS_io_uring_setup))
        _exit(CANNOT_REFUSE);
    serve_poller_find_facts(&facts);
    bool is_refused = facts.setup == -EPERM;
    bool has_choice = serve_poller_choose(serve_arch_find("event"), &facts, &choice);
    _exit(is_refused && has_choice && !strcmp(choice.poller, "epoll") ? 0 : 1);
}

TEST(a_sandbox_that_refuses_io_uring_gets_epoll)
{
    int status = -1;
    pid_t child = fork();
    if (!child)
        choose_in_sandbox();
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (status == CANNOT_REFUSE << 8)
        SKIP("system calls cannot be refused here");
    CHECK_EQ(status, 0);
}
