#include "load/tls_client.h"

#include "load/worker.h"

#include <gossamer/io.h>

#include <errno.h>
#include <string.h>

/* Received bytes are stored behind a gap at the start of the buffer, and what they decrypt to at its
 * start. The gap has the length of two records: the part of one that the engine may keep from before,
 * and the one that is decrypted. So a record and its plaintext never overlap. */
enum { GAP = LOAD_TLS_GAP, SIZE = LOAD_TLS_GAP + LOAD_BUFFER_SIZE };

/* What is encrypted at once. */
enum { PART = 64 * 1024 };

/* ---- The run ---- */

static const char protocol[] = "http/1.1";

int gs_load_tls_target_init(struct load_tls_target *target, const struct load_settings *settings,
                            const struct load_url *url, bool is_loopback)
{
    const char *const protocols[] = {protocol};
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
    struct gs_tls_input input;
    char *plain;
    ssize_t result;
};

static ssize_t run(void *(*fn)(void *), struct call *call)
{
    gs_thread_call_on_worker_stack(fn, call);
    return call->result;
}

static void *start(void *argument)
{
    struct call *call = argument;
    struct load_tls *tls = call->tls;
    const struct load_tls_target *target = call->target;
    call->result = gs_tls_engine_new(target->context, target->name, &tls->engine);
    if (call->result)
        return NULL;
    tls->end = -EAGAIN;
    tls->is_blocked = false;
    if (tls->session)
        (void)!gs_tls_engine_resume(tls->engine, tls->session);
    return NULL;
}

/* Decrypt all input. As each record fits into what is left of the buffer, the engine keeps no
 * plaintext. */
static void *decrypt(void *argument)
{
    struct call *call = argument;
    size_t total = 0;
    ssize_t n;
    do {
        n = gs_tls_engine_read(call->tls->engine, &call->input, call->plain + total, SIZE - total);
        total += n > 0 ? (size_t)n : 0;
    } while (n > 0 && call->input.n);
    call->tls->end = n > 0 ? -EAGAIN : (int)n;
    call->result = total ? (ssize_t)total : call->tls->end;
    return NULL;
}

static void *encrypt(void *argument)
{
    struct call *call = argument;
    call->result = gs_tls_engine_write(call->tls->engine, call->input.bytes, call->input.n);
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
static int flush(struct load_tls *tls, int fd, uint64_t deadline_ns)
{
    size_t n;
    ssize_t sent = 0;
    const char *bytes = gs_tls_engine_output(tls->engine, &n);
    while (n && sent >= 0) {
        sent = gs_send(fd, bytes, n, 0, deadline_ns);
        if (sent > 0)
            gs_tls_engine_sent(tls->engine, (size_t)sent);
        bytes = gs_tls_engine_output(tls->engine, &n);
    }
    tls->is_blocked = n > 0;
    return sent < 0 ? (int)sent : 0;
}

/* Receive once, and decrypt. Returns the plaintext's length, -EAGAIN if there is none yet, or as
 * gs_load_tls_recv. */
static ssize_t receive(struct load_tls *tls, int fd, char *buffer, uint64_t deadline_ns)
{
    ssize_t n = gs_recv(fd, buffer + GAP, LOAD_BUFFER_SIZE, 0, deadline_ns);
    if (n <= 0)
        return n;
    struct call call = {.tls = tls, .input = {buffer + GAP, (size_t)n}, .plain = buffer};
    return run(decrypt, &call);
}

static bool is_established(const struct load_tls *tls)
{
    struct gs_tls_info info;
    gs_tls_engine_info(tls->engine, &info);
    return info.is_established;
}

int gs_load_tls_connect(struct load_tls *tls, const struct load_tls_target *target, int fd,
                        char *buffer, uint64_t deadline_ns)
{
    struct call call = {.tls = tls, .target = target, .input = {"", 0}, .plain = buffer};
    ssize_t n = run(start, &call);
    if (!n)
        n = run(decrypt, &call); /* the first message */
    while (n == -EAGAIN && !is_established(tls)) {
        n = flush(tls, fd, deadline_ns);
        if (!n)
            n = receive(tls, fd, buffer, deadline_ns);
        if (n >= 0)
            return -EPROTO; /* closed, or data before the first request */
    }
    return n == -EAGAIN ? 0 : (int)n;
}

ssize_t gs_load_tls_recv(struct load_tls *tls, int fd, char *buffer, uint64_t deadline_ns)
{
    ssize_t n = tls->end;
    while (n == -EAGAIN) {
        n = receive(tls, fd, buffer, deadline_ns);
        if (n == -EAGAIN)
            (void)!flush(tls, fd, 0); /* the answer to a message, if there is one */
    }
    return n;
}

ssize_t gs_load_tls_send(struct load_tls *tls, int fd, const char *bytes, size_t n)
{
    int err = tls->is_blocked ? flush(tls, fd, 0) : 0;
    if (err)
        return err;
    struct call call = {.tls = tls, .input = {bytes, n < PART ? n : PART}};
    ssize_t taken = run(encrypt, &call);
    if (taken < 0)
        return taken;
    err = flush(tls, fd, 0);
    return err && err != -ETIMEDOUT ? err : taken;
}

void gs_load_tls_close(struct load_tls *tls, const struct load_tls_target *target, int fd)
{
    struct call call = {.tls = tls, .target = target};
    run(take_session_and_close, &call);
    (void)!flush(tls, fd, 0);
    run(free_engine, &call);
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

static void *explain(void *argument)
{
    struct explanation *explanation = argument;
    char *text = explanation->metrics->tls_reason;
    gs_tls_engine_error(explanation->tls->engine, text);
    if (!text[0])
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
    return info.is_established ? LOAD_TLS : LOAD_HANDSHAKE;
}
