/* Threads that keep the cores from entering idle states. */
#include "load/idle_spin.h"

#include "tests/load/run.h"

#include <dirent.h>

#define PATIENCE_NS (60 * GS_SECOND)

/* Returns the number of threads of this process in class SCHED_IDLE. */
static unsigned count_idle_threads(void)
{
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent *entry; (entry = readdir(tasks));)
        count += entry->d_name[0] != '.' && sched_getscheduler(atoi(entry->d_name)) == SCHED_IDLE;
    closedir(tasks);
    return count;
}

/* Wait until there are none. A joined thread stays listed until it has exited in the kernel, and
 * threads of this class hardly run on a busy machine. */
static bool have_idle_threads_ended(void)
{
    uint64_t deadline_ns = gs_clock_after(gs_clock_now(), PATIENCE_NS);
    while (count_idle_threads() && gs_clock_now() < deadline_ns)
        usleep(1000);
    return !count_idle_threads();
}

static double cpu_s(void)
{
    struct timespec used;
    CHECK_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used), 0);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

TEST(idle_class_threads_spin_until_stopped)
{
    struct load_idle_spin spin;
    uint64_t deadline_ns = gs_clock_after(gs_clock_now(), PATIENCE_NS);
    double before_s = cpu_s();
    CHECK_EQ(gs_load_idle_spin_start(&spin, 2), 0);
    while ((count_idle_threads() < 2 || cpu_s() < before_s + 0.02) && gs_clock_now() < deadline_ns)
        sched_yield();
    CHECK_EQ(count_idle_threads(), 2);
    gs_load_idle_spin_stop(&spin);
    CHECK(have_idle_threads_ended());
    CHECK(gs_clock_now() < deadline_ns);
}

TEST(zero_threads_can_be_started)
{
    struct load_idle_spin spin;
    CHECK_EQ(gs_load_idle_spin_start(&spin, 0), 0);
    CHECK_EQ(count_idle_threads(), 0);
    gs_load_idle_spin_stop(&spin);
}

/* The client is idle for most of half a second. */
TEST(spinning_threads_are_not_part_of_the_clients_cpu_time)
{
    struct load_result result =
        run_beside(serve_hello, "-c", "1", "-n", "6", "--think", "100", "--idle-spin", NULL);
    CHECK_EQ(result.metrics.requests, 6);
    CHECK_EQ(gs_load_metrics_error_count(&result.metrics), 0);
    CHECK(result.seconds >= 0.5);
    CHECK(result.client_cpu_s < 0.5 * result.seconds);
    CHECK(have_idle_threads_ended());
    gs_load_result_done(&result);
}
