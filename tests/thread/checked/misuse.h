/* Misuse in a child process, and the line with which the library stops it. */
#ifndef GS_TESTS_THREAD_CHECKED_MISUSE_H
#define GS_TESTS_THREAD_CHECKED_MISUSE_H

#include "tests/thread/report/report.h"

/* The function that is misused, the regular expression of what is wrong, and where the call is. */
#define CHECK_STOPPED(fn_, function_, what_)                                                       \
    do {                                                                                           \
        char pattern_[512];                                                                        \
        int status_ = in_child(fn_);                                                               \
        snprintf(pattern_, sizeof pattern_, "^gossamer: %s: %s \\(in .+\\+0x[0-9a-f]+\\)?\\)$",    \
                 function_, what_);                                                                \
        CHECK_REPORTED(pattern_);                                                                  \
        CHECK(WIFSIGNALED(status_) && WTERMSIG(status_) == SIGABRT);                               \
    } while (0)

/* Run `first` in the child, with one worker. */
#define IN_CHILD_RUN(name_, first_)                                                                \
    static void name_(void)                                                                        \
    {                                                                                              \
        run_reporting(1, first_, 0);                                                               \
    }

/* The child writes to stderr what it reports outside gs_threads_run. */
static inline void report_to_stderr(void)
{
    dup2(report_out, STDERR_FILENO);
}

#endif
