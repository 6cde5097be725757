#include "base/pool.h"
#include "tests/test.h"

#include <dirent.h>
#include <semaphore.h>

static sem_t may_return, is_complete;
static struct pool_user user;

static void do_nothing(void *unused)
{
    (void)unused;
}

static void block(void *unused)
{
    (void)unused;
    while (sem_wait(&may_return))
        ;
}

static void complete(struct job *job)
{
    (void)job;
    sem_post(&is_complete);
}

static void wait_for_one(void)
{
    while (sem_wait(&is_complete))
        ;
}

TEST(job_can_be_submitted_again_and_canceled_while_it_is_queued)
{
    struct job job = {.fn = do_nothing, .complete = complete};
    struct job blocker = {.fn = block, .complete = complete};
    sem_init(&may_return, 0, 0);
    sem_init(&is_complete, 0, 0);
    user = (struct pool_user){.max_threads = 1};
    CHECK_EQ(gs_pool_retain(&user), 0);
    CHECK_EQ(gs_pool_submit(&user, &job), 0);
    wait_for_one();
    CHECK_EQ(gs_pool_submit(&user, &blocker), 0);
    CHECK_EQ(gs_pool_submit(&user, &job), 0);
    CHECK_EQ(gs_pool_cancel(&job), JOB_QUEUED);
    sem_post(&may_return);
    wait_for_one();
    gs_pool_release(&user);
    CHECK_EQ(sem_trywait(&is_complete), -1);
}

TEST(a_child_does_not_wait_for_the_jobs_of_its_parent)
{
    struct job blocker = {.fn = block, .complete = complete};
    int status = -1;
    sem_init(&may_return, 0, 0);
    sem_init(&is_complete, 0, 0);
    user = (struct pool_user){.max_threads = 1};
    CHECK_EQ(gs_pool_retain(&user), 0);
    CHECK_EQ(gs_pool_submit(&user, &blocker), 0);
    pid_t child = fork();
    if (!child) {
        alarm(10);
        gs_pool_release(&user);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    sem_post(&may_return);
    wait_for_one();
    gs_pool_release(&user);
}

static int kernel_threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks);
    for (const struct dirent *entry; (entry = readdir(tasks));)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static void run_at_once(struct job *jobs, int count)
{
    for (int i = 0; i < count; i++) {
        jobs[i] = (struct job){.kind = JOB_NAME, .fn = block, .complete = complete};
        CHECK_EQ(gs_pool_submit(&user, &jobs[i]), 0);
    }
    for (int i = 0; i < count; i++)
        sem_post(&may_return);
    for (int i = 0; i < count; i++)
        wait_for_one();
}

TEST(kernel_threads_that_are_idle_end_and_later_jobs_start_others)
{
    enum { JOBS = 5 };
    struct job jobs[JOBS];
    uint64_t idle_ns = gs_pool_idle_ns;
    gs_pool_idle_ns = 1000000;
    sem_init(&may_return, 0, 0);
    sem_init(&is_complete, 0, 0);
    user = (struct pool_user){0};
    CHECK_EQ(gs_pool_retain(&user), 0);
    int before = kernel_threads();
    for (int round = 0; round < 3; round++) {
        run_at_once(jobs, JOBS);
        while (kernel_threads() > before)
            usleep(1000);
    }
    run_at_once(jobs, JOBS);
    gs_pool_release(&user);
    gs_pool_idle_ns = idle_ns;
}

/* A job arrives about when the kernel thread ends. */
TEST(no_job_is_lost_when_a_kernel_thread_ends)
{
    struct job job;
    uint64_t idle_ns = gs_pool_idle_ns;
    gs_pool_idle_ns = 50000;
    sem_init(&may_return, 0, 0);
    sem_init(&is_complete, 0, 0);
    user = (struct pool_user){0};
    CHECK_EQ(gs_pool_retain(&user), 0);
    for (unsigned round = 0; round < 300; round++) {
        run_at_once(&job, 1);
        usleep(round % 100);
    }
    gs_pool_release(&user);
    gs_pool_idle_ns = idle_ns;
}
