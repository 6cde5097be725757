/* Fixture of the tests of user threads. A failed check in a user thread ends the program, because
 * longjmp cannot leave the stack of a user thread. */
#ifndef GS_TESTS_THREAD_FIXTURE_H
#define GS_TESTS_THREAD_FIXTURE_H

#include "tests/test.h"

#include <gossamer/io.h>
#include <gossamer/sync.h>
#include <gossamer/sys.h>
#include <gossamer/thread.h>

/* An emulator runs the program, and the kernel sees the emulator. */
#ifdef GS_EMULATED
#define IS_EMULATED true
#else
#define IS_EMULATED false
#endif

#define MUST(condition_)                                                                           \
    do {                                                                                           \
        if (!(condition_)) {                                                                       \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition_);             \
            fflush(stdout);                                                                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#define MUST_EQ(actual_, expected_)                                                                \
    do {                                                                                           \
        long long is_ = (long long)(actual_), should_ = (long long)(expected_);                    \
        if (is_ != should_) {                                                                      \
            fprintf(stderr, "%s:%d: %s is %lld, expected %lld\n", __FILE__, __LINE__, #actual_,    \
                    is_, should_);                                                                 \
            fflush(stdout);                                                                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* Run `first` with this many workers; all threads must have ended afterwards. */
static inline void run_with(unsigned workers, gs_thread_fn *first)
{
    const struct gs_threads_options options = {.workers = workers};
    CHECK_EQ(gs_threads_run(&options, first, NULL, NULL), 0);
}

static inline void run_on_one(gs_thread_fn *first)
{
    run_with(1, first);
}

static inline void run_on_two(gs_thread_fn *first)
{
    run_with(2, first);
}

static inline void run_on_three(gs_thread_fn *first)
{
    run_with(3, first);
}

/* Run it with one worker, and with several. */
static inline void run_both(gs_thread_fn *first)
{
    run_with(1, first);
    run_with(3, first);
}

/* Run it without the monitor, which is a kernel thread and opens files: for tests that fork, or to
 * which the numbers of descriptors matter. */
static inline void run_unwatched(unsigned workers, gs_thread_fn *first)
{
    const struct gs_threads_options options = {.workers = workers, .stuck_ns = GS_NEVER};
    CHECK_EQ(gs_threads_run(&options, first, NULL, NULL), 0);
}

/* A test whose body is the first thread of the runs that run_ makes.
 *
 *     THREAD_TEST(join_returns_what_the_thread_returned, run_both)
 *     {
 *         MUST(join(spawn(return_it, calls)) == calls);
 *     }
 */
#define THREAD_TEST(name_, run_) THREAD_FIXTURE_TEST(name_, run_, (void)0, (void)0)

/* The same, with statements of that thread before the body, which come last here, and after it. */
#define THREAD_FIXTURE_TEST(name_, run_, end_, ...)                                                \
    static void name_##_body(void);                                                                \
    static void *name_##_first(void *unused)                                                       \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
        name_##_body();                                                                            \
        end_;                                                                                      \
        return unused;                                                                             \
    }                                                                                              \
    TEST(name_)                                                                                    \
    {                                                                                              \
        run_(name_##_first);                                                                       \
    }                                                                                              \
    static void name_##_body(void)

static inline struct gs_thread *spawn(gs_thread_fn *fn, void *argument)
{
    struct gs_thread *thread = NULL;
    MUST_EQ(gs_thread_spawn(NULL, fn, argument, &thread), 0);
    return thread;
}

static inline void *join(struct gs_thread *thread)
{
    void *result = NULL;
    MUST_EQ(gs_thread_join(thread, GS_NEVER, &result), 0);
    return result;
}

static inline uint64_t after(uint64_t wait_ns)
{
    return gs_clock_now() + wait_ns;
}

/* A thread that neither needs its argument nor has a result. */
#define THREAD(name_)                                                                              \
    static void name_##_body(void);                                                                \
    static void *name_(void *unused)                                                               \
    {                                                                                              \
        name_##_body();                                                                            \
        return unused;                                                                             \
    }                                                                                              \
    static void name_##_body(void)

/* A log to which each thread appends a letter. */
static char calls[256];

static inline void log_call(const char *letter)
{
    strncat(calls, letter, sizeof calls - strlen(calls) - 1);
}

static inline void clear_calls(void)
{
    calls[0] = 0;
}

#endif
