#include "serve/accept/accept_thread.h"

#include "serve/accept/listener.h"

#include "tests/test.h"

#include <gossamer/io.h>
#include <gossamer/sys.h>

#define CLIENTS 80

static struct serve_accept_thread acceptor;
static struct gs_semaphore slots;
static struct serve_address address;
static int clients[CLIENTS], accepted[CLIENTS];
static unsigned client_count, accepted_count, refusals, accepted_at_yield;
static sa_family_t family; /* address family of the last peer; 0: no address was passed */

static int on_accepted(void *data, const struct serve_accepted *new)
{
    if (data != &acceptor)
        abort();
    if (refusals) {
        refusals--;
        return -ENOMEM;
    }
    accepted[accepted_count++] = new->fd;
    family = new->has_address ? new->address.ss_family : AF_UNSPEC;
    return 0;
}

/* When connect() returns, the connection is in the accept queue. */
static void connect_clients(unsigned count)
{
    for (; count--; client_count++) {
        clients[client_count] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(clients[client_count], (struct sockaddr *)&address.storage, address.length))
            abort();
    }
}

static void wait_for_accepts(unsigned count)
{
    while (accepted_count < count)
        gs_thread_sleep(gs_clock_now() + GS_MILLISECOND);
}

/* Run the script in a user thread, and accept connections in another one. */
static void run_script(gs_thread_fn *script, unsigned free_slots)
{
    static const struct serve_options options = {.backlog = 128};
    const char *problem;
    client_count = accepted_count = accepted_at_yield = 0;
    slots = (struct gs_semaphore){.count = free_slots};
    CHECK_EQ(serve_address_parse("127.0.0.1:0", &address, &problem), 0);
    acceptor = (struct serve_accept_thread){
        .listener = serve_listen(&address, &options, SERVE_ALONE),
        .wants_address = acceptor.wants_address,
        .priority = acceptor.priority,
        .slots = &slots,
        .accepted = on_accepted,
        .data = &acceptor,
    };
    CHECK(acceptor.listener >= 0);
    CHECK_EQ(gs_threads_run(NULL, script, NULL, NULL), 0);
    gs_sys_set_fault(NULL, NULL);
    close(acceptor.listener);
    for (unsigned i = 0; i < client_count; i++)
        close(clients[i]);
    for (unsigned i = 0; i < accepted_count; i++)
        close(accepted[i]);
}

static int started;

static void *accept_three(void *unused)
{
    started = serve_accept_thread_start(&acceptor);
    connect_clients(3);
    wait_for_accepts(3);
    serve_accept_thread_finish(&acceptor, 1000, 0);
    return unused;
}

TEST(connections_are_accepted_when_they_arrive)
{
    run_script(accept_three, CLIENTS);
    CHECK_EQ(started, 0);
    CHECK_EQ(accepted_count, 3);
    CHECK_EQ(family, AF_UNSPEC);
    CHECK_EQ(slots.count, CLIENTS - 3);
}

TEST(the_peers_address_is_handed_over_on_request)
{
    acceptor.wants_address = true;
    run_script(accept_three, CLIENTS);
    acceptor.wants_address = false;
    CHECK_EQ(family, AF_INET);
}

static void *connect_before_the_end(void *unused)
{
    started = serve_accept_thread_start(&acceptor);
    gs_thread_yield();
    connect_clients(70);
    serve_accept_thread_finish(&acceptor, 1000, 0);
    return unused;
}

TEST(pending_connections_are_accepted_at_the_end_before_they_were_reported)
{
    run_script(connect_before_the_end, CLIENTS);
    CHECK_EQ(accepted_count, 70);
    CHECK_EQ(slots.count, CLIENTS - 70);
}

static unsigned accepted_when_full;

static void *fill_the_slots(void *unused)
{
    started = serve_accept_thread_start(&acceptor);
    connect_clients(5);
    wait_for_accepts(2);
    for (int i = 0; i < 20; i++)
        gs_thread_sleep(gs_clock_now() + GS_MILLISECOND);
    accepted_when_full = accepted_count;
    gs_semaphore_post(&slots);
    wait_for_accepts(3);
    serve_accept_thread_finish(&acceptor, 1000, 0);
    return unused;
}

TEST(without_a_free_slot_they_stay_in_the_accept_queue)
{
    run_script(fill_the_slots, 2);
    CHECK_EQ(accepted_when_full, 2);
    CHECK_EQ(accepted_count, 3);
    CHECK_EQ(slots.count, 0);
}

TEST(slot_of_a_refused_connection_is_released)
{
    refusals = 2;
    run_script(connect_before_the_end, CLIENTS);
    CHECK_EQ(refusals, 0);
    CHECK_EQ(accepted_count, 68);
    CHECK_EQ(slots.count, CLIENTS - 68);
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

TEST(error_of_one_connection_does_not_delay_the_others)
{
    fail_accepts(-ECONNABORTED, -EPROTO, -ENETUNREACH);
    run_script(accept_three, CLIENTS);
    CHECK_EQ(accepted_count, 3);
    CHECK_EQ(slots.count, CLIENTS - 3);
}

TEST(exhaustion_of_descriptors_is_waited_out_without_spinning)
{
    fail_accepts(-EMFILE, -ENFILE, -EMFILE);
    run_script(accept_three, CLIENTS);
    CHECK_EQ(accepted_count, 3);
    CHECK(accept_calls < 30);
    CHECK(acceptor.warned_ns > 0);
}

/* Records how many connections have been accepted when the first connection's thread runs, while 70
 * clients are connecting. */
static void *record_accepted(void *unused)
{
    accepted_at_yield = accepted_count;
    return unused;
}

static int accept_and_run(void *data, const struct serve_accepted *new)
{
    int err = on_accepted(data, new);
    return accepted_count == 1 ? gs_thread_spawn(NULL, record_accepted, NULL, NULL) : err;
}

static void *count_before_the_first_runs(void *unused)
{
    acceptor.accepted = accept_and_run;
    connect_clients(70);
    started = serve_accept_thread_start(&acceptor);
    wait_for_accepts(70);
    serve_accept_thread_finish(&acceptor, 1000, 0);
    return unused;
}

static unsigned accepted_first(enum serve_priority priority)
{
    acceptor.priority = priority;
    run_script(count_before_the_first_runs, CLIENTS);
    acceptor.priority = SERVE_PRIORITY_NONE;
    return accepted_at_yield;
}

TEST(threads_of_higher_priority_run_first)
{
    CHECK_EQ(accepted_first(SERVE_PRIORITY_CONNECTIONS), 1);
    CHECK_EQ(accepted_first(SERVE_PRIORITY_NONE), 64);
    CHECK_EQ(accepted_first(SERVE_PRIORITY_ACCEPT), 70);
}
