/* Requests by https: directly, and through the tunnel of a proxy. */
#include "tests/http_client/scripted.h"
#include "tests/tls_stream/contexts.h"

#include <gossamer/tls.h>

/* What the server does behind the handshake, which it makes with server_context. */
static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
static const char *tls_reply;
static size_t tls_part; /* bytes of the reply in a record; 0: all in one */
static bool tls_is_cut; /* the connection ends behind the reply without close_notify */
static bool tls_stays;  /* it waits for client_is_done behind the reply */
static struct gs_semaphore client_is_done;
static bool tls_ends;                /* the connection ends behind the reply */
static _Atomic(unsigned) handshakes; /* that were successful */
static _Atomic(unsigned) resumed;    /* those that have resumed a session */

static bool hear_request(struct gs_tls *tls)
{
    char text[4000];
    size_t n = 0;
    text[0] = '\0';
    while (!strstr(text, "\r\n\r\n")) {
        ssize_t more = gs_tls_recv(tls, text + n, sizeof text - 1 - n, after(PATIENCE_NS));
        if (more <= 0)
            return false;
        n += (size_t)more;
        text[n] = '\0';
    }
    synchronise();
    memcpy(seen[request_count++ % SEEN_MAX], text, sizeof text);
    return true;
}

static void serve_tls(int fd)
{
    struct gs_tls *tls;
    char text[GS_TLS_TEXT];
    if (gs_tls_accept(server_context, dup(fd), after(PATIENCE_NS), &tls, text))
        return;
    bool ends = false, is_cut = false;
    struct gs_tls_info info;
    gs_tls_info(tls, &info);
    resumed += info.is_resumed;
    handshakes++;
    while (!ends && hear_request(tls)) {
        size_t n = strlen(tls_reply), part = tls_part ? tls_part : n;
        const char *reply = tls_reply;
        is_cut = tls_is_cut;
        bool stays = tls_stays;
        ends = tls_ends || is_cut;
        synchronise();
        for (size_t at = 0; at < n; at += part)
            (void)!gs_tls_send_all(tls, reply + at, n - at < part ? n - at : part,
                                   after(PATIENCE_NS));
        if (stays)
            MUST_EQ(gs_semaphore_wait(&client_is_done, after(PATIENCE_NS)), 0);
    }
    if (is_cut)
        gs_tls_abort(tls);
    else
        gs_tls_close(tls, after(PATIENCE_NS));
}

static void accept_tls(int fd, unsigned number)
{
    (void)number;
    serve_tls(fd);
}

static void start_tls(void)
{
    start_script();
    script.serve = accept_tls;
    tls_reply = ok;
    tls_part = 0;
    tls_is_cut = tls_ends = false;
    handshakes = resumed = 0;
    snprintf(script_url, sizeof script_url, "https://localhost:%u", ntohs(script_address.sin_port));
    new_client(&(struct gs_http_client_options){.tls = client_context});
}

/* The client trusts a certificate for localhost. */
static void make_contexts_for(const char *name)
{
    struct certificate_files files;
    certificate_make(name, &files);
    const struct gs_tls_certificate certificate = {.chain = files.chain, .key = files.key};
    const struct gs_tls_options for_server = {.certificates = &certificate, .certificate_count = 1};
    const struct gs_tls_options for_client = {.is_client = true, .ca_file = files.chain};
    CHECK_EQ(gs_tls_context_new(&for_server, &server_context, NULL), 0);
    CHECK_EQ(gs_tls_context_new(&for_client, &client_context, NULL), 0);
}

static void run_with_contexts(gs_thread_fn *first)
{
    make_contexts_for("localhost");
    run_both(first);
    release_contexts();
}

#define TLS_TEST(name_) THREAD_FIXTURE_TEST(name_, run_with_contexts, stop_script(), start_tls())

TLS_TEST(pages_are_got_by_https_on_one_connection)
{
    for (int i = 0; i < 3; i++)
        must_get("/page", "ok");
    MUST_EQ(connection_count, 1);
    MUST_CONTAIN(seen[0], "GET /page HTTP/1.1\r\nHost: localhost:");
    tls_ends = true;
    for (int i = 0; i < 3; i++)
        must_get("/", "ok");
    MUST_EQ(connection_count, 3);
}

TLS_TEST(a_response_may_be_split_into_records_anywhere)
{
    tls_reply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    for (tls_part = 1; tls_part < 20; tls_part += 3)
        must_get("/", "abc");
    MUST_EQ(connection_count, 1);
}

