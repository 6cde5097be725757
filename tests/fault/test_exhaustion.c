/* Temporary exhaustion of a resource: the server waits without spinning, and responds to its
 * clients afterwards. */
#include "tests/fault/client.h"
#include "tests/fault/session.h"
#include "tests/test.h"

#include <gossamer/clock.h>

#define EXHAUSTION_NS (300 * GS_MILLISECOND)

struct effort {
    uint64_t processor_ns;
    unsigned accepts, waits;
};

static uint64_t processor_time(const struct server *server)
{
    clockid_t clock;
    struct timespec used;
    if (clock_getcpuclockid(server->pid, &clock) || clock_gettime(clock, &used))
        return GS_NEVER;
    return (uint64_t)used.tv_sec * GS_SECOND + (uint64_t)used.tv_nsec;
}

static struct effort effort_of(const struct server *server)
{
    return (struct effort){processor_time(server), fault_made(FAULT_ACCEPT),
                           fault_made(FAULT_EPOLL_WAIT)};
}

static bool is_calm(const struct server *server)
{
    struct effort before = effort_of(server);
    usleep(EXHAUSTION_NS / GS_MICROSECOND);
    struct effort after = effort_of(server);
    uint64_t ms = (after.processor_ns - before.processor_ns) / GS_MILLISECOND;
    printf("in 300 ms: %u accepts, %u waits, %u ms of processor time\n",
           after.accepts - before.accepts, after.waits - before.waits, (unsigned)ms);
    return after.accepts - before.accepts <= 12 && after.waits - before.waits <= 40 && ms < 100;
}

/* A server that spins makes thousands of calls in each period. A calm one may have been busy with
 * other work in the first periods: now and then the thread sanitizer resets its memory, which takes
 * it most of a second. */
#define PERIODS 8

static void check_calm(const struct server *server)
{
    int period = 0;
    while (period < PERIODS && !is_calm(server))
        period++;
    CHECK(period < PERIODS);
}

static void start(struct server *server)
{
    static const char *const arguments[] = {"--workers", "1", NULL};
    fault_init();
    fault_set_speed(1);
    fault_disarm();
    const char *problem = server_start(server, arguments);
    if (problem)
        TEST_FAIL("%s", problem);
    CHECK(server->port);
}

static void end(struct server *server)
{
    int status;
    const char *problem = session_good(server);
    if (!problem)
        problem = server_end(server, true, &status);
    if (problem)
        TEST_FAIL("%s", problem);
    CHECK_EQ(status, 0);
}

static const struct client_answer nothing = {200, "", 0};
#define OPTIONS "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"

TEST(clients_wait_until_the_server_may_open_descriptors_again)
{
    struct server server;
    struct client first, clients[3];
    struct rlimit limit, none;
    start(&server);
    CHECK_EQ(client_open(&first, server.port, false), CLIENT_RIGHT);
    CHECK_EQ(client_send(&first, OPTIONS), CLIENT_RIGHT);
    CHECK_EQ(client_receive(&first, &nothing), CLIENT_RIGHT);
    CHECK_EQ(prlimit(server.pid, RLIMIT_NOFILE, NULL, &limit), 0);
    none = (struct rlimit){3, limit.rlim_max};
    CHECK_EQ(prlimit(server.pid, RLIMIT_NOFILE, &none, NULL), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(client_open(&clients[i], server.port, false), CLIENT_RIGHT);
        CHECK_EQ(client_send(&clients[i], OPTIONS), CLIENT_RIGHT);
    }
    check_calm(&server);
    CHECK_EQ(client_send(&first, OPTIONS), CLIENT_RIGHT);
    CHECK_EQ(client_receive(&first, &nothing), CLIENT_RIGHT);
    CHECK_EQ(prlimit(server.pid, RLIMIT_NOFILE, &limit, NULL), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(client_receive(&clients[i], &nothing), CLIENT_RIGHT);
        client_close(&clients[i]);
    }
    client_close(&first);
    end(&server);
}

static void check_exhaustion(const struct fault *fault)
{
    struct server server;
    struct client client;
    start(&server);
    fault_arm(fault, 1, FAULT_ALWAYS);
    CHECK_EQ(client_open(&client, server.port, false), CLIENT_RIGHT);
    CHECK_EQ(client_send(&client, OPTIONS), CLIENT_RIGHT);
    check_calm(&server);
    CHECK(fault_disarm() > 0);
    CHECK_EQ(client_receive(&client, &nothing), CLIENT_RIGHT);
    client_close(&client);
    end(&server);
}

TEST(server_does_not_spin_while_the_kernel_has_no_files)
{
    check_exhaustion(&(struct fault){FAULT_ACCEPT, -ENFILE});
}

TEST(server_does_not_spin_while_the_kernel_has_no_buffers)
{
    check_exhaustion(&(struct fault){FAULT_ACCEPT, -ENOBUFS});
}

TEST(server_does_not_spin_while_there_is_no_memory)
{
    check_exhaustion(&(struct fault){FAULT_MEMORY, -ENOMEM});
}

TEST(server_does_not_spin_while_the_kernel_has_no_memory_for_watches)
{
    check_exhaustion(&(struct fault){FAULT_EPOLL_CTL, -ENOMEM});
}

TEST(server_does_not_spin_while_the_kernel_has_no_memory_for_sent_data)
{
    check_exhaustion(&(struct fault){FAULT_SEND, -ENOBUFS});
    check_exhaustion(&(struct fault){FAULT_SEND, -ENOMEM});
}
