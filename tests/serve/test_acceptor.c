#include "serve/accept/acceptor.h"

#include "serve/accept/listener.h"

#include "tests/test.h"

#include <gossamer/sys.h>

#define CLIENTS 80

static struct gs_loop *loop;
static struct serve_acceptor acceptor;
static struct serve_slots slots;
static struct serve_address address;
static uint64_t now_ns;
static int listener, clients[CLIENTS], accepted[CLIENTS];
static unsigned client_count, accepted_count;
static sa_family_t family; /* address family of the last peer; 0: no address was passed */

static uint64_t tell_time(void *data)
{
    (void)data;
    return now_ns;
}

static void take(void *data, const struct serve_accepted *connection)
{
    CHECK(data == &acceptor);
    accepted[accepted_count++] = connection->fd;
    family = connection->has_address ? connection->address.ss_family : AF_UNSPEC;
}

static void prepare(const char *poller)
{
    static const struct serve_options options = {.backlog = 128};
    const char *problem;
    client_count = accepted_count = 0;
    now_ns = GS_SECOND;
    CHECK_EQ(serve_address_parse("127.0.0.1:0", &address, &problem), 0);
    listener = serve_listen(&address, &options, SERVE_ALONE);
    CHECK(listener >= 0);
    CHECK_EQ(gs_loop_new_with(poller, &loop), 0);
    gs_loop_set_clock(loop, tell_time, NULL);
    serve_slots_init(&slots, CLIENTS);
    serve_acceptor_init(&acceptor, loop, &slots, take, &acceptor);
}

static void start(bool wants_address)
{
    prepare(NULL);
    CHECK_EQ(serve_acceptor_start(&acceptor, listener, wants_address), 0);
}

static void stop(void)
{
    gs_sys_set_fault(NULL, NULL);
    serve_acceptor_stop(&acceptor);
    for (unsigned i = 0; i < client_count; i++)
        close(clients[i]);
    for (unsigned i = 0; i < accepted_count; i++)
        close(accepted[i]);
    gs_loop_free(loop);
    close(listener);
}

/* When connect() returns, the connection is in the accept queue: over loopback, the last packet of
 * the handshake has arrived. */
static void connect_clients(unsigned count)
{
    for (; count--; client_count++) {
        clients[client_count] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK_EQ(
            connect(clients[client_count], (struct sockaddr *)&address.storage, address.length), 0);
    }
}

static void step(uint64_t passed_ns)
{
    now_ns += passed_ns;
    CHECK(gs_loop_run_once(loop, 0) >= 0);
}

static struct {
    int results[8]; /* results of the first calls of accept; later calls succeed */
    unsigned calls;
} script;

static long follow_script(long number, void *data)
{
    (void)data;
    if (number != SYS_accept4)
        return 0;
    unsigned call = script.calls++;
    return call < 8 ? script.results[call] : 0;
}

static void fail_accepts(int first, int second, int third)
{
    memset(&script, 0, sizeof script);
    script.results[0] = first;
    script.results[1] = second;
    script.results[2] = third;
    gs_sys_set_fault(follow_script, NULL);
}

#define ACCEPTOR_TEST(name_) FIXTURE_TEST(name_, start(false), stop())

ACCEPTOR_TEST(connections_are_accepted_when_they_arrive)
{
    step(0);
    CHECK_EQ(accepted_count, 0);
    connect_clients(3);
    step(0);
    CHECK_EQ(accepted_count, 3);
    CHECK_EQ(family, AF_UNSPEC);
}

TEST(the_peers_address_is_handed_over_on_request)
{
    start(true);
    connect_clients(1);
    step(0);
    CHECK_EQ(accepted_count, 1);
    CHECK_EQ(family, AF_INET);
    stop();
}

ACCEPTOR_TEST(a_crowd_is_taken_in_several_turns)
{
    connect_clients(CLIENTS);
    step(0);
    CHECK(accepted_count > 0 && accepted_count < CLIENTS);
    step(0);
    CHECK_EQ(accepted_count, CLIENTS);
}

