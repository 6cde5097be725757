/* With one worker, the monitor has descriptors of its own. */
#include "tests/sandbox.h"
#include "tests/thread/report/report.h"
#include "tests/thread/schedule/stuck.h"
#include "thread/context/sanitizer.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void skip_where_it_shares(void)
{
#if GS_ASAN || GS_TSAN || defined(GS_EMULATED)
    SKIP("the monitor shares the descriptors of the program under a sanitizer or an emulator");
#endif
    if (gs_syscall(SYS_pidfd_getfd, -1, 0, 0, 0, 0, 0) != -EBADF)
        SKIP("this kernel lends no descriptors");
}

static int count_entries(const char *path)
{
    DIR *folder = opendir(path);
    int n = 0;
    while (folder && readdir(folder))
        n++;
    if (folder)
        closedir(folder);
    return n - 2; /* without . and .. */
}

/* How many kernel threads of this process have one descriptor: a pidfd. One that ends has none. */
static int count_separate(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    int n = 0;
    MUST(tasks != NULL);
    while ((task = readdir(tasks))) {
        char path[300];
        snprintf(path, sizeof path, "/proc/self/task/%s/fd", task->d_name);
        n += task->d_name[0] != '.' && count_entries(path) == 1;
    }
    closedir(tasks);
    return n;
}

static int count_tasks(void)
{
    return count_entries("/proc/self/task");
}

static void wait_until_separate(void)
{
    while (!count_separate())
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
}

/* A file that the program closes must be closed, and what is reported is written to the file that
 * has the number now. */
static int reports[2], data[2];

static void *read_reports(void *unused)
{
    size_t n = 0;
    memset(report, 0, sizeof report);
    while (!is_reported("^stuck: .* and 1 descriptor is ready on worker 1$")) {
        ssize_t some = read(reports[0], report + n, sizeof report - 1 - n);
        MUST(some > 0);
        n += (size_t)some;
    }
    end_all();
    return unused;
}

static void *read_byte(void *unused)
{
    char byte;
    MUST_EQ(gs_read(data[0], &byte, 1, GS_NEVER), 1);
    return unused;
}

static void *do_nothing(void *unused)
{
    return unused;
}

static void *block_when_separate(void *number)
{
    char byte;
    int old[2];
    wait_until_separate();
    MUST_EQ(pipe2(old, O_CLOEXEC), 0);
    MUST_EQ(pipe2(reports, O_CLOEXEC), 0);
    MUST_EQ(pipe2(data, O_CLOEXEC | O_NONBLOCK), 0);
    MUST_EQ(dup2(old[1], *(int *)number), *(int *)number);
    close(old[1]);
    MUST_EQ(dup2(reports[1], *(int *)number), *(int *)number);
    MUST_EQ(read(old[0], &byte, 1), 0);
    close(old[0]);

    pthread_t reader;
    struct gs_thread *waiting = spawn(read_byte, NULL);
    gs_thread_yield();
    struct gs_thread *ready = spawn(do_nothing, NULL);
    MUST_EQ(write(data[1], "", 1), 1);
    MUST_EQ(pthread_create(&reader, NULL, read_reports, NULL), 0);
    block();
    pthread_join(reader, NULL);
    join(waiting);
    join(ready);
    MUST_EQ(gs_close(data[0]) | close(data[1]) | close(reports[0]) | close(reports[1]), 0);
    return number;
}

TEST(monitor_of_one_worker_borrows_the_descriptors_that_it_polls_and_writes_to)
{
    skip_where_it_shares();
    begin();
    int number = open("/dev/null", O_WRONLY | O_CLOEXEC);
    const struct gs_threads_options options = {.report_fd = number};
    CHECK_EQ(gs_threads_run(&options, block_when_separate, &number, NULL), 0);
    close(number);
    end();
}

static void *check_shared(void *unused)
{
    while (count_tasks() < 2)
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    for (int i = 0; i < 20; i++) {
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
        MUST_EQ(count_separate(), 0);
    }
    return unused;
}

TEST(monitor_of_two_workers_shares_the_descriptors)
{
    const struct gs_threads_options options = {.workers = 2};
    CHECK_EQ(gs_threads_run(&options, check_shared, NULL, NULL), 0);
}

enum { CANNOT_REFUSE = 77 };

TEST(monitor_shares_the_descriptors_where_the_kernel_lends_none)
{
    int status = -1;
    pid_t child = fork();
    if (!child) {
        if (refuse_call(SYS_pidfd_getfd))
            _exit(CANNOT_REFUSE);
        MUST_EQ(gs_threads_run(NULL, check_shared, NULL, NULL), 0);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (status == CANNOT_REFUSE << 8)
        SKIP("system calls cannot be refused here");
    CHECK_EQ(status, 0);
}
