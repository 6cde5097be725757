/* Deadlines and cancellation, and what comes of a connection afterwards. */
#include "tests/tls_stream/fixture.h"

/* ---- Receiving ---- */

static void *receive_nothing(void *unused)
{
    char byte;
    MUST_EQ(gs_tls_recv(server, &byte, 1, GS_NEVER), -ECANCELED);
    return unused;
}

static void *give_up_receiving(void *unused)
{
    char byte;
    connect_tls();
    MUST_EQ(gs_tls_recv(server, &byte, 1, 0), -ETIMEDOUT);
    MUST_EQ(gs_tls_recv(server, &byte, 1, after(GS_MILLISECOND)), -ETIMEDOUT);
    struct gs_thread *thread = spawn(receive_nothing, NULL);
    gs_thread_sleep(after(GS_MILLISECOND));
    gs_thread_cancel(thread);
    join(thread);
    say(client, "later");
    hear(server, "later");
    close_tls();
    return unused;
}

TEST(nothing_is_lost_when_a_receive_gives_up)
{
    run_tls(give_up_receiving);
}

static void *receive_from_aborted(void *unused)
{
    char byte;
    connect_tls();
    say(client, "part");
    gs_tls_abort(client);
    hear(server, "part");
    MUST_EQ(gs_tls_recv(server, &byte, 1, after(PATIENCE_NS)), -ECONNRESET);
    gs_tls_abort(server);
    return unused;
}

TEST(an_aborted_connection_has_no_end_of_the_stream)
{
    run_tls(receive_from_aborted);
}

static void *receive_until_cut_off(void *unused)
{
    char byte;
    connect_tls();
    struct gs_thread *thread = spawn(cut_off, NULL);
    MUST_EQ(gs_tls_recv(client, &byte, 1, GS_NEVER), -ECONNRESET);
    join(thread);
    close_tls();
    return unused;
}

TEST(shutting_the_socket_down_ends_a_wait)
{
    run_tls(receive_until_cut_off);
}

/* ---- Handshakes ---- */

static void *accept_until_canceled(void *unused)
{
    MUST_EQ(gs_tls_accept(server_context, ours, GS_NEVER, &server, NULL), -ECANCELED);
    return unused;
}

static void *cancel_handshake(void *unused)
{
    connect_both();
    struct gs_thread *thread = spawn(accept_until_canceled, NULL);
    gs_thread_sleep(after(GS_MILLISECOND));
    gs_thread_cancel(thread);
    join(thread);
    MUST_EQ(gs_tls_accept(server_context, ours, 0, &server, NULL), -ETIMEDOUT);
    close_both();
    return unused;
}

TEST(a_handshake_can_be_canceled)
{
    run_tls(cancel_handshake);
}

/* ---- Sending ---- */

static char megabyte[1 << 20];

/* A call of which the end is never sent. */
static ssize_t send_too_much(uint64_t deadline_ns)
{
    ssize_t n;
    do
        n = gs_tls_send_all(server, megabyte, sizeof megabyte, deadline_ns);
    while (n > 0);
    return n;
}

static void *send_until_canceled(void *unused)
{
    MUST_EQ(send_too_much(GS_NEVER), -ECANCELED);
    return unused;
}

static void receive_to_the_end(int expected)
{
    static char bytes[100000];
    ssize_t n;
    while ((n = gs_tls_recv(client, bytes, sizeof bytes, after(PATIENCE_NS))) > 0)
        ;
    MUST_EQ(n, expected);
}

static void *give_up_sending(void *is_canceled)
{
    connect_tls();
    if (is_canceled) {
        struct gs_thread *thread = spawn(send_until_canceled, NULL);
        gs_thread_sleep(after(5 * GS_MILLISECOND));
        gs_thread_cancel(thread);
        join(thread);
    } else {
        MUST_EQ(send_too_much(after(5 * GS_MILLISECOND)), -ETIMEDOUT);
    }
    int err = is_canceled ? -ECANCELED : -ETIMEDOUT;
    MUST_EQ(gs_tls_send_all(server, "x", 1, after(PATIENCE_NS)), err);
    say(client, "still received");
    hear(server, "still received");
    MUST_EQ(gs_tls_close(server, after(PATIENCE_NS)), err);
    receive_to_the_end(-ECONNRESET); /* not 0: bytes are missing */
    gs_tls_close(client, after(PATIENCE_NS));
    return NULL;
}

static void *give_up_sending_both(void *unused)
{
    give_up_sending(NULL);
    give_up_sending(megabyte);
    return unused;
}

TEST(a_send_that_gives_up_is_the_last_and_the_peer_misses_the_end)
{
    run_tls(give_up_sending_both);
}
