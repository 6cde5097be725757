#include "tests/test.h"

#include <fcntl.h>

static void skip(void)
{
    SKIP("it is not for this machine");
}

static void pass(void)
{
}

static void fail(void)
{
    CHECK(false);
}

/* Run two tests as a program of their own, and return its status. */
static int status_of(void (*first)(void), void (*second)(void))
{
    struct test tests[] = {{"first", first, &tests[1]}, {"second", second, NULL}};
    char *arguments[] = {"program", NULL};
    int status = -1;
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        test_first = tests;
        tests_passed = tests_failed = 0;
        _exit(main(1, arguments));
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

TEST(tests_after_a_skipped_one_are_run)
{
    CHECK_EQ(status_of(skip, pass), 0);
    CHECK_EQ(status_of(skip, fail), 1);
    CHECK_EQ(status_of(pass, skip), 0);
    CHECK_EQ(status_of(fail, skip), 1);
}

TEST(program_is_skipped_if_all_its_tests_are)
{
    CHECK_EQ(status_of(skip, skip), 77);
}
