/* Handshakes, and the ends of streams. */
#include "tests/tls_stream/fixture.h"

#include <gossamer/net.h>

/* ---- Both directions ---- */

static void *echo(void *unused)
{
    struct gs_tls_info info;
    connect_tls();
    gs_tls_info(server, &info);
    MUST(info.is_established && !strcmp(info.server_name, "server.test"));
    gs_tls_info(client, &info);
    MUST(info.is_established && !strcmp(info.version, "TLSv1.3"));
    for (int i = 0; i < 10; i++) {
        say(client, "question");
        hear(server, "question");
        say(server, "answer");
        hear(client, "answer");
    }
    MUST_EQ(gs_tls_recv(server, NULL, 0, GS_NEVER), 0);
    close_tls();
    return unused;
}

TEST(what_one_side_sends_the_other_receives)
{
    run_tls(echo);
}

/* Connect, let the ticket arrive, and close. Returns whether a session was resumed. */
static bool visit(void)
{
    struct gs_tls_info info;
    connect_tls();
    say(server, "answer");
    hear(client, "answer");
    gs_tls_info(client, &info);
    close_tls();
    return info.is_resumed;
}

static struct gs_tls_session *take(const char *server_name)
{
    return gs_tls_session_take(client_context, server_name);
}

static void *visit_again(void *unused)
{
    gs_tls_session_free(take("server.test")); /* of the run with one worker */
    MUST(!visit());
    for (int i = 0; i < 3; i++)
        MUST(visit());
    struct gs_tls_session *session = take("server.test");
    MUST(session && !take("server.test"));
    MUST(!visit());
    gs_tls_session_keep(client_context, "other.test", session);
    MUST(visit());
    return unused;
}

TEST(next_connection_to_a_server_resumes_the_session)
{
    run_tls(visit_again);
}

static void *half_close(void *unused)
{
    char byte;
    connect_tls();
    say(client, "question");
    MUST_EQ(gs_tls_shutdown(client, after(PATIENCE_NS)), 0);
    MUST_EQ(gs_tls_shutdown(client, after(PATIENCE_NS)), 0);
    MUST_EQ(gs_tls_send_all(client, "x", 1, after(PATIENCE_NS)), -EPIPE);
    hear(server, "question");
    MUST_EQ(gs_tls_recv(server, &byte, 1, after(PATIENCE_NS)), 0);
    MUST_EQ(gs_tls_recv(server, &byte, 1, after(PATIENCE_NS)), 0);
    say(server, "answer");
    MUST_EQ(gs_tls_close(server, after(PATIENCE_NS)), 0);
    hear(client, "answer");
    MUST_EQ(gs_tls_recv(client, &byte, 1, after(PATIENCE_NS)), 0);
    gs_tls_close(client, after(PATIENCE_NS));
    return unused;
}

TEST(a_side_that_has_shut_down_still_receives)
{
    run_tls(half_close);
}

static void *receive_truncated(void *unused)
{
    char bytes[8];
    connect_tls();
    say(client, "part");
    struct gs_thread *thread = spawn(cut_off, NULL);
    hear(server, "part");
    MUST_EQ(gs_tls_recv(server, bytes, sizeof bytes, after(PATIENCE_NS)), -ECONNRESET);
    MUST_EQ(gs_tls_recv(server, bytes, sizeof bytes, after(PATIENCE_NS)), -ECONNRESET);
    join(thread);
    MUST_EQ(gs_tls_recv(client, bytes, sizeof bytes, after(PATIENCE_NS)), -ECONNRESET);
    MUST_EQ(gs_tls_send_all(client, "x", 1, after(PATIENCE_NS)), -EPIPE);
    MUST_EQ(gs_tls_close(client, after(PATIENCE_NS)), -EPIPE);
    gs_tls_close(server, after(PATIENCE_NS));
    return unused;
}

TEST(a_stream_that_ends_without_close_notify_is_an_error)
{
    run_tls(receive_truncated);
}

static void *receive_garbage(void *unused)
{
    char byte, text[GS_TLS_TEXT];
    connect_tls();
    const char garbage[] = "\x17\x03\x03\x00\x20"
                           "not what any key has ever made...";
    MUST_EQ(gs_send_all(theirs, garbage, 37, GS_NEVER), 37);
    gs_tls_error(server, text);
    MUST(!text[0]);
    MUST_EQ(gs_tls_recv(server, &byte, 1, after(PATIENCE_NS)), -EPROTO);
    MUST_EQ(gs_tls_recv(server, &byte, 1, after(PATIENCE_NS)), -EPROTO);
    MUST_EQ(gs_tls_send_all(server, "x", 1, after(PATIENCE_NS)), -EPROTO);
    gs_tls_error(server, text);
    MUST(text[0]);
    MUST_EQ(gs_tls_recv(client, &byte, 1, after(PATIENCE_NS)), -EPROTO); /* the alert */
    close_tls();
    return unused;
}

TEST(bytes_that_were_changed_are_an_error_of_which_the_peer_learns)
{
    run_tls(receive_garbage);
}

/* ---- Failed handshakes ---- */

