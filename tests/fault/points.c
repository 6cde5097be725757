#include "tests/fault/points.h"
#include "base/sanitized.h"

#include "tests/fault/session.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The server's clock runs this many times as fast: 100 ms for the server take 5 ms. It is not
 * faster, since the server closes connections whose client does nothing for 5 s. */
#define SPEED 20

/* After this many runs in a row that do not reach the n-th call, no run is assumed to reach it. */
#define MISSES_MAX 2

#define BURST 5
#define BURST_STRIDE 3 /* less than BURST, so that some burst includes each call */

/* Sanitizers make each run several times as long, so with a sanitizer only the calls up to DENSE
 * and one in SPARSE of the following ones fail. The same holds for errors that the server handles
 * like another of the test, which has failed at every call. */
#define DENSE 3
#define SPARSE 7
#if GS_ASAN || GS_TSAN
#define STRIDE SPARSE
#else
#define STRIDE 1
#endif

const char *const points_with_cache[] = {"--workers", "1", NULL};
const char *const points_without_cache[] = {"--workers", "1", "--page-cache", "0", NULL};

static unsigned survived;

unsigned points_survived(void)
{
    return survived;
}

static unsigned next_after(unsigned n, unsigned stride)
{
    return n < DENSE ? n + 1 : n + stride;
}

/* Results that are no errors, and errors that tell the server what to do, are like no other. */
static bool is_plain(const struct fault *fault)
{
    return fault->result < 0 && fault->result != -EINTR && fault->result != -EAGAIN &&
           fault->result != -ENOSYS;
}

static bool is_alike(const struct fault *fault, const struct fault *other)
{
    return fault->call == other->call && fault->unnoticed == other->unnoticed && is_plain(fault) &&
           is_plain(other);
}

/* Whether an earlier one of the faults is like the i-th. */
static bool is_repeated(const struct fault *faults, size_t i)
{
    const char *wanted = getenv("GOSSAMER_FAULTS");
    for (size_t j = 0; j < i && !(wanted && !strcmp(wanted, "all")); j++)
        if (is_alike(&faults[i], &faults[j]))
            return true;
    return false;
}

static const char *describe(const struct fault *fault, unsigned from, unsigned times,
                            const char *problem)
{
    static char text[4096 + 256]; /* session.c's problem has at most 4096 bytes */
    snprintf(text, sizeof text, "%s, call %u, %u times: %s", fault_name(fault), from, times,
             problem);
    return text;
}

/* ---- Faults while the server runs ---- */

static const char *check_good(const struct server *server)
{
    unsigned marked;
    const char *problem = session_good(server);
    if (!problem)
        problem = server_settled(server);
    server_wait_idle(server);
    const char *log_problem = server_read_log(SESSION_MARK, SESSION_GOOD, &marked);
    if (!problem)
        problem = log_problem;
    if (!problem && marked != SESSION_GOOD)
        problem = "a good request is missing in the log";
    return problem;
}

static const char *run_strictly(const struct server *server)
{
    const char *problem = session_play(server, true);
    if (problem)
        return problem;
    server_wait_idle(server);
    return session_good(server);
}

const char *points_start(struct server *server, const char *const *arguments)
{
    fault_init();
    fault_set_speed(SPEED);
    const char *problem = server_start(server, arguments);
    if (!problem && !server->port)
        problem = "it does not start";
    /* If a file cannot be opened without blocking, user-level threads open a ring, which stays
     * open. This opens it before the measurement. */
    fault_arm(&(struct fault){FAULT_OPENAT2, -EAGAIN}, 1, 1);
    if (!problem)
        problem = session_warm(server);
    fault_disarm();
    for (int i = 0; i < 2 && !problem; i++)
        problem = run_strictly(server);
    if (problem)
        return problem;
    server_measure(server);
    unsigned marked;
    problem = server_read_log(SESSION_MARK, 2 * SESSION_GOOD, &marked);
    if (!problem && marked != 2 * SESSION_GOOD)
        problem = "a good request is missing in the log";
    return problem;
}

