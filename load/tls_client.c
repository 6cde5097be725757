#include "load/tls_client.h"

#include <gossamer/io.h>
#include <gossamer/thread.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A record has at most 16 KiB of plaintext, and 256 bytes more while it is decrypted. */
enum { PLAIN_SIZE = 17 * 1024 };

/* What is encrypted at once. */
enum { PART = 64 * 1024 };

/* ---- The run ---- */

int gs_load_tls_target_init(struct load_tls_target *target, const struct load_settings *settings,
                            const struct gs_http_url *url, bool is_loopback)
{
    const char *const protocols[] = {settings->is_http2 ? "h2" : "http/1.1"};
    const struct gs_tls_certificate certificate = {.chain = settings->cert,
                                                   .key = settings->cert_key};
    bool verifies = settings->ca || (!settings->is_insecure && !is_loopback);
    const struct gs_tls_options options = {
        .is_client = true,
        .certificates = &certificate,
        .certificate_count = settings->cert != NULL,
        .ca_file = settings->ca,
        .verify = verifies ? GS_TLS_VERIFY_REQUIRED : GS_TLS_VERIFY_NONE,
        .protocols = protocols,
        .protocol_count = 1,
    };
    char text[GS_TLS_TEXT] = "out of memory";
    /* An IPv6 address may have a zone. */
    memcpy(target->name, url->host, strcspn(url->host, "%"));
    target->resumes = settings->resumes;
    target->protocol = settings->is_http2 ? protocols[0] : NULL;
    if (gs_tls_context_new(&options, &target->context, text))
        return cli_fail(&gs_load_command, "%s", text);
    return 0;
}

void gs_load_tls_target_done(struct load_tls_target *target)
{
    gs_tls_context_release(target->context);
}

/* ---- Calls on the worker's stack ---- */

struct call {
    struct load_tls *tls;
    const struct load_tls_target *target;
    const char *bytes;
    size_t n;
    ssize_t result;
};

static ssize_t run(void *(*fn)(void *), struct call *call)
{
    gs_thread_call_on_worker_stack(fn, call);
    return call->result;
}

/* Make the engine and the first message. */
static void *start(void *argument)
{
    struct call *call = argument;
    struct load_tls *tls = call->tls;
    call->result = gs_tls_engine_new(call->target->context, call->target->name, &tls->engine);
    if (call->result)
        return NULL;
    if (tls->session)
        (void)!gs_tls_engine_resume(tls->engine, tls->session);
    struct gs_tls_input none = {"", 0};
    char plain[1];
    call->result = gs_tls_engine_read(tls->engine, &none, plain, sizeof plain);
    return NULL;
}

static void *encrypt(void *argument)
{
    struct call *call = argument;
    call->result = gs_tls_engine_write(call->tls->engine, call->bytes, call->n);
    return NULL;
}

static void *take_session_and_close(void *argument)
{
    struct call *call = argument;
    struct load_tls *tls = call->tls;
    struct gs_tls_session *session =
        call->target->resumes ? gs_tls_engine_session(tls->engine) : NULL;
    if (session) {
        gs_tls_session_free(tls->session);
        tls->session = session;
    }
    gs_tls_engine_close(tls->engine);
    return NULL;
}

static void *free_engine(void *argument)
{
    struct call *call = argument;
    gs_tls_engine_free(call->tls->engine);
    call->tls->engine = NULL;
    return NULL;
}

/* ---- Connections ---- */

/* Send all output. Returns 0 or an error of gs_send. */
static int flush(struct load_tls *tls, uint64_t deadline_ns)
{
    size_t n;
    ssize_t sent = 0;
    const char *bytes = gs_tls_engine_output(tls->engine, &n);
    while (n && sent >= 0) {
        sent = gs_send(tls->fd, bytes, n, 0, deadline_ns);
        if (sent > 0)
            gs_tls_engine_sent(tls->engine, (size_t)sent);
        bytes = gs_tls_engine_output(tls->engine, &n);
    }
    tls->is_blocked = n > 0;
    return sent < 0 ? (int)sent : 0;
}

static bool is_established(const struct load_tls *tls)
{
    struct gs_tls_info info;
    gs_tls_engine_info(tls->engine, &info);
    return info.is_established;
}

static bool has_chosen(const struct load_tls *tls, const char *protocol)
{
    struct gs_tls_info info;
    gs_tls_engine_info(tls->engine, &info);
    return info.protocol && !strcmp(info.protocol, protocol);
}

/* The plaintext buffer is on the worker's stack. */
ssize_t gs_load_tls_receive(struct load_tls *tls, const void *bytes, size_t n, load_plain_fn *fn,
                            void *data)
{
    struct gs_tls_input input = {bytes, n};
    char plain[PLAIN_SIZE];
    ssize_t total = 0, got = n ? 1 : 0;
    while (got > 0 && input.n) {
        got = gs_tls_engine_read(tls->engine, &input, plain, sizeof plain);
        total += got > 0 ? got : 0;
        if (got > 0 && fn)
            fn(data, plain, (size_t)got);
    }
    if (n)
        tls->end = got > 0 ? -EAGAIN : (int)got;
    return total ? total : got;
}

