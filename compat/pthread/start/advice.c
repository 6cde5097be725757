/* With --explain: whether the program gains by user-level threads, measured on itself for the first
 * seconds after it has created a thread. It gains if many of its threads wait, as those of
 * connections do; not if they compute. */
#include "compat/pthread/threads/task.h"

#include <errno.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <gossamer/thread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#define MEASURED (3 * GS_SECOND)
#define SAMPLE_INTERVAL (100 * GS_MILLISECOND)
#define ADVISOR_STACK ((size_t)64 << 10)
enum { CLOSED_MAX = 256, FEW_THREADS = 32 };

static struct {
    uint64_t start_ns, start_cpu_ns, start_waits, start_dispatched;
    atomic_uint peak_threads;
    unsigned peak_connections;
    atomic_bool is_given;
} measured;

static uint64_t cpu_ns(void)
{
    struct timespec time = {0};
    gs_syscall(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, (long)&time, 0, 0, 0, 0);
    return (uint64_t)time.tv_sec * GS_SECOND + (uint64_t)time.tv_nsec;
}

/* Numbers of descriptors have small gaps. */
static void count_connections(void)
{
    unsigned count = 0, closed = 0;
    for (long fd = 0; closed < CLOSED_MAX; fd++) {
        struct sockaddr_storage peer;
        socklen_t length = sizeof peer;
        long err = gs_syscall(SYS_getpeername, fd, (long)&peer, (long)&length, 0, 0, 0);
        closed = err == -EBADF ? closed + 1 : 0;
        count += !err;
    }
    if (count > measured.peak_connections)
        measured.peak_connections = count;
}

void gs_advice_count_threads(void)
{
    unsigned live = atomic_load(&gs_run.live), peak = atomic_load(&measured.peak_threads);
    while (live > peak && !atomic_compare_exchange_weak(&measured.peak_threads, &peak, live))
        ;
}

/* busy: how many processors were used, which is less than it would use if others need them. */
static const char *advice(double busy, double cpu_per_wait_ns, double calls_per_wait)
{
    if (busy > 0.1 && cpu_per_wait_ns > (double)GS_MILLISECOND)
        return "it gains nothing: its threads compute";
    if (atomic_load(&measured.peak_threads) < FEW_THREADS)
        return "it gains little: it has few threads";
    if (calls_per_wait > 10)
        return "it may lose: most of its system calls come by a signal";
    return "it gains: most of its threads wait, which costs less memory, and waking less time";
}

void gs_advise(void)
{
    if (!gs_run.explains || !gs_run.is_active || atomic_exchange(&measured.is_given, true))
        return;
    count_connections();
    double elapsed_ns = (double)(gs_clock_now() - measured.start_ns);
    double cpu = (double)(cpu_ns() - measured.start_cpu_ns);
    double waits = (double)(gs_counts.waits - measured.start_waits);
    double calls = (double)(gs_counts.dispatched - measured.start_dispatched);
    double per_wait = waits > 0 ? 1 / waits : 1;
    char numbers[160];
    snprintf(numbers, sizeof numbers,
             "%u threads, %u connections, %.0f waits, %.2f s of CPU time in %.1f s",
             atomic_load(&measured.peak_threads), measured.peak_connections, waits, cpu / 1e9,
             elapsed_ns / 1e9);
    gs_report_advice(numbers, advice(cpu / elapsed_ns, cpu * per_wait, calls * per_wait));
}

static void *measure(void *unused)
{
    uint64_t end_ns = gs_clock_after(measured.start_ns, MEASURED), now_ns;
    while ((now_ns = gs_clock_now()) < end_ns) {
        count_connections();
        (void)!gs_thread_sleep(now_ns + SAMPLE_INTERVAL);
    }
    gs_advise();
    return unused;
}

void gs_advice_start(void)
{
    const struct gs_thread_attributes attributes = {
        .name = "advisor", .migrates = true, .stack_size = ADVISOR_STACK};
    if (!gs_run.explains)
        return;
    measured.start_ns = gs_clock_now();
    measured.start_cpu_ns = cpu_ns();
    measured.start_waits = gs_counts.waits;
    measured.start_dispatched = gs_counts.dispatched;
    measured.peak_connections = 0;
    atomic_store(&measured.peak_threads, atomic_load(&gs_run.live));
    atomic_store(&measured.is_given, false);
    (void)!gs_thread_spawn(&attributes, measure, NULL, NULL);
}
