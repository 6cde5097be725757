/* The harness itself: SKIP ends one test. The samples do what they are asked for where this program
 * runs itself again. */
#include "tests/test.h"

#define ASKED "GOSSAMER_TEST_SAMPLES"

static bool is_asked(const char *wanted)
{
    const char *asked = getenv(ASKED);
    return asked && strstr(asked, wanted);
}

TEST(sample_that_may_be_skipped)
{
    if (is_asked("skip"))
        SKIP("as %s", "asked");
    CHECK_EQ(tests_skipped, 0);
}

TEST(sample_that_runs_behind_it)
{
    CHECK_EQ(tests_skipped, is_asked("skip"));
    CHECK(!is_asked("fail"));
}

/* Stores what the samples of these names print, and returns their status. */
static int run_samples(const char *names, const char *asked, char *ret_text, size_t size)
{
    int output[2], status = -1;
    CHECK_EQ(pipe(output), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        dup2(output[1], STDOUT_FILENO);
        setenv(ASKED, asked, 1);
        execl("/proc/self/exe", "samples", names, (char *)NULL);
        _exit(99);
    }
    close(output[1]);
    size_t n = 0;
    for (ssize_t some; n < size - 1 && (some = read(output[0], ret_text + n, size - 1 - n)) > 0;)
        n += (size_t)some;
    ret_text[n] = '\0';
    close(output[0]);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

TEST(tests_behind_a_skipped_one_run_and_the_tally_says_so)
{
    char text[512];
    CHECK_EQ(run_samples("sample_", "skip", text, sizeof text), 0);
    CHECK_STR(text, "skipped: as asked\nSKIPPED sample_that_may_be_skipped\n"
                    "1 passed, 0 failed, 1 skipped\n");
}

TEST(program_is_skipped_if_all_its_tests_are)
{
    char text[512];
    CHECK_EQ(run_samples("sample_that_may", "skip", text, sizeof text), 77);
    CHECK(strstr(text, "\n0 passed, 0 failed, 1 skipped\n"));
}

TEST(program_with_a_skipped_and_a_failed_test_fails)
{
    char text[512];
    CHECK_EQ(run_samples("sample_", "skip, fail", text, sizeof text), 1);
    CHECK(strstr(text, "\n0 passed, 1 failed, 1 skipped\n"));
}

TEST(program_without_a_test_of_that_name_fails)
{
    char text[512];
    CHECK_EQ(run_samples("no such test", "", text, sizeof text), 1);
    CHECK_STR(text, "0 passed, 0 failed\n");
}