ACCEPTOR_TEST(error_of_one_connection_does_not_delay_the_others)
{
    connect_clients(3);
    fail_accepts(-ECONNABORTED, -EINTR, -EPROTO);
    step(0);
    CHECK_EQ(accepted_count, 3);
}

static void check_pauses(int err)
{
    start(false);
    connect_clients(3);
    fail_accepts(0, err, 0);
    step(0);
    CHECK_EQ(accepted_count, 1);
    unsigned calls = script.calls;
    for (int i = 0; i < 10; i++)
        step(0);
    CHECK_EQ(script.calls, calls);
    step(GS_SECOND);
    step(0);
    CHECK_EQ(accepted_count, 3);
    stop();
}

TEST(exhaustion_of_descriptors_or_memory_pauses_and_is_tried_again)
{
    check_pauses(-EMFILE);
    check_pauses(-ENFILE);
    check_pauses(-ENOMEM);
    check_pauses(-ENOBUFS);
}

ACCEPTOR_TEST(exhaustion_that_lasts_is_waited_out)
{
    connect_clients(1);
    fail_accepts(-EMFILE, -EMFILE, -EMFILE);
    for (int i = 0; i < 8; i++)
        step(GS_SECOND / 2);
    CHECK_EQ(script.calls, 4); /* the fourth accepts it, and none finds the queue empty */
    CHECK_EQ(accepted_count, 1);
}

ACCEPTOR_TEST(connections_without_a_slot_stay_in_the_queue)
{
    slots.max = 2;
    connect_clients(5);
    step(0);
    step(0);
    CHECK_EQ(accepted_count, 2);
    CHECK_EQ(serve_acceptor_take(&acceptor, 5), 0);
    for (unsigned i = 0; i < 3; i++) {
        serve_slots_release(&slots);
        step(0); /* the acceptor is notified of the free slot */
        step(0); /* and then of the connection */
        CHECK_EQ(accepted_count, 3 + i);
    }
    CHECK_EQ(slots.used, 2);
}

ACCEPTOR_TEST(slot_is_released_when_accepting_fails)
{
    slots.max = 1;
    connect_clients(1);
    fail_accepts(-ECONNABORTED, -EAGAIN, 0);
    step(0);
    CHECK_EQ(script.calls, 2);
    CHECK_EQ(slots.used, 0);
    step(0);
    CHECK_EQ(accepted_count, 1);
    CHECK_EQ(slots.used, 1);
}

ACCEPTOR_TEST(slot_that_becomes_free_does_not_end_a_pause)
{
    slots.max = 1;
    connect_clients(2);
    step(0);
    CHECK_EQ(accepted_count, 1);
    serve_slots_release(&slots);
    fail_accepts(-EMFILE, 0, 0);
    CHECK_EQ(serve_acceptor_take(&acceptor, 1), 0);
    step(0);
    step(0);
    CHECK_EQ(script.calls, 1);
    step(GS_SECOND);
    step(0);
    CHECK_EQ(accepted_count, 2);
}

ACCEPTOR_TEST(stopped_acceptor_waits_for_no_slot)
{
    slots.max = 0;
    connect_clients(1);
    step(0);
    CHECK(!gs_list_is_empty(&slots.waiters));
    serve_acceptor_stop(&acceptor);
    CHECK(gs_list_is_empty(&slots.waiters));
}

ACCEPTOR_TEST(as_many_connections_are_accepted_at_once_as_requested)
{
    connect_clients(5);
    CHECK_EQ(serve_acceptor_take(&acceptor, 2), 2);
    CHECK_EQ(serve_acceptor_take(&acceptor, 10), 3);
    CHECK_EQ(serve_acceptor_take(&acceptor, 10), 0);
}

