#include "serve/accepting.h"

#include "serve/listener.h"

#include "tests/test.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CLIENTS 80

static struct serve_accepting accepting;
static struct gs_semaphore places;
static struct serve_address address;
static int clients[CLIENTS], arrived[CLIENTS];
static unsigned client_count, arrived_count, refusals, arrived_at_yield;
static sa_family_t family; /* of the last peer; 0: no address was handed over */

static int on_arrival(void *data, int fd, const struct sockaddr *peer)
{
    if (data != &accepting)
        abort();
    if (refusals) {
        refusals--;
        return -ENOMEM;
    }
    arrived[arrived_count++] = fd;
    family = peer ? peer->sa_family : AF_UNSPEC;
    return 0;
}

/* Once connect returns, the connection is in the accept queue. */
static void connect_clients(unsigned count)
{
    for (; count--; client_count++) {
        clients[client_count] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(clients[client_count], (struct sockaddr *)&address.storage, address.length))
            abort();
    }
}

static void wait_for_arrivals(unsigned count)
{
    while (arrived_count < count)
        gs_thread_sleep(gs_clock_now() + GS_MILLISECOND);
}

/* Run the script in a user thread, with an accepting thread for a listener. */
static void play(gs_thread_fn *script, unsigned room)
{
    static const struct serve_options options = {.backlog = 128};
    const char *problem;
    client_count = arrived_count = arrived_at_yield = 0;
    places = (struct gs_semaphore){.count = room};
    CHECK_EQ(serve_address_parse("127.0.0.1:0", &address, &problem), 0);
    accepting = (struct serve_accepting){
        .listener = serve_listen(&address, &options, SERVE_ALONE),
        .wants_address = accepting.wants_address,
        .favor = accepting.favor,
        .places = &places,
        .arrived = on_arrival,
        .data = &accepting,
    };
    CHECK(accepting.listener >= 0);
    CHECK_EQ(gs_threads_run(NULL, script, NULL, NULL), 0);
    gs_sys_set_fault(NULL, NULL);
    close(accepting.listener);
    for (unsigned i = 0; i < client_count; i++)
        close(clients[i]);
    for (unsigned i = 0; i < arrived_count; i++)
        close(arrived[i]);
}

static int started;

static void *accept_three(void *unused)
{
    started = serve_accepting_start(&accepting);
    connect_clients(3);
    wait_for_arrivals(3);
    serve_accepting_finish(&accepting);
    return unused;
}

TEST(connections_are_accepted_when_they_come)
{
    play(accept_three, CLIENTS);
    CHECK_EQ(started, 0);
    CHECK_EQ(arrived_count, 3);
    CHECK_EQ(family, AF_UNSPEC);
    CHECK_EQ(places.count, CLIENTS - 3);
}

TEST(the_peers_address_is_handed_over_on_request)
{
    accepting.wants_address = true;
    play(accept_three, CLIENTS);
    accepting.wants_address = false;
    CHECK_EQ(family, AF_INET);
}

static void *come_before_the_end(void *unused)
{
    started = serve_accepting_start(&accepting);
    gs_thread_yield();
    connect_clients(70);
    serve_accepting_finish(&accepting);
    return unused;
}

TEST(who_has_connected_is_taken_at_the_end_though_no_worker_has_heard_of_it)
{
    play(come_before_the_end, CLIENTS);
    CHECK_EQ(arrived_count, 70);
    CHECK_EQ(places.count, CLIENTS - 70);
}

static unsigned arrived_when_full;

static void *fill_the_places(void *unused)
{
    started = serve_accepting_start(&accepting);
    connect_clients(5);
    wait_for_arrivals(2);
    for (int i = 0; i < 20; i++)
        gs_thread_sleep(gs_clock_now() + GS_MILLISECOND);
    arrived_when_full = arrived_count;
    gs_semaphore_post(&places);
    wait_for_arrivals(3);
    serve_accepting_finish(&accepting);
    return unused;
}

TEST(without_a_place_they_are_left_in_the_queue)
{
    play(fill_the_places, 2);
    CHECK_EQ(arrived_when_full, 2);
    CHECK_EQ(arrived_count, 3);
    CHECK_EQ(places.count, 0);
}

TEST(a_place_that_was_not_used_is_given_back)
{
    refusals = 2;
    play(come_before_the_end, CLIENTS);
    CHECK_EQ(refusals, 0);
    CHECK_EQ(arrived_count, 68);
    CHECK_EQ(places.count, CLIENTS - 68);
}

static int errors[3];
static unsigned accept_calls;

static long fail_first(long number, void *data)
{
    (void)data;
    if (number != SYS_accept4)
        return 0;
    unsigned call = accept_calls++;
    return call < 3 ? errors[call] : 0;
}

static void fail_accepts(int first, int second, int third)
{
    accept_calls = 0;
    errors[0] = first;
    errors[1] = second;
    errors[2] = third;
    gs_sys_set_fault(fail_first, NULL);
}

TEST(errors_of_one_connection_do_not_keep_the_others_waiting)
{
    fail_accepts(-ECONNABORTED, -EPROTO, -ENETUNREACH);
    play(accept_three, CLIENTS);
    CHECK_EQ(arrived_count, 3);
    CHECK_EQ(places.count, CLIENTS - 3);
}

TEST(a_lack_of_descriptors_is_waited_out_without_spinning)
{
    fail_accepts(-EMFILE, -ENFILE, -EMFILE);
    play(accept_three, CLIENTS);
    CHECK_EQ(arrived_count, 3);
    CHECK(accept_calls < 30);
    CHECK(accepting.said_ns > 0);
}

/* How many have been accepted when a thread of a connection first runs, beside 70 that have connected. */
static void *note_arrivals(void *unused)
{
    arrived_at_yield = arrived_count;
    return unused;
}

static int arrive_and_run(void *data, int fd, const struct sockaddr *peer)
{
    int err = on_arrival(data, fd, peer);
    return arrived_count == 1 ? gs_thread_spawn(NULL, note_arrivals, NULL, NULL) : err;
}

static void *count_before_the_first_runs(void *unused)
{
    accepting.arrived = arrive_and_run;
    connect_clients(70);
    started = serve_accepting_start(&accepting);
    wait_for_arrivals(70);
    serve_accepting_finish(&accepting);
    return unused;
}

static unsigned accepted_first(enum serve_favor favor)
{
    accepting.favor = favor;
    play(count_before_the_first_runs, CLIENTS);
    accepting.favor = SERVE_FAVOR_NONE;
    return arrived_at_yield;
}

TEST(the_favoured_threads_run_first)
{
    CHECK_EQ(accepted_first(SERVE_FAVOR_CONNECTIONS), 1);
    CHECK_EQ(accepted_first(SERVE_FAVOR_NONE), 64);
    CHECK_EQ(accepted_first(SERVE_FAVOR_ACCEPT), 70);
}