/* Returns the problem or NULL; *ret_reached is true if a call failed. */
static const char *survive(const struct server *server, const struct fault *fault, unsigned from,
                           unsigned times, bool *ret_reached)
{
    fault_arm(fault, from, times);
    const char *problem = session_play(server, times <= fault->unnoticed);
    server_wait_idle(server);
    *ret_reached = fault_disarm();
    if (!problem)
        problem = check_good(server);
    return problem ? describe(fault, from, times, problem) : NULL;
}

static const char *survive_times(const struct server *server, const struct fault *fault,
                                 unsigned times, unsigned stride, unsigned *ret_count)
{
    unsigned misses = 0;
    for (unsigned n = 1; misses < MISSES_MAX; n = next_after(n, stride)) {
        bool reached;
        const char *problem = survive(server, fault, n, times, &reached);
        if (problem)
            return problem;
        misses = reached ? 0 : misses + 1;
        *ret_count += reached;
    }
    return NULL;
}

static const char *report(const struct fault *fault, unsigned count, const char *problem)
{
    static bool was_printed;
    survived += count;
    if (!problem && !count)
        problem = describe(fault, 1, 1, "there is no such call");
    if (STRIDE > 1 && !was_printed)
        printf("a sanitizer is at work: of the calls behind the first %d one in %d fails\n", DENSE,
               STRIDE);
    was_printed = true;
    printf("%-28s %u fault points\n", fault_name(fault), count);
    fflush(stdout);
    return problem;
}

const char *points_survive(const struct server *server, const struct fault *faults, size_t i)
{
    unsigned count = 0;
    bool repeated = is_repeated(faults, i);
    const char *problem = survive_times(server, &faults[i], 1, repeated ? SPARSE : STRIDE, &count);
    if (!problem && !repeated)
        problem = survive_times(server, &faults[i], BURST, BURST_STRIDE * STRIDE, &count);
    return report(&faults[i], count, problem);
}

/* ---- The server's life from start to end ---- */

static const char *check_end(const struct server *server, int status)
{
    static char problem[4096];
    unsigned lines;
    int live, descriptors;
    const char *text = server_stderr(&lines);
    fault_left(&live, &descriptors);
    bool is_right = server->port ? status == 0 : (status == 1 || status == 2) && lines == 1;
    if (is_right && !live && !descriptors && !strncmp(text, "gossamer serve: ", 16))
        return NULL;
    snprintf(problem, sizeof problem,
             "%s it ends with status %d, leaves %d allocations and %d descriptors, and says: %s",
             server->port ? "having started," : "unable to start,", status, live, descriptors,
             text);
    return problem;
}

static const char *live(const struct fault *fault, unsigned from, unsigned times, bool *ret_reached)
{
    static const char *const arguments[] = {"--workers",       "2",  "--listen", "127.0.0.1:0",
                                            "--drain-timeout", "10", NULL};
    struct server server;
    int status;
    fault_arm(fault, from, times);
    const char *problem = server_start(&server, arguments);
    for (int i = 0; i < 4 && !problem && server.port; i++)
        problem = session_ask(&server, false);
    if (server.port)
        kill(server.pid, SIGUSR1);
    const char *end_problem = server_end(&server, server.port != 0, &status);
    *ret_reached = fault_disarm();
    if (!problem)
        problem = end_problem ? end_problem : check_end(&server, status);
    return problem ? describe(fault, from, times, problem) : NULL;
}

const char *points_survive_life(const struct fault *fault)
{
    unsigned count = 0, misses = 0;
    fault_init();
    fault_set_speed(SPEED);
    for (unsigned n = 1; misses < MISSES_MAX; n = next_after(n, STRIDE)) {
        bool reached;
        const char *problem = live(fault, n, 1, &reached);
        if (problem)
            return report(fault, count, problem);
        misses = reached ? 0 : misses + 1;
        count += reached;
    }
    return report(fault, count, NULL);
}
