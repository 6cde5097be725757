#include "tests/thread/fixture.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

/* Each system call, allocation and kernel thread that the runtime needs to start fails once: the run either does without, or returns
 * an error and leaves nothing behind. This program is linked so that the functions below stand before the C library's. */

enum { NO_CALL = -1 };

static atomic_long failing_call = NO_CALL;
static atomic_int left, left_allocations = -1, left_kernel_threads = -1;

static bool is_turn(atomic_int *count)
{
    return atomic_load(count) >= 0 && atomic_fetch_sub(count, 1) == 0;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t n);
void *__real_realloc(void *bytes, size_t n);
void *__real_aligned_alloc(size_t alignment, size_t n);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *argument);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t n);
void *__wrap_realloc(void *bytes, size_t n);
void *__wrap_aligned_alloc(size_t alignment, size_t n);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *argument);

void *__wrap_malloc(size_t n)
{
    return is_turn(&left_allocations) ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t count, size_t n)
{
    return is_turn(&left_allocations) ? NULL : __real_calloc(count, n);
}

void *__wrap_realloc(void *bytes, size_t n)
{
    return is_turn(&left_allocations) ? NULL : __real_realloc(bytes, n);
}

void *__wrap_aligned_alloc(size_t alignment, size_t n)
{
    return is_turn(&left_allocations) ? NULL : __real_aligned_alloc(alignment, n);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *argument)
{
    return is_turn(&left_kernel_threads) ? EAGAIN
                                         : __real_pthread_create(thread, attributes, fn, argument);
}

static long fail(long number, void *err)
{
    return number == atomic_load(&failing_call) && is_turn(&left) ? *(long *)err : 0;
}

static int entries_of(const char *path)
{
    int count = 0;
    DIR *directory = opendir(path);
    CHECK(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static void *do_nothing(void *unused)
{
    return unused;
}

static void *sleep_a_little(void *unused)
{
    int err = gs_thread_sleep(after(GS_MICROSECOND));
    MUST(!err || err == -ENOMEM);
    return unused;
}

/* Stacks of all sizes, so that some are new each time. */
static void *use_some(void *unused)
{
    for (int i = 0; i < 8; i++) {
        const struct gs_thread_attributes attributes = {.stack_size = (size_t)4096 << 2 * (i % 4),
                                                        .migrates = i % 2};
        struct gs_thread *thread;
        int err = gs_thread_spawn(&attributes, i < 4 ? do_nothing : sleep_a_little, NULL, &thread);
        MUST(!err || err == -ENOMEM);
        if (!err)
            join(thread);
    }
    return unused;
}

static int run(void)
{
    const struct gs_threads_options options = {.workers = 3, .is_silent = true};
    return gs_threads_run(&options, use_some, NULL, NULL);
}

/* Returns whether there was an n-th one, which failed. */
static bool run_failing(atomic_int *count, int n, const int *errors)
{
    int fds = entries_of("/proc/self/fd");
    atomic_store(count, n);
    int err = run();
    bool has_failed = atomic_load(count) < 0;
    atomic_store(count, -1);
    bool is_expected = !err;
    for (int i = 0; errors[i]; i++)
        is_expected |= err == errors[i];
    CHECK(is_expected);
    CHECK_EQ(entries_of("/proc/self/fd"), fds);
    CHECK_EQ(run(), 0);
    return has_failed;
}

TEST(every_system_call_of_a_start_may_fail)
{
    static const struct {
        long number;
        long err;
    } faults[] = {
        {SYS_mmap, -ENOMEM},          {SYS_mprotect, -ENOMEM}, {SYS_madvise, -EINVAL},
        {SYS_epoll_create1, -EMFILE}, {SYS_eventfd2, -ENFILE}, {SYS_epoll_ctl, -ENOMEM},
        {SYS_pipe2, -EMFILE},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const int errors[] = {(int)faults[i].err, -ENOMEM, 0};
        long err = faults[i].err;
        gs_sys_set_fault(fail, &err);
        atomic_store(&failing_call, faults[i].number);
        for (int n = 0; run_failing(&left, n, errors); n++)
            ;
        atomic_store(&failing_call, NO_CALL);
        gs_sys_set_fault(NULL, NULL);
    }
}

TEST(every_allocation_of_a_start_may_fail)
{
    const int errors[] = {-ENOMEM, 0};
    int n = 0;
    while (run_failing(&left_allocations, n, errors))
        n++;
    CHECK(n > 3);
}

TEST(every_kernel_thread_of_a_start_may_fail)
{
    const int errors[] = {-EAGAIN, 0};
    int n = 0;
    while (run_failing(&left_kernel_threads, n, errors))
        n++;
    CHECK_EQ(n, 3); /* two workers and their monitor */
}

/* ---- Spares ---- */

static int release[2];
static atomic_int blocked, passed;

static void *block(void *unused)
{
    char byte;
    if (atomic_fetch_add(&blocked, 1) < 2)
        MUST_EQ(gs_sys_read(release[0], &byte, 1), 0);
    else if (atomic_fetch_add(&passed, 1) == 1)
        close(release[1]);
    return unused;
}

/* Two are stuck on two workers; two more need a spare. */
static void *need_spare(void *unused)
{
    struct gs_thread *threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = spawn(block, NULL);
    for (int i = 0; i < 4; i++)
        join(threads[i]);
    return unused;
}

TEST(spare_that_cannot_be_started_is_tried_again)
{
    const struct gs_threads_options options = {.workers = 2, .is_silent = true};
    CHECK_EQ(pipe(release), 0);
    atomic_store(&left_kernel_threads, 2);
    CHECK_EQ(gs_threads_run(&options, need_spare, NULL, NULL), 0);
    CHECK(atomic_load(&left_kernel_threads) < 0);
    atomic_store(&left_kernel_threads, -1);
    close(release[0]);
}