ACCEPTOR_TEST(a_stopped_acceptor_does_not_accept_even_after_a_pause)
{
    connect_clients(2);
    fail_accepts(-EMFILE, 0, 0);
    step(0);
    serve_acceptor_stop(&acceptor);
    step(GS_SECOND);
    step(0);
    CHECK_EQ(accepted_count, 0);
}

/* ---- Accepting with completions ---- */

#define MANY 20000 /* so many slots that the kernel may accept ahead */

static void prepare_completions(void)
{
    prepare("io_uring");
    if (strcmp(gs_loop_poller(loop), "io_uring") != 0)
        SKIP("io_uring is not available");
    slots.max = MANY;
    acceptor.by_completions = true;
    memset(&script, 0, sizeof script);
    gs_sys_set_fault(follow_script, NULL);
}

static void step_until(unsigned count)
{
    while (accepted_count < count)
        step(0);
    CHECK_EQ(accepted_count, count);
}

TEST(the_kernel_accepts_ahead_where_there_are_slots_enough)
{
    prepare_completions();
    CHECK_EQ(serve_acceptor_start(&acceptor, listener, true), 0);
    for (unsigned i = 1; i <= 3; i++) {
        connect_clients(20);
        step_until(20 * i);
    }
    CHECK_EQ(script.calls, 0);
    CHECK_EQ(family, AF_INET);
    CHECK_EQ(slots.used, 60);
    stop();
}

TEST(near_the_limit_each_is_accepted_with_its_slot)
{
    prepare_completions();
    CHECK_EQ(serve_acceptor_start(&acceptor, listener, false), 0);
    connect_clients(1);
    step_until(1);
    slots.used = MANY - 3;
    connect_clients(1);
    step_until(2);
    CHECK_EQ(slots.used, MANY - 2);
    connect_clients(5);
    step_until(4);
    for (int i = 0; i < 5; i++)
        step(0);
    CHECK_EQ(accepted_count, 4);
    CHECK_EQ(slots.used, MANY);
    unsigned calls = script.calls;
    CHECK(calls >= 2);
    slots.used = 1;
    serve_slots_release(&slots);
    step_until(7);
    CHECK_EQ(script.calls, calls);
    stop();
}

TEST(exhaustion_of_descriptors_pauses_accepting_ahead)
{
    struct rlimit before, little;
    prepare_completions();
    connect_clients(3);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = dup(listener);
    CHECK(next >= 0);
    close(next);
    little = (struct rlimit){(rlim_t)next, before.rlim_max};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &little), 0);
    CHECK_EQ(serve_acceptor_start(&acceptor, listener, false), 0);
    while (!acceptor.warned_ns)
        step(0);
    for (int i = 0; i < 5; i++)
        step(0);
    CHECK(serve_acceptor_is_idle(&acceptor));
    CHECK_EQ(accepted_count, 0);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    step(GS_SECOND);
    step_until(3);
    stop();
}

TEST(connections_accepted_before_the_stop_are_handed_over_and_later_ones_closed)
{
    char byte;
    prepare_completions();
    CHECK_EQ(serve_acceptor_start(&acceptor, listener, false), 0);
    step(0);
    connect_clients(5);
    serve_acceptor_cancel(&acceptor);
    while (!serve_acceptor_is_idle(&acceptor))
        step(0);
    unsigned taken = accepted_count;
    CHECK_EQ(serve_acceptor_take(&acceptor, 10), 5 - taken);
    CHECK_EQ(accepted_count, 5);
    serve_acceptor_stop(&acceptor);

    serve_acceptor_init(&acceptor, loop, &slots, take, &acceptor);
    acceptor.by_completions = true;
    CHECK_EQ(serve_acceptor_start(&acceptor, listener, false), 0);
    step(0);
    connect_clients(1);
    serve_acceptor_stop(&acceptor);
    while (!serve_acceptor_is_idle(&acceptor))
        step(0);
    CHECK_EQ(accepted_count, 5);
    close(listener);
    listener = -1;
    CHECK(recv(clients[5], &byte, 1, 0) <= 0);
    CHECK_EQ(slots.used, 5);
    stop();
}
