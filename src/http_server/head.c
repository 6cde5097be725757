#include "http/request.h"

#include "http_server/session.h"

#include <errno.h>
#include <gossamer/io.h>
#include <stdlib.h>

/* ---- Waiting for a request ---- */

/* Take the input back. If end_input() has it, it looks at what has arrived, and ends the input if
 * that is nothing: until then nothing may be received. Returns 0, or -EPIPE if it has ended. */
static int take_input(struct gs_http_session *session)
{
    int expected = GS_HTTP_INPUT_IDLE;
    if (atomic_compare_exchange_strong(&session->input_owner, &expected, GS_HTTP_INPUT_BUSY))
        return 0;
    gs_mutex_lock(&session->sessions->lock, GS_NEVER);
    gs_mutex_unlock(&session->sessions->lock);
    if (atomic_load(&session->input_owner) == GS_HTTP_INPUT_ENDED)
        return -EPIPE;
    atomic_store(&session->input_owner, GS_HTTP_INPUT_BUSY);
    return 0;
}

/* Wait until something has arrived; it is received when the input is the session's again. The two
 * sequentially consistent accesses pair with those of drain() in server.c: either this thread sees
 * is_draining, or drain() sees GS_HTTP_INPUT_IDLE. */
static int wait_for_input(struct gs_http_session *session, enum gs_http_input_owner waits,
                          uint64_t deadline_ns)
{
    int err = 0;
    atomic_store(&session->input_owner, waits);
    if (waits == GS_HTTP_INPUT_HEAD || !atomic_load(&session->sessions->is_draining))
        err = gs_wait_readable(session->exchange.fd, deadline_ns);
    int taken = take_input(session);
    return err ? err : taken;
}

/* Receive while the server may end the input: of sessions that are idle if it drains, and of those
 * whose clients are silent while others wait. Returns as gs_http_session_receive. */
static ssize_t receive(struct gs_http_session *session, enum gs_http_input_owner waits,
                       uint64_t now_ns, uint64_t timeout_ns)
{
    uint64_t deadline_ns = gs_clock_after(now_ns, timeout_ns);
    const atomic_bool *is_draining = &session->sessions->is_draining;
    ssize_t n;
    do {
        int err = wait_for_input(session, waits, deadline_ns);
        n = err ? err : gs_http_session_receive(session, 0);
    } while (n == -ETIMEDOUT && !(waits == GS_HTTP_INPUT_IDLE && atomic_load(is_draining)) &&
             gs_clock_now() < deadline_ns);
    return n;
}

/* Wait for the first bytes of a request. */
static int wait_for_request(struct gs_http_session *session, uint64_t timeout_ns)
{
    uint64_t now_ns = gs_clock_now();
    atomic_store_explicit(&session->since_ns, now_ns, memory_order_relaxed);
    ssize_t n = receive(session, GS_HTTP_INPUT_IDLE, now_ns, timeout_ns);
    return n > 0 ? 0 : n < 0 ? (int)n : -EPIPE;
}

/* Empty lines before a request are ignored (RFC 9112, 2.2). */
static void skip_empty_lines(struct gs_http_session *session)
{
    while (gs_http_session_input_length(session) >= 2 &&
           !memcmp(session->input + session->input_start, "\r\n", 2))
        gs_http_session_consume(session, 2);
}

/* Receive until the input starts with a complete head. Returns its length; -EPROTO, with the status
 * to refuse the request with; or another -errno. */
static ssize_t receive_head(struct gs_http_session *session, unsigned *ret_status)
{
    const struct gs_http_sessions *sessions = session->sessions;
    uint64_t start_ns = 0;
    size_t scanned = 0;
    for (;;) {
        if (!scanned)
            skip_empty_lines(session);
        const char *bytes = session->input + session->input_start;
        size_t n = gs_http_session_input_length(session);
        ssize_t length = n ? gs_http_find_head_end(bytes, n, &scanned) : 0;
        if (length > 0)
            return length;
        *ret_status = length < 0 ? 400
                      : n        ? gs_http_request_check_size(bytes, n, &sessions->limits)
                                 : 0;
        if (*ret_status)
            return -EPROTO;
        if (!start_ns)
            start_ns = gs_clock_now();
        atomic_store_explicit(&session->since_ns, start_ns, memory_order_relaxed);
        ssize_t received =
            receive(session, GS_HTTP_INPUT_HEAD, start_ns, sessions->options.header_timeout_ns);
        if (received == -ETIMEDOUT && n)
            *ret_status = 408;
        if (received <= 0)
            return *ret_status ? -EPROTO : received ? received : -EPIPE;
    }
}

/* ---- The strings of an exchange: parts of the head, terminated there ---- */