/* Without a length, only close_notify tells that all has arrived. */
TLS_TEST(a_body_that_the_end_of_the_connection_delimits_needs_the_end_of_the_stream)
{
    tls_reply = "HTTP/1.1 200 OK\r\n\r\nall";
    tls_ends = true;
    must_get("/", "all");
    tls_is_cut = true;
    MUST_EQ(get_error("/"), -ECONNRESET);
    tls_reply = ok;
    must_get("/", "ok");
}

TLS_TEST(large_bodies_pass_in_both_directions)
{
    static char body[300000];
    char *reply = malloc(sizeof body + 100);
    memset(body, 'b', sizeof body - 1);
    sprintf(reply, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", sizeof body - 1, body);
    tls_reply = reply;
    must_get("/", body);
    free(reply);
    tls_reply = "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig";
    static char large[16 << 20]; /* the server reads the head only */
    const struct gs_http_client_request request = {
        .url = url_of("/"), .body = large, .body_n = sizeof large};
    tls_stays = true;
    struct gs_http_response *response = fetch(&request);
    MUST_EQ(response->status, 413);
    must_end_with(response, "big");
    tls_stays = false;
    gs_semaphore_post(&client_is_done);
}

TLS_TEST(a_certificate_that_is_not_trusted_is_told)
{
    struct gs_http_response *response;
    char url[100];
    snprintf(url, sizeof url, "https://127.0.0.1:%u/", ntohs(script_address.sin_port));
    MUST_EQ(gs_http_get(client, url, after(PATIENCE_NS), &response), -EPROTO);
    MUST_CONTAIN(gs_http_client_error(), "TLS has failed: ");
    MUST_CONTAIN(gs_http_client_error(), "127.0.0.1");
    MUST_EQ(handshakes, 0);
}

static void speak_plainly(int fd, unsigned number)
{
    (void)number;
    say(fd, "HTTP/1.1 400 Bad Request\r\n\r\n");
}

static void say_nothing(int fd, unsigned number)
{
    char byte;
    (void)number;
    MUST(gs_recv(fd, &byte, 1, 0, after(PATIENCE_NS)) == 1);
}

static void wait_for_end(int fd, unsigned number)
{
    char bytes[1000];
    (void)number;
    while (gs_recv(fd, bytes, sizeof bytes, 0, after(PATIENCE_NS)) > 0)
        ;
}

TLS_TEST(a_server_without_tls_is_an_error)
{
    struct gs_http_response *response;
    script.serve = speak_plainly;
    MUST_EQ(get_error("/"), -EPROTO);
    MUST_CONTAIN(gs_http_client_error(), "TLS has failed: ");
    script.serve = say_nothing;
    MUST_EQ(get_error("/"), -ECONNRESET);
    MUST_CONTAIN(gs_http_client_error(), "no handshake of TLS");
    script.serve = wait_for_end;
    MUST_EQ(gs_http_get(client, url_of("/"), after(20 * GS_MILLISECOND), &response), -ETIMEDOUT);
}

TLS_TEST(a_redirect_to_http_is_followed_only_if_that_is_allowed)
{
    tls_reply = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n";
    MUST_EQ(get_error("/"), -EPERM);
    MUST_CONTAIN(gs_http_client_error(), "allows_downgrade");
    new_client(&(struct gs_http_client_options){.tls = client_context, .allows_downgrade = true});
    MUST_EQ(get_error("/"), -ECONNREFUSED);
}

TLS_TEST(secure_cookies_are_sent_back)
{
    new_client(&(struct gs_http_client_options){.tls = client_context, .max_cookies = 10});
    tls_reply = "HTTP/1.1 200 OK\r\nSet-Cookie: __Host-id=1; Secure; Path=/\r\n"
                "Content-Length: 2\r\n\r\nok";
    request_count = 0;
    must_get("/", "ok");
    must_get("/", "ok");
    MUST_CONTAIN(seen[1], "\r\nCookie: __Host-id=1\r\n");
}

/* ---- Sessions ---- */

TLS_TEST(later_connections_to_a_host_resume_sessions)
{
    tls_ends = true;
    for (int i = 0; i < 4; i++)
        must_get("/", "ok");
    MUST_EQ(handshakes, 4);
    MUST_EQ(resumed, 3);
}

TLS_TEST(a_connection_resumes_the_session_of_one_that_is_in_use)
{
    must_get("/", "ok");
    struct gs_http_response *response = get("/");
    must_get("/", "ok");
    must_end_with(response, "ok");
    MUST_EQ(connection_count, 2);
    MUST_EQ(resumed, 1);
}

static void get_with(const struct gs_tls_options *options, const char *path)
{
    struct gs_tls_context *context;
    MUST_EQ(gs_tls_context_new(options, &context, NULL), 0);
    new_client(&(struct gs_http_client_options){.tls = context});
    for (int i = 0; i < 2; i++)
        must_get(path, "ok");
    new_client(NULL);
    gs_tls_context_release(context);
}

TLS_TEST(sessions_of_other_contexts_are_not_resumed_and_some_contexts_keep_none)
{
    struct gs_tls_options options = {.is_client = true, .verify = GS_TLS_VERIFY_NONE};
    tls_ends = true;
    get_with(&options, "/");
    MUST_EQ(handshakes, 2);
    MUST_EQ(resumed, 1);
    new_client(&(struct gs_http_client_options){.tls = client_context});
    must_get("/", "ok");
    MUST_EQ(resumed, 1);
    options.forgets_sessions = true;
    get_with(&options, "/");
    MUST_EQ(handshakes, 5);
    MUST_EQ(resumed, 1);
}

/* ---- Tunnels ---- */

static const char *tunnel_reply;

static void be_proxy(int fd, unsigned number)
{
    (void)number;
    const char *reply = next_request(fd) ? tunnel_reply : NULL;
    if (!reply || !say(fd, reply) || !strstr(reply, " 200 "))
        return;
    serve_tls(fd);
}

static void use_proxy(void)
{
    char proxy[100];
    snprintf(proxy, sizeof proxy, "http://me:pw@127.0.0.1:%u", ntohs(script_address.sin_port));
    setenv("https_proxy", proxy, 1);
    new_client(&(struct gs_http_client_options){.tls = client_context});
    unsetenv("https_proxy");
    script.serve = be_proxy;
    tunnel_reply = "HTTP/1.1 200 Established\r\n\r\n";
}

TLS_TEST(https_passes_a_proxy_in_a_tunnel)
{
    use_proxy();
    snprintf(script_url, sizeof script_url, "https://localhost");
    for (int i = 0; i < 2; i++)
        must_get("/page", "ok");
    MUST_EQ(connection_count, 1);
    MUST_CONTAIN(seen[0], "CONNECT localhost:443 HTTP/1.1\r\nHost: localhost:443\r\n"
                          "Proxy-Authorization: Basic bWU6cHc=\r\n\r\n");
    MUST_CONTAIN(seen[1], "GET /page HTTP/1.1\r\nHost: localhost\r\n");
    MUST(!strstr(seen[1], "Proxy-Authorization"));
    static const struct {
        const char *reply;
        int err;
    } replies[] = {{"HTTP/1.1 407 Who\r\nContent-Length: 0\r\n\r\n", -ECONNABORTED},
                   {"HTTP/1.1 502 Bad\r\n\r\nx", -ECONNABORTED},
                   {"HTTP/1.1 200 OK\r\n\r\nbytes", -EPROTO},
                   {"SSH-2.0\r\n", -EPROTO},
                   {"HTTP/1.1 200", -ECONNRESET}};
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        tunnel_reply = replies[i].reply;
        snprintf(script_url, sizeof script_url, "https://localhost:%zu", i + 1);
        int err = get_error("/");
        MUST(err == replies[i].err || (i == 2 && err == -ECONNRESET));
        MUST_CONTAIN(gs_http_client_error(), i == 2 ? "" : "the proxy 127.0.0.1:");
    }
}

/* All ports lead to the same server here. */
TLS_TEST(sessions_are_resumed_for_the_same_port_only)
{
    static int port; /* another one in each run */
    use_proxy();
    tls_ends = true;
    for (int i = 0; i < 6; i++) {
        port += !(i % 2);
        snprintf(script_url, sizeof script_url, "https://localhost:%d", port);
        must_get("/", "ok");
    }
    MUST_EQ(handshakes, 6);
    MUST_EQ(resumed, 3);
}

/* ---- A context for HTTP/2 ---- */

TLS_TEST(alpn_is_used_if_the_context_has_protocols)
{
    static const char *const protocols[] = {"http/1.1"};
    struct certificate_files files;
    struct gs_tls_context *other;
    certificate_make("localhost", &files);
    const struct gs_tls_options options = {.is_client = true,
                                           .ca_file = files.chain,
                                           .verify = GS_TLS_VERIFY_NONE,
                                           .protocols = protocols,
                                           .protocol_count = 1};
    MUST_EQ(gs_tls_context_new(&options, &other, NULL), 0);
    new_client(&(struct gs_http_client_options){.tls = other});
    must_get("/", "ok");
    new_client(NULL);
    gs_tls_context_release(other);
}
