/* Look-ups that take longer than anybody waits for them. */
#include "tests/thread/fixture.h"
#include "tests/thread/net/names.h"

#include <dirent.h>
#include <linux/openat2.h>

static const struct sockaddr_storage anything = {.ss_family = AF_INET};

/* Look-ups of different services are not joined. */
static int look_up_service(const char *name, unsigned number, uint64_t deadline_ns)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[16];
    snprintf(service, sizeof service, "%u", number);
    int err = gs_resolve(name, service, &hints, deadline_ns, &found);
    MUST_EQ(found != NULL, err == 0);
    if (found)
        freeaddrinfo(found);
    return err;
}

static int look_up(const char *name, uint64_t deadline_ns)
{
    return look_up_service(name, 80, deadline_ns);
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

static void *do_nothing(void *unused)
{
    return unused;
}

/* How many kernel threads a process without a pool has: the thread sanitizer's own is started by
 * the first run. A kernel thread that was joined is listed for some more milliseconds. */
static int kernel_threads_of_process(void)
{
    static int fewest;
    if (fewest)
        return fewest;
    CHECK_EQ(gs_threads_run(NULL, do_nothing, NULL, NULL), 0);
    fewest = kernel_threads();
    for (int i = 0; i < 100; i++) {
        usleep(1000);
        int count = kernel_threads();
        fewest = count < fewest ? count : fewest;
    }
    return fewest;
}

/* Run it, and let the look-ups that were abandoned end. */
static void run_with_pool(unsigned workers, unsigned max_pool_threads, gs_thread_fn *first)
{
    const struct gs_threads_options options = {.workers = workers,
                                               .max_pool_threads = max_pool_threads};
    int before = kernel_threads_of_process();
    names[0] = (struct name){"stuck", &anything, 1};
    names[1] = (struct name){"quick", &anything, 1};
    CHECK_EQ(sem_init(&lookup_may_end, 0, 0), 0);
    atomic_store(&lookups_started, 0);
    atomic_store(&lookups_ended, 0);
    CHECK_EQ(gs_threads_run(&options, first, NULL, NULL), 0);
    for (int i = 0; i < 100; i++)
        sem_post(&lookup_may_end);
    while (kernel_threads() > before)
        usleep(1000);
    CHECK_EQ(atomic_load(&lookups_ended), atomic_load(&lookups_started));
}

/* The only kernel thread of the pool is occupied each time, and replaced. */
THREAD(give_up_look_ups)
{
    for (int i = 1; i <= 5; i++) {
        MUST_EQ(look_up("stuck", after(20 * GS_MILLISECOND)), -ETIMEDOUT);
        while (atomic_load(&lookups_started) < i)
            MUST_EQ(look_up("stuck", after(20 * GS_MILLISECOND)), -ETIMEDOUT);
        MUST_EQ(look_up("quick", GS_NEVER), 0);
    }
    MUST_EQ(look_up("stuck", 0), -ETIMEDOUT);
    MUST_EQ(atomic_load(&lookups_ended), 0);
}

TEST(look_up_that_is_stuck_delays_neither_its_caller_nor_the_pool_nor_the_end_of_the_run)
{
    run_with_pool(1, 1, give_up_look_ups);
    run_with_pool(3, 1, give_up_look_ups);
}

static void *look_up_stuck(void *number)
{
    return (void *)(intptr_t)look_up_service("stuck", (unsigned)(uintptr_t)number, GS_NEVER);
}

/* With two kernel threads, the third look-up is canceled while it is queued, or takes a place that
 * another one has left. */
THREAD(cancel_look_ups)
{
    struct gs_thread *threads[3];
    for (int i = 0; i < 3; i++)
        threads[i] = spawn(look_up_stuck, (void *)(intptr_t)i);
    while (atomic_load(&lookups_started) < 2)
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    for (int i = 0; i < 3; i++)
        gs_thread_cancel(threads[i]);
    for (int i = 0; i < 3; i++)
        MUST_EQ((intptr_t)join(threads[i]), -ECANCELED);
}

TEST(look_up_is_canceled_while_it_is_stuck_and_while_it_is_queued)
{
    run_with_pool(1, 2, cancel_look_ups);
    run_with_pool(3, 2, cancel_look_ups);
}

static void *end_at_the_deadline(void *number)
{
    unsigned n = (unsigned)(uintptr_t)number;
    int err = look_up_service("stuck", n % 8, after(n % 5 * GS_MILLISECOND / 4));
    MUST(!err || err == -ETIMEDOUT);
    return NULL;
}

/* Look-ups, some of which are joined, end about when their deadlines pass. */
THREAD(race_with_deadlines)
{
    enum { LOOK_UPS = 40 };
    struct gs_thread *threads[LOOK_UPS];
    for (int i = 0; i < LOOK_UPS; i++)
        sem_post(&lookup_may_end);
    for (int i = 0; i < LOOK_UPS; i++)
        threads[i] = spawn(end_at_the_deadline, (void *)(uintptr_t)i);
    for (int i = 0; i < LOOK_UPS; i++)
        join(threads[i]);
}

TEST(result_of_a_look_up_is_returned_or_discarded_but_not_both)
{
    for (unsigned round = 0; round < 20; round++)
        run_with_pool(round % 2 ? 3 : 1, 0, race_with_deadlines);
}

/* ---- Kinds of blocking calls ---- */

enum { STUCK = 8, CALLS = 3 };

static char fifo[64];
static sem_t call_may_end;

static void wait_for_end(void *unused)
{
    (void)unused;
    while (sem_wait(&call_may_end))
        ;
}

static void *run_stuck_call(void *unused)
{
    MUST_EQ(gs_run_blocking(wait_for_end, NULL, GS_NEVER), 0);
    return unused;
}

static int open_path(const char *path, uint64_t deadline_ns)
{
    const struct open_how how = {.flags = O_RDONLY | O_CLOEXEC};
    return gs_open(AT_FDCWD, path, &how, deadline_ns);
}

THREAD(open_fifo)
{
    int fd = open_path(fifo, GS_NEVER);
    MUST(fd >= 0);
    gs_close(fd);
}

static void do_call(void *done)
{
    *(bool *)done = true;
}

static void make_each_call(void)
{
    struct stat status;
    bool is_done = false;
    uint64_t deadline_ns = after(20 * GS_SECOND);
    MUST_EQ(look_up("quick", deadline_ns), 0);
    MUST_EQ(gs_stat(AT_FDCWD, "/", &status, deadline_ns), 0);
    int fd = open_path("/proc/self/exe", deadline_ns);
    MUST(fd >= 0);
    MUST_EQ(gs_fsync(fd, deadline_ns), 0);
    gs_close(fd);
    MUST_EQ(gs_run_blocking(do_call, &is_done, deadline_ns), 0);
    MUST(is_done);
}

/* More than four of each kind that may wait for another program, and nearly as many calls as there
 * are kernel threads for them. */
THREAD(be_stuck_in_all_kinds)
{
    struct gs_thread *threads[2 * STUCK + CALLS];
    int count = 0;
    for (int i = 0; i < STUCK; i++) {
        threads[count++] = spawn(look_up_stuck, (void *)(intptr_t)i);
        threads[count++] = spawn(open_fifo, NULL);
    }
    for (int i = 0; i < CALLS; i++)
        threads[count++] = spawn(run_stuck_call, NULL);
    MUST_EQ(gs_thread_sleep(after(2 * GS_MILLISECOND)), 0);
    make_each_call();
    int fd = open(fifo, O_RDWR | O_CLOEXEC);
    MUST(fd >= 0);
    for (int i = 0; i < STUCK; i++)
        sem_post(&lookup_may_end);
    for (int i = 0; i < CALLS; i++)
        sem_post(&call_may_end);
    for (int i = 0; i < count; i++)
        join(threads[i]);
    close(fd);
}

TEST(stuck_calls_of_one_kind_keep_none_of_another_waiting)
{
    snprintf(fifo, sizeof fifo, "/tmp/test_resolve.%d", getpid());
    unlink(fifo); /* of a process of this number that was killed */
    CHECK_EQ(mkfifo(fifo, 0600), 0);
    CHECK_EQ(sem_init(&call_may_end, 0, 0), 0);
    for (unsigned workers = 1; workers < 4; workers += 2)
        run_with_pool(workers, 0, be_stuck_in_all_kinds);
    unlink(fifo);
}
