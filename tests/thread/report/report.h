/* Reports about threads that a child process writes, and regular expressions that must match
 * them. */
#ifndef GS_TESTS_THREAD_REPORT_H
#define GS_TESTS_THREAD_REPORT_H

#include "tests/thread/fixture.h"

#include <regex.h>

static char report[1 << 19];
static int report_out; /* the child's end of the pipe for its report */

static inline void read_report(int fd)
{
    size_t n = 0;
    ssize_t some;
    while ((some = read(fd, report + n, sizeof report - 1 - n)) > 0)
        n += (size_t)some;
    report[n] = 0;
}

/* Run `fn` in a child process, and store what it writes to report_out in `report`. Returns the wait
 * status. */
static inline int in_child(void (*fn)(void))
{
    int fds[2], status = 0;
    CHECK_EQ(pipe(fds), 0);
    pid_t pid = fork();
    if (!pid) {
        report_out = fds[1];
        fn();
        _exit(0);
    }
    close(fds[1]);
    read_report(fds[0]);
    close(fds[0]);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return status;
}

/* Called in the child process. */
static inline void run_reporting(unsigned workers, gs_thread_fn *first, int expected)
{
    const struct gs_threads_options options = {
        .workers = workers, .report_fd = report_out, .dump_signal = SIGUSR2};
    if (gs_threads_run(&options, first, NULL, NULL) != expected)
        _exit(3);
}

static inline struct gs_thread *spawn_named(const char *name, gs_thread_fn *fn, void *argument)
{
    const struct gs_thread_attributes attributes = {.name = name};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&attributes, fn, argument, &thread), 0);
    return thread;
}

/* Matches an extended regular expression, in which ^ and $ match at the ends of lines. */
static inline int is_reported(const char *pattern)
{
    regex_t regex;
    CHECK_EQ(regcomp(&regex, pattern, REG_EXTENDED | REG_NEWLINE | REG_NOSUB), 0);
    int result = regexec(&regex, report, 0, NULL, 0);
    regfree(&regex);
    return !result;
}

#define CHECK_REPORTED(pattern_)                                                                   \
    do {                                                                                           \
        if (!is_reported(pattern_))                                                                \
            TEST_FAIL("not reported: %s\n%s", pattern_, report);                                   \
    } while (0)

/* Park, with so many more calls on the stack. */
__attribute__((noinline, unused)) static void park_below(int depth)
{
    if (depth)
        park_below(depth - 1);
    else
        MUST_EQ(gs_thread_park(GS_NEVER), 0);
    __asm__ volatile("");
}

#endif