static const char *terminate(struct gs_http_text text)
{
    if (text.bytes)
        ((char *)text.bytes)[text.n] = '\0';
    return text.bytes;
}

static unsigned count_lines(struct gs_http_text head)
{
    unsigned count = 0;
    const char *at = head.bytes, *end = head.bytes + head.n;
    while ((at = memchr(at, '\n', (size_t)(end - at)))) {
        at++;
        count++;
    }
    return count;
}

/* The authority of an absolute target takes precedence over the field (RFC 9112, 3.2.2). It is
 * moved onto the slash before it, so that its end does not fall on the path. */
static const char *set_host(const struct gs_http_request *request)
{
    struct gs_http_text authority = request->target.authority;
    if (!authority.bytes || !authority.n)
        return terminate(request->host);
    char *moved = (char *)authority.bytes - 1;
    memmove(moved, authority.bytes, authority.n);
    moved[authority.n] = '\0';
    return moved;
}

/* Fill in the exchange: every text in the request is behind the fields that are found before. */
static void set_exchange(struct gs_http_session *session, const struct gs_http_request *request,
                         struct gs_http_field *fields)
{
    struct gs_http_exchange *exchange = &session->exchange;
    struct gs_http_text rest = request->fields, name, value;
    exchange->fields = fields;
    exchange->field_count = 0;
    while (gs_http_field_next_any(&rest, &name, &value))
        fields[exchange->field_count++] =
            (struct gs_http_field){.name = terminate(name), .value = terminate(value)};
    exchange->host = set_host(request);
    const struct gs_http_target *target = &request->target;
    bool is_literal = target->form == GS_HTTP_TARGET_ABSOLUTE && target->path.n == 1;
    exchange->path = target->form == GS_HTTP_TARGET_ASTERISK ? "*"
                     : is_literal                            ? "/"
                                                             : terminate(target->path);
    exchange->query = terminate(target->query);
    const char *line = request->line.bytes;
    exchange->method = terminate(
        (struct gs_http_text){line, (size_t)((char *)memchr(line, ' ', request->line.n) - line)});
    exchange->minor_version = request->minor;
    exchange->content_length = request->chunked ? GS_HTTP_UNKNOWN : request->content_length;
}

static void set_body(struct gs_http_session *session, const struct gs_http_request *request)
{
    session->is_chunked = request->chunked;
    session->body_left = request->content_length;
    session->body_done = !request->chunked && !request->content_length;
    session->expects_continue = request->expects_continue && !session->body_done;
    session->body_error = 0;
    session->body_wait_ns = session->sessions->options.body_timeout_ns;
    gs_http_chunked_init(&session->chunked);
}

static unsigned parse(struct gs_http_session *session, struct gs_http_text head,
                      struct gs_http_field *fields)
{
    const struct gs_http_sessions *sessions = session->sessions;
    struct gs_http_request request;
    unsigned status = gs_http_request_parse(head, &sessions->limits, &request);
    session->is_head = request.method == GS_HTTP_HEAD;
    session->keep_alive = !status && request.keep_alive;
    if (!status && request.target.form == GS_HTTP_TARGET_AUTHORITY)
        status = 501;
    if (!status && request.content_length > sessions->limits.max_body)
        status = 413;
    if (status)
        return status;
    set_body(session, &request);
    set_exchange(session, &request, fields);
    return 0;
}

static void reset_response(struct gs_http_session *session)
{
    session->state = GS_HTTP_RESPONSE_NONE;
    session->fields_length = 0;
    session->is_head = session->keep_alive = false;
    session->exchange.minor_version = 1;
    session->body_done = true; /* of a request that is refused, nothing is read */
}

int gs_http_session_read_head(struct gs_http_session *session)
{
    reset_response(session);
    if (!gs_http_session_input_length(session)) {
        int err = wait_for_request(session, session->is_first
                                                ? session->sessions->options.header_timeout_ns
                                                : session->sessions->options.idle_timeout_ns);
        if (err)
            return err;
    }
    session->is_first = false;
    unsigned status = 0;
    ssize_t length = receive_head(session, &status);
    if (length < 0)
        return status ? (int)status : (int)length;
    struct gs_http_text head = {session->input + session->input_start, (size_t)length};
    size_t fields_size = count_lines(head) * sizeof(struct gs_http_field);
    session->head = malloc(fields_size + head.n);
    if (!session->head)
        return 503;
    char *text = session->head + fields_size;
    memcpy(text, head.bytes, head.n);
    gs_http_session_consume(session, head.n);
    return (int)parse(session, (struct gs_http_text){text, head.n},
                      (struct gs_http_field *)session->head);
}

void gs_http_session_release(struct gs_http_session *session)
{
    free(session->head);
    free(session->fields);
    session->head = session->fields = NULL;
    session->fields_length = session->fields_size = 0;
}