/* Without memory, `early` stays NULL, although early_n is not 0. */
static void keep_early(void *data, const void *bytes, size_t n)
{
    struct load_tls *tls = data;
    bool is_lost = tls->early_n && !tls->early;
    char *early = is_lost ? NULL : realloc(tls->early, tls->early_n + n);
    if (early)
        memcpy(early + tls->early_n, bytes, n);
    else
        free(tls->early);
    tls->early = early;
    tls->early_n += n;
}

static ssize_t on_handshake(void *data, const void *bytes, size_t n)
{
    struct load_tls *tls = data;
    ssize_t got = gs_load_tls_receive(tls, bytes, n, keep_early, tls);
    return got > 0 && !tls->early ? -ENOMEM : got;
}

int gs_load_tls_connect(struct load_tls *tls, const struct load_tls_target *target, int fd,
                        uint64_t deadline_ns)
{
    struct call call = {.tls = tls, .target = target};
    tls->fd = fd;
    tls->end = -EAGAIN;
    tls->is_blocked = false;
    tls->protocol = target->protocol;
    ssize_t n = run(start, &call);
    while (n == -EAGAIN && !is_established(tls)) {
        n = flush(tls, deadline_ns);
        if (!n)
            n = gs_recv_with(fd, on_handshake, tls, deadline_ns);
        if (n > 0 && target->protocol)
            n = -EAGAIN; /* the settings of HTTP/2 */
        if (n >= 0)
            return -EPROTO; /* closed, or data before the first request */
    }
    tls->is_other = n == -EAGAIN && tls->protocol && !has_chosen(tls, tls->protocol);
    if (tls->is_other)
        return -EPROTO;
    return n == -EAGAIN ? 0 : (int)n;
}

ssize_t gs_load_tls_send(struct load_tls *tls, const char *bytes, size_t n)
{
    int err = tls->is_blocked || !n ? flush(tls, 0) : 0;
    if (err || !n)
        return err;
    struct call call = {.tls = tls, .bytes = bytes, .n = n < PART ? n : PART};
    ssize_t taken = run(encrypt, &call);
    if (taken < 0)
        return taken;
    err = flush(tls, 0);
    return err && err != -ETIMEDOUT ? err : taken;
}

void gs_load_tls_close(struct load_tls *tls, const struct load_tls_target *target)
{
    struct call call = {.tls = tls, .target = target};
    run(take_session_and_close, &call);
    (void)!flush(tls, 0);
    run(free_engine, &call);
    free(tls->early);
    tls->early = NULL;
    tls->early_n = 0;
}

void gs_load_tls_done(struct load_tls *tls)
{
    gs_tls_session_free(tls->session);
}

/* ---- Records ---- */

bool gs_load_tls_record(const struct load_tls *tls, struct load_metrics *metrics)
{
    struct gs_tls_info info;
    gs_tls_engine_info(tls->engine, &info);
    if (!metrics->tls[0])
        snprintf(metrics->tls, sizeof metrics->tls, "%s, %s", info.version, info.cipher);
    return info.is_resumed;
}

struct explanation {
    const struct load_tls *tls;
    struct load_metrics *metrics;
};

/* A server that does not speak the protocol chooses another, or none, or refuses the handshake with
 * an alert. reason: the engine's. */
static bool lacks_protocol(const struct load_tls *tls, const char *reason)
{
    return tls->is_other || (tls->protocol && strstr(reason, "alert: no application protocol"));
}

static void *explain(void *argument)
{
    struct explanation *explanation = argument;
    char *text = explanation->metrics->tls_reason;
    gs_tls_engine_error(explanation->tls->engine, text);
    if (lacks_protocol(explanation->tls, text))
        snprintf(text, GS_TLS_TEXT, "the server does not speak HTTP/2 (ALPN): leave out --http2");
    else if (!text[0])
        snprintf(text, GS_TLS_TEXT, "%s",
                 is_established(explanation->tls)
                     ? "the server sent data before the first request"
                     : "the server closed the connection during the handshake");
    return NULL;
}

enum load_error gs_load_tls_error(const struct load_tls *tls, struct load_metrics *metrics)
{
    struct gs_tls_info info;
    struct explanation explanation = {.tls = tls, .metrics = metrics};
    gs_tls_engine_info(tls->engine, &info);
    if (!metrics->tls_reason[0])
        gs_thread_call_on_worker_stack(explain, &explanation);
    if (info.failure == GS_TLS_FAILED_VERIFY)
        return LOAD_CERTIFICATE;
    return info.is_established && !tls->is_other ? LOAD_TLS : LOAD_HANDSHAKE;
}
