/* The test harness. The name of a test is a sentence; a program runs all tests of its file in the
 * order in which they appear.
 *
 *     TEST(timer_stopped_in_its_own_callback_never_fires)
 *     {
 *         CHECK_EQ(fired, 0);
 *     }
 *
 * A failed check ends its test and makes the program fail; SKIP prints the reason and ends its
 * test, and the status is 77 if all tests were skipped. Neither is for a user thread or another
 * kernel thread; SKIP in a child process ends that with status 77. With an argument, the program
 * runs only the tests whose names contain it. The program fails if it leaves a process behind, be
 * it a child of a child. */
#ifndef GS_TESTS_TEST_H
#define GS_TESTS_TEST_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef __cplusplus
#include <stdatomic.h>
#endif

struct test {
    const char *name;
    void (*run)(void);
    struct test *next;
};

static struct test *test_first, **test_last = &test_first;
static jmp_buf test_escape;
static pid_t test_process;
static int tests_passed, tests_failed, tests_skipped;

enum test_end { TEST_RUNS, TEST_FAILED, TEST_SKIPPED }; /* values for test_escape */

#define TEST(name_)                                                                                \
    static void name_(void);                                                                       \
    static struct test name_##_test = {#name_, name_, NULL};                                       \
    __attribute__((constructor)) static void name_##_add(void)                                     \
    {                                                                                              \
        *test_last = &name_##_test;                                                                \
        test_last = &name_##_test.next;                                                            \
    }                                                                                              \
    static void name_(void)

/* A test between two statements; a failed check leaves out the second.
 *
 *     #define TIMER_TEST(name_) FIXTURE_TEST(name_, set_up(), gs_loop_free(loop))
 */
#define FIXTURE_TEST(name_, begin_, end_)                                                          \
    static void name_##_body(void);                                                                \
    TEST(name_)                                                                                    \
    {                                                                                              \
        begin_;                                                                                    \
        name_##_body();                                                                            \
        end_;                                                                                      \
    }                                                                                              \
    static void name_##_body(void)

#define TEST_FAIL(...)                                                                             \
    do {                                                                                           \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                            \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fputc('\n', stderr);                                                                       \
        longjmp(test_escape, TEST_FAILED);                                                         \
    } while (0)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            TEST_FAIL("not true: %s", #condition);                                                 \
    } while (0)

#define CHECK_EQ(actual, expected)                                                                 \
    do {                                                                                           \
        long long actual_ = (long long)(actual), expected_ = (long long)(expected);                \
        if (actual_ != expected_)                                                                  \
            TEST_FAIL("%s is %lld, expected %lld", #actual, actual_, expected_);                   \
    } while (0)

#define CHECK_STR(actual, expected)                                                                \
    do {                                                                                           \
        const char *actual_ = (actual), *expected_ = (expected);                                   \
        if (strcmp(actual_, expected_))                                                            \
            TEST_FAIL("%s is \"%s\", expected \"%s\"", #actual, actual_, expected_);               \
    } while (0)

#define SKIP(...)                                                                                  \
    do {                                                                                           \
        printf("skipped: ");                                                                       \
        printf(__VA_ARGS__);                                                                       \
        putchar('\n');                                                                             \
        if (getpid() != test_process)                                                              \
            exit(77);                                                                              \
        longjmp(test_escape, TEST_SKIPPED);                                                        \
    } while (0)

/* Kill the children of the initial thread, which include those whose parents have ended. */
static void test_kill_children(void)
{
    char name[64];
    int pid;
    printf("FAILED: a process was left behind\n");
    snprintf(name, sizeof name, "/proc/%d/task/%d/children", (int)test_process, (int)test_process);
    FILE *children = fopen(name, "re");
    while (children && fscanf(children, "%d", &pid) == 1) {
        char command[32] = "";
        snprintf(name, sizeof name, "/proc/%d/comm", pid);
        FILE *file = fopen(name, "re");
        if (file && fscanf(file, "%31s", command) == 1)
            printf("process %d (%s) was left behind\n", pid, command);
        if (file)
            fclose(file);
        kill(pid, SIGKILL);
    }
    if (children)
        fclose(children);
}

/* At exit, when all else has been cleaned up. What was killed may need a moment to end. */
static void test_check_children(void)
{
    const char *grace = getenv("GOSSAMER_TEST_GRACE_S");
    long tries = (long)((grace ? atof(grace) : 10) * 1000);
    if (getpid() != test_process)
        return;
    for (pid_t ended; (ended = waitpid(-1, NULL, WNOHANG)) >= 0;) {
        if (!ended && !tries--) {
            test_kill_children();
            fflush(stdout);
            _exit(1);
        }
        if (!ended)
            usleep(1000);
    }
}

static void test_watch_children(void)
{
    test_process = getpid();
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

static void test_run(const struct test *test)
{
    switch (setjmp(test_escape)) {
    case TEST_RUNS:
        test->run();
        tests_passed++;
        break;
    case TEST_FAILED:
        printf("FAILED %s\n", test->name);
        tests_failed++;
        break;
    default:
        printf("SKIPPED %s\n", test->name);
        tests_skipped++;
    }
}

int main(int argc, char **argv)
{
    test_watch_children();
    atexit(test_check_children);
    for (const struct test *test = test_first; test; test = test->next)
        if (argc < 2 || strstr(test->name, argv[1]))
            test_run(test);
    printf("%d passed, %d failed", tests_passed, tests_failed);
    if (tests_skipped)
        printf(", %d skipped", tests_skipped);
    putchar('\n');
    return tests_failed ? 1 : tests_passed ? 0 : tests_skipped ? 77 : 1;
}

#endif