/* What a peer without TLS does to a handshake, as a server's and as a client's. */
static const struct {
    const char *sends;
    bool closes;
    int as_server, as_client;
} strangers[] = {
    {"GET / HTTP/1.0\r\nHost: example.org\r\n\r\n", false, -EPROTO, -EPROTO},
    {"220 mail.example.org ESMTP ready, this is no TLS at all\r\n", false, -EPROTO, -EPROTO},
    {"", true, -ECONNRESET, -ECONNRESET},
    {"\x16\x03\x01\x02", true, -ECONNRESET, -ECONNRESET},
    {"\x16\x03\x01\x02", false, -ETIMEDOUT, -ETIMEDOUT},
};

static void *meet_strangers(void *unused)
{
    struct gs_tls *tls = NULL;
    for (unsigned i = 0; i < 2 * sizeof strangers / sizeof *strangers; i++) {
        char text[GS_TLS_TEXT] = "";
        bool is_client = i % 2;
        connect_both();
        const char *sends = strangers[i / 2].sends;
        int expected = is_client ? strangers[i / 2].as_client : strangers[i / 2].as_server;
        MUST_EQ(gs_sys_send(theirs, sends, strlen(sends), 0), strlen(sends));
        if (strangers[i / 2].closes)
            MUST_EQ(shutdown(theirs, SHUT_WR), 0);
        uint64_t deadline_ns = after(expected == -ETIMEDOUT ? 3 * GS_MILLISECOND : PATIENCE_NS);
        int err = is_client
                      ? gs_tls_connect(client_context, ours, "server.test", deadline_ns, &tls, text)
                      : gs_tls_accept(server_context, ours, deadline_ns, &tls, text);
        MUST_EQ(err, expected);
        MUST(!tls && text[0] && !strchr(text, '\n'));
        MUST_EQ(gs_send(ours, "x", 1, 0, GS_NEVER), 1); /* still open */
        close_both();
    }
    return unused;
}

TEST(a_handshake_with_a_peer_that_does_not_speak_tls_fails)
{
    run_tls(meet_strangers);
}

static void *accept_nothing(void *unused)
{
    char text[GS_TLS_TEXT] = "";
    MUST_EQ(gs_tls_accept(server_context, ours, after(PATIENCE_NS), &server, text), -EPROTO);
    MUST(text[0]);
    return unused;
}

static void *be_refused(void *unused)
{
    const char *const protocols[] = {"server's", "client's"};
    struct certificate_files files;
    char text[GS_TLS_TEXT] = "";
    certificate_make("server.test", &files);
    const struct gs_tls_certificate certificate = {.chain = files.chain, .key = files.key};
    const struct gs_tls_options for_server = {.certificates = &certificate,
                                              .certificate_count = 1,
                                              .protocols = protocols,
                                              .protocol_count = 1};
    const struct gs_tls_options for_client = {.is_client = true,
                                              .verify = GS_TLS_VERIFY_NONE,
                                              .protocols = protocols + 1,
                                              .protocol_count = 1};
    MUST_EQ(gs_tls_context_new(&for_server, &server_context, NULL), 0);
    MUST_EQ(gs_tls_context_new(&for_client, &client_context, NULL), 0);
    connect_both();
    struct gs_thread *thread = spawn(accept_nothing, NULL);
    MUST_EQ(connect_as("server.test", text), -EPROTO);
    MUST(text[0]);
    join(thread);
    close_both();
    release_contexts();
    return unused;
}

TEST(both_sides_learn_why_a_server_refuses_a_handshake)
{
    run_both(be_refused);
}

/* ---- Dialing ---- */

static void *accept_dialed(void *listener)
{
    ours = gs_accept(*(int *)listener, NULL, NULL, SOCK_CLOEXEC, GS_NEVER);
    MUST(ours >= 0);
    return accept_tls(NULL);
}

static void *dial(void *unused)
{
    struct sockaddr_in address;
    int listener = listen_anywhere(&address);
    char target[40], text[GS_TLS_TEXT] = "";
    struct gs_tls_info info;
    snprintf(target, sizeof target, "localhost:%d", ntohs(address.sin_port));
    struct gs_thread *thread = spawn(accept_dialed, &listener);
    MUST_EQ(gs_dial_tls(client_context, target, after(PATIENCE_NS), &client, text), 0);
    join(thread);
    gs_tls_info(server, &info);
    MUST(info.server_name && !strcmp(info.server_name, "localhost"));
    say(server, "hello");
    hear(client, "hello");
    close_tls();
    gs_close(listener);
    MUST_EQ(gs_dial_tls(client_context, target, after(PATIENCE_NS), &client, text), -ECONNREFUSED);
    MUST(text[0]);
    return unused;
}

TEST(a_dialed_server_is_asked_for_by_its_name)
{
    struct certificate_files files;
    certificate_make("localhost", &files);
    const struct gs_tls_certificate certificate = {.chain = files.chain, .key = files.key};
    const struct gs_tls_options for_server = {.certificates = &certificate, .certificate_count = 1};
    const struct gs_tls_options for_client = {.is_client = true, .ca_file = files.chain};
    CHECK_EQ(gs_tls_context_new(&for_server, &server_context, NULL), 0);
    CHECK_EQ(gs_tls_context_new(&for_client, &client_context, NULL), 0);
    run_both(dial);
    release_contexts();
}
