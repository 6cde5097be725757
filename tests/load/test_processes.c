/* Runs of several processes. The server is a process of its own, so that no thread runs here when they
 * are made. */
#include "tests/load/run.h"

#include <sys/wait.h>

struct remote {
    struct server server; /* of which only the address is known here */
    pid_t pid;
    int to_it, from_it;
};

/* Serve until the pipe ends, then tell how many requests that were. */
static void be_server(int in, int out)
{
    struct server server;
    char byte;
    server_start(&server, serve_hello);
    if (write(out, &server.port, sizeof server.port) != sizeof server.port)
        _exit(1);
    (void)!read(in, &byte, 1);
    server_stop(&server);
    _exit(write(out, &server.requests, sizeof server.requests) != sizeof server.requests);
}

static void remote_start(struct remote *remote)
{
    int in[2], out[2];
    CHECK_EQ(pipe(in) | pipe(out), 0);
    fflush(NULL);
    *remote = (struct remote){.to_it = in[1], .from_it = out[0], .server.family = AF_INET};
    remote->pid = fork();
    CHECK(remote->pid >= 0);
    if (remote->pid == 0) {
        close(in[1]);
        be_server(in[0], out[1]);
    }
    close(in[0]);
    close(out[1]);
    CHECK_EQ(read(out[0], &remote->server.port, sizeof remote->server.port),
             sizeof remote->server.port);
}

/* Returns how many requests it answered. */
static size_t remote_stop(struct remote *remote)
{
    size_t requests = 0;
    int status;
    close(remote->to_it);
    CHECK_EQ(read(remote->from_it, &requests, sizeof requests), sizeof requests);
    close(remote->from_it);
    CHECK_EQ(waitpid(remote->pid, &status, 0), remote->pid);
    CHECK_EQ(status, 0);
    return requests;
}

TEST(several_processes_make_together_as_many_requests_as_were_asked_for)
{
    struct remote remote;
    remote_start(&remote);
    struct load_result result =
        run_against(&remote.server, "-c", "7", "-n", "103", "--processes", "3", NULL);
    CHECK_EQ(remote_stop(&remote), 103);
    CHECK_EQ(result.tally.requests, 103);
    CHECK_EQ(gs_load_tally_errors(&result.tally), 0);
    CHECK_EQ(result.tally.times[LOAD_TIME_RESPONSE].count, 103);
    CHECK_EQ(result.tally.times[LOAD_TIME_FIRST_BYTE].count, 103);
    CHECK_EQ(result.tally.connections, result.tally.times[LOAD_TIME_CONNECT].count);
    CHECK_EQ(result.tally.bytes, 103 * strlen(SERVER_OK));
    CHECK(gs_histogram_min(&result.tally.times[LOAD_TIME_RESPONSE]) > 0);
    CHECK(result.seconds > 0 && result.client_cpu_s > 0);
    CHECK(!result.is_interrupted && !result.is_void);
    gs_load_result_done(&result);
}

/* The slots of the sum hold what is counted, and no more. */
static uint64_t count_in_slots(const struct gs_histogram *histogram)
{
    uint64_t count = 0;
    struct gs_histogram_cursor at = {0};
    while (gs_histogram_next(histogram, &at))
        count += at.count;
    return count;
}

TEST(each_process_may_have_several_workers_and_the_ends_of_the_whole_run_are_dropped)
{
    struct remote remote;
    remote_start(&remote);
    struct load_result result = run_against(&remote.server, "-c", "8", "-n", "200", "--processes",
                                            "2", "--workers", "2", "--drop", "10", NULL);
    CHECK_EQ(remote_stop(&remote), 200);
    CHECK_EQ(result.tally.requests, 200);
    CHECK_EQ(result.tally.dropped, 20);
    CHECK_EQ(result.tally.times[LOAD_TIME_RESPONSE].count, 180);
    CHECK_EQ(count_in_slots(&result.tally.times[LOAD_TIME_RESPONSE]), 180);
    gs_load_result_done(&result);
}

TEST(an_open_loop_is_shared_by_processes)
{
    struct remote remote;
    remote_start(&remote);
    struct load_result result =
        run_against(&remote.server, "-c", "6", "-n", "91", "-r", "1000", "--processes", "2", NULL);
    CHECK_EQ(remote_stop(&remote), 91);
    CHECK_EQ(result.tally.requests, 91);
    CHECK_EQ(count_in_slots(&result.tally.times[LOAD_TIME_LAG]), 91);
    CHECK_EQ(count_in_slots(&result.tally.times[LOAD_TIME_SERVICE]), 91);
    CHECK(result.seconds >= 90 / 1000.0);
    gs_load_result_done(&result);
}
