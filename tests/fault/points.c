#include "tests/fault/points.h"

#include "tests/fault/session.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* So that what takes the server 100 ms takes us 5. */
#define SPEED 20

/* Runs in a row that do not come to the n-th call, until it is sure that none will. */
#define MISSES_MOST 2

#define BURST 5
#define BURST_STRIDE 3 /* less than BURST, so that each call is in one */

/* A sanitizer makes each run several times as long: then every n up to DENSE, and one in STRIDE
 * behind it. */
#ifndef __has_feature
#define __has_feature(feature_) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define STRIDE 7
#else
#define STRIDE 1
#endif
#define DENSE 3

const char *const points_with_cache[] = {"--workers", "1", NULL};
const char *const points_without_cache[] = {"--workers", "1", "--page-cache", "0", NULL};

static unsigned survived;

unsigned points_survived(void)
{
    return survived;
}

static unsigned next_after(unsigned n, unsigned stride)
{
    return n < DENSE ? n + 1 : n + stride * STRIDE;
}

static const char *say(const struct fault *fault, unsigned from, unsigned times,
                       const char *problem)
{
    static char text[4096 + 256]; /* what session.c says fits into 4096 */
    snprintf(text, sizeof text, "%s, call %u, %u times: %s", fault_name(fault), from, times,
             problem);
    return text;
}

/* ---- A server that runs on ---- */

static const char *check_good(const struct server *server)
{
    unsigned marked;
    const char *problem = session_good(server);
    if (!problem)
        problem = server_settled(server);
    server_rest(server);
    const char *log_problem = server_read_log(SESSION_MARK, &marked);
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
    server_rest(server);
    return session_good(server);
}

const char *points_start(struct server *server, const char *const *words)
{
    fault_init();
    fault_set_speed(SPEED);
    const char *problem = server_start(server, words);
    if (!problem && !server->port)
        problem = "it does not start";
    /* A file that cannot be opened at once has user-level threads open a ring, which stays. */
    fault_arm(&(struct fault){FAULT_OPENAT2, -EAGAIN}, 1, 1);
    if (!problem)
        problem = session_warm(server);
    fault_disarm();
    for (int i = 0; i < 2 && !problem; i++)
        problem = run_strictly(server);
    if (problem)
        return problem;
    server_rest(server);
    server_measure(server);
    unsigned marked;
    problem = server_read_log(SESSION_MARK, &marked);
    if (!problem && marked != 2 * SESSION_GOOD)
        problem = "a good request is missing in the log";
    return problem;
}

/* Returns the problem; *ret_reached: whether a call failed. */
static const char *survive(const struct server *server, const struct fault *fault, unsigned from,
                           unsigned times, bool *ret_reached)
{
    fault_arm(fault, from, times);
    const char *problem = session_play(server, times <= fault->unnoticed);
    server_rest(server);
    *ret_reached = fault_disarm();
    if (!problem)
        problem = check_good(server);
    return problem ? say(fault, from, times, problem) : NULL;
}

static const char *survive_times(const struct server *server, const struct fault *fault,
                                 unsigned times, unsigned *ret_count)
{
    unsigned misses = 0, stride = times > 1 ? BURST_STRIDE : 1;
    for (unsigned n = 1; misses < MISSES_MOST; n = next_after(n, stride)) {
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
    static bool was_said;
    survived += count;
    if (!problem && !count)
        problem = say(fault, 1, 1, "there is no such call");
    if (STRIDE > 1 && !was_said)
        printf("a sanitizer is at work: of the calls behind the first %d one in %d fails\n", DENSE,
               STRIDE);
    was_said = true;
    printf("%-28s %u fault points\n", fault_name(fault), count);
    fflush(stdout);
    return problem;
}

const char *points_survive(const struct server *server, const struct fault *fault)
{
    unsigned count = 0;
    const char *problem = survive_times(server, fault, 1, &count);
    if (!problem)
        problem = survive_times(server, fault, BURST, &count);
    return report(fault, count, problem);
}

/* ---- A whole life ---- */

static const char *judge_end(const struct server *server, int status)
{
    static char problem[4096];
    unsigned lines;
    int live, descriptors;
    const char *said = server_said(&lines);
    fault_left(&live, &descriptors);
    bool is_right = server->port ? status == 0 : (status == 1 || status == 2) && lines == 1;
    if (is_right && !live && !descriptors && !strncmp(said, "gossamer serve: ", 16))
        return NULL;
    snprintf(problem, sizeof problem,
             "%s it ends with status %d, leaves %d allocations and %d descriptors, and says: %s",
             server->port ? "having started," : "unable to start,", status, live, descriptors,
             said);
    return problem;
}

static const char *live(const struct fault *fault, unsigned from, unsigned times, bool *ret_reached)
{
    static const char *const words[] = {"--workers",       "2",  "--listen", "127.0.0.1:0",
                                        "--drain-timeout", "10", NULL};
    struct server server;
    int status;
    fault_arm(fault, from, times);
    const char *problem = server_start(&server, words);
    for (int i = 0; i < 4 && !problem && server.port; i++)
        problem = session_ask(&server, false);
    if (server.port)
        kill(server.pid, SIGUSR1);
    const char *end_problem = server_end(&server, server.port != 0, &status);
    *ret_reached = fault_disarm();
    if (!problem)
        problem = end_problem ? end_problem : judge_end(&server, status);
    return problem ? say(fault, from, times, problem) : NULL;
}

const char *points_survive_life(const struct fault *fault)
{
    unsigned count = 0, misses = 0;
    fault_init();
    fault_set_speed(SPEED);
    for (unsigned n = 1; misses < MISSES_MOST; n = next_after(n, 1)) {
        bool reached;
        const char *problem = live(fault, n, 1, &reached);
        if (problem)
            return report(fault, count, problem);
        misses = reached ? 0 : misses + 1;
        count += reached;
    }
    return report(fault, count, NULL);
}
