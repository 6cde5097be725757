/* The harness itself: what it says of a process that a test has left behind. */
#include "tests/test.h"

static int orphan[2]; /* its reading end ends when the process that was left behind has ended */

/* A child of a child, whose parent has ended. */
static void leave_behind(void)
{
    if (fork())
        return;
    if (!fork()) {
        close(orphan[0]);
        pause();
    }
    _exit(0);
}

/* Returns the status of a program of tests that has done this, and what it has printed. */
static int status_of(void (*leave)(void), char *ret_text, size_t size)
{
    int output[2], status = -1;
    CHECK_EQ(pipe(output), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        dup2(output[1], STDOUT_FILENO);
        setenv("GOSSAMER_TEST_GRACE_S", "0.2", 1);
        test_watch_children();
        leave();
        test_check_children();
        _exit(0);
    }
    close(output[1]);
    ssize_t n = 0;
    for (ssize_t some = 1; some > 0; n += some)
        some = read(output[0], ret_text + n, size - 1 - (size_t)n);
    ret_text[n] = '\0';
    close(output[0]);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

static void leave_ending(void)
{
    if (!fork())
        _exit(1);
}

TEST(process_that_ends_needs_no_wait)
{
    char text[512];
    CHECK_EQ(status_of(leave_ending, text, sizeof text), 0);
    CHECK_STR(text, "");
}

TEST(process_that_is_left_behind_by_a_child_is_named_and_killed)
{
    char text[512], byte;
    int adopts = 0;
    prctl(PR_GET_CHILD_SUBREAPER, &adopts, 0, 0, 0);
    if (!adopts)
        SKIP("there is no PR_SET_CHILD_SUBREAPER: orphans are children of another process");
    CHECK_EQ(pipe2(orphan, O_CLOEXEC), 0);
    CHECK_EQ(status_of(leave_behind, text, sizeof text), 1);
    CHECK(strstr(text, "(test_base_left_") && strstr(text, ") was left behind\n"));
    close(orphan[1]);
    CHECK_EQ(read(orphan[0], &byte, 1), 0);
    close(orphan[0]);
}
