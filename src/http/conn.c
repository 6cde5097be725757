#include "http/conn.h"

#include "http/head_end.h"
#include "http/http2.h"
#include "http/load.h"
#include "http/response.h"

#include <stdlib.h>

/* How long a peer that has got its last response may send on, or take the rest. */
#define LINGER_MAX_NS (30 * GS_SECOND)

/* ---- Input: requests in the received bytes; what cannot be handled yet is buffered ---- */

static bool input_append(struct gs_http_conn *conn, const char *bytes, size_t n)
{
    size_t need = conn->input_length + n;
    if (need > conn->input_size) {
        size_t size = conn->input_size ? conn->input_size : 256;
        while (size < need)
            size *= 2;
        char *input = size <= UINT32_MAX ? realloc(conn->input, size) : NULL;
        if (!input) {
            conn->state = GS_HTTP_CONN_CLOSED;
            return false;
        }
        conn->input = input;
        conn->input_size = (uint32_t)size;
    }
    memcpy(conn->input + conn->input_length, bytes, n);
    conn->input_length += (uint32_t)n;
    return true;
}

/* Remove n bytes from the input buffer, at position `from`. */
static void input_remove(struct gs_http_conn *conn, size_t from, size_t n)
{
    conn->input_length -= (uint32_t)n;
    if (conn->input_length) {
        memmove(conn->input + from, conn->input + from + n, conn->input_length - from);
        return;
    }
    free(conn->input);
    conn->input = NULL;
    conn->input_size = 0;
}

/* Handle the request at the start of these bytes. Returns the number of bytes consumed; *ret_more:
 * continue behind them. */
static size_t handle_request(struct gs_http_conn *conn, const char *bytes, size_t n, bool *ret_more,
                             uint64_t now_ns)
{
    struct gs_http_request request;
    size_t scanned = conn->scanned;
    conn->scanned = 0;
    *ret_more = false;
    ssize_t head_length = gs_http_find_head_end(bytes, n, &scanned);
    if (head_length <= 0) {
        unsigned refusal =
            head_length < 0 ? 400 : gs_http_request_check_size(bytes, n, &conn->service->options);
        if (!refusal) {
            conn->scanned = (uint32_t)scanned;
            return 0;
        }
        struct gs_http_text input = {bytes, n};
        request = (struct gs_http_request){
            .method = gs_http_request_method(input),
            .refusal = GS_HTTP_REFUSED_BYTES,
            .line = gs_http_request_line(input),
        };
        gs_http_refuse(conn, &request, refusal, now_ns);
        return 0;
    }
    struct gs_http_text head = {bytes, (size_t)head_length};
    unsigned refusal = gs_http_request_parse(head, &conn->service->options, &request);
    enum gs_http_handled handled = refusal ? gs_http_refuse(conn, &request, refusal, now_ns)
                                           : gs_http_handle(conn, &request, false, NULL, now_ns);
    if (handled == GS_HTTP_WAITING)
        conn->head_length = (uint32_t)head_length;
    *ret_more = handled == GS_HTTP_HANDLED;
    return handled == GS_HTTP_HANDLED ? head.n : 0;
}

/* Handle as many of the requests in these bytes as possible. Returns the number of bytes consumed.
 */
static size_t handle_requests(struct gs_http_conn *conn, const char *bytes, size_t n,
                              uint64_t now_ns)
{
    size_t used = 0;
    bool more = true;
    while (more && conn->state == GS_HTTP_CONN_HEAD) {
        while (n - used >= 2 && bytes[used] == '\r' && bytes[used + 1] == '\n')
            used += 2; /* RFC 9112, 2.2 */
        if (used == n)
            break;
        used += handle_request(conn, bytes + used, n - used, &more, now_ns);
    }
    return used;
}

/* Refuse the request at the start of the input buffer, which may be incomplete. */
static enum gs_http_handled refuse_buffered(struct gs_http_conn *conn, unsigned status,
                                            uint64_t now_ns)
{
    struct gs_http_text input = {conn->input, conn->input_length};
    struct gs_http_request request = {
        .method = gs_http_request_method(input),
        .line = gs_http_request_line(input),
    };
    struct gs_http_text head = {conn->input, conn->head_length};
    if (head.n)
        gs_http_request_parse(head, &conn->service->options, &request);
    request.refusal = GS_HTTP_REFUSED_BODY;
    return gs_http_refuse(conn, &request, status, now_ns);
}

/* Discard bytes of a body. Returns the number of bytes that belonged to it; the state becomes READY
 * once it is complete. */
static size_t discard_body(struct gs_http_conn *conn, const char *bytes, size_t n, uint64_t now_ns)
{
    struct gs_http_chunked *body = (struct gs_http_chunked *)conn->body;
    bool done;
    ssize_t consumed;
    if (conn->flags & GS_HTTP_CONN_CHUNKED) {
        consumed = gs_http_chunked_decode(body, bytes, n, &done);
    } else {
        consumed = (ssize_t)(n < body->left ? n : body->left);
        body->left -= (uint64_t)consumed;
        done = !body->left;
    }
    bool too_long = body->total + body->left > conn->service->options.max_body;
    if (consumed < 0 || too_long) {
        if (refuse_buffered(conn, too_long ? 413 : 400, now_ns) == GS_HTTP_BLOCKED)
            conn->state = conn->output ? GS_HTTP_CONN_CLOSING : GS_HTTP_CONN_CLOSED;
        return n;
    }
    conn->transferred += (uint64_t)consumed;
    if (done)
        conn->state = GS_HTTP_CONN_READY;
    return (size_t)consumed;
}

/* Handle the request whose head is at the start of the input buffer, with its load if it had one.
 */
static void handle_buffered(struct gs_http_conn *conn, struct gs_http_load *load, uint64_t now_ns)
{
    struct gs_http_request request;
    struct gs_http_text head = {conn->input, conn->head_length};
    unsigned refusal = gs_http_request_parse(head, &conn->service->options, &request);
    enum gs_http_handled handled = refusal ? gs_http_refuse(conn, &request, refusal, now_ns)
                                           : gs_http_handle(conn, &request, true, load, now_ns);
    if (handled != GS_HTTP_HANDLED)
        return;
    input_remove(conn, 0, conn->head_length);
    conn->head_length = 0;
}

/* Continue with the buffered input as far as possible. */
static void resume_input(struct gs_http_conn *conn, uint64_t now_ns)
{
    do {
        if (conn->state == GS_HTTP_CONN_BODY && conn->input_length > conn->head_length)
            input_remove(conn, conn->head_length,
                         discard_body(conn, conn->input + conn->head_length,
                                      conn->input_length - conn->head_length, now_ns));
        if (conn->state == GS_HTTP_CONN_READY && !conn->output)
            handle_buffered(conn, NULL, now_ns);
        if (conn->state != GS_HTTP_CONN_HEAD || !conn->input_length)
            return;
        input_remove(conn, 0, handle_requests(conn, conn->input, conn->input_length, now_ns));
    } while (conn->state == GS_HTTP_CONN_BODY);
}

static void feed(struct gs_http_conn *conn, const char *bytes, size_t n, uint64_t now_ns)
{
    size_t used = 0;
    if (conn->state == GS_HTTP_CONN_HEAD && !conn->input_length)
        used = handle_requests(conn, bytes, n, now_ns);
    else if (conn->state == GS_HTTP_CONN_BODY)
        used = discard_body(conn, bytes, n, now_ns);
    if (conn->state >= GS_HTTP_CONN_CLOSING) {
        conn->flags |= used < n ? GS_HTTP_CONN_MUST_LINGER : 0;
        conn->transferred += conn->state == GS_HTTP_CONN_LINGER ? n : 0;
        return;
    }
    if (used == n && conn->state != GS_HTTP_CONN_READY)
        return;
    if (input_append(conn, bytes + used, n - used))
        resume_input(conn, now_ns);
}

/* ---- State: phase, deadline and the operations that the connection waits for ---- */

static enum gs_http_conn_phase current_phase(const struct gs_http_conn *conn)
{
    if (conn->state == GS_HTTP_CONN_CLOSED)
        return GS_HTTP_PHASE_CLOSED;
    if (conn->state == GS_HTTP_CONN_LINGER)
        return GS_HTTP_PHASE_LINGERING;
    if (conn->state == GS_HTTP_CONN_BODY)
        return GS_HTTP_PHASE_RECEIVING;
    if (conn->output)
        return GS_HTTP_PHASE_SENDING;
    if (conn->state == GS_HTTP_CONN_LOAD)
        return GS_HTTP_PHASE_LOADING;
    /* The phase lasts until the response, so empty lines sent byte by byte gain no time. */
    if (conn->input_length || conn->phase == GS_HTTP_PHASE_HEAD)
        return GS_HTTP_PHASE_HEAD;
    return conn->requests ? GS_HTTP_PHASE_IDLE : GS_HTTP_PHASE_NEW;
}

static inline bool is_patient(const struct gs_http_conn *conn)
{
    return __builtin_expect(__atomic_load_n(&conn->service->is_patient, __ATOMIC_RELAXED), false);
}

/* The maximum duration of a phase. */
static inline uint64_t phase_timeout(const struct gs_http_conn *conn, enum gs_http_conn_phase phase)
{
    const struct gs_http_options *options = &conn->service->options;
    switch (phase) {
    case GS_HTTP_PHASE_NEW:
    case GS_HTTP_PHASE_HEAD:
        return options->header_timeout_ns;
    case GS_HTTP_PHASE_IDLE:
        return is_patient(conn) && GS_HTTP_PATIENCE_NS < options->idle_timeout_ns
                   ? GS_HTTP_PATIENCE_NS
                   : options->idle_timeout_ns;
    case GS_HTTP_PHASE_SENDING:
    case GS_HTTP_PHASE_RECEIVING:
        return options->min_rate ? options->rate_window_ns : GS_NEVER;
    case GS_HTTP_PHASE_DRAINING:
        return GS_HTTP2_DRAINING_NS;
    case GS_HTTP_PHASE_LINGERING:
        return GS_HTTP_LINGER_WINDOW_NS;
    default:
        return GS_NEVER;
    }
}

static void restart_phase(struct gs_http_conn *conn, uint64_t now_ns)
{
    conn->transferred = 0;
    conn->deadline_ns = gs_clock_after(now_ns, phase_timeout(conn, conn->phase));
}

static unsigned compute_wants(const struct gs_http_conn *conn)
{
    unsigned wants = conn->output ? GS_HTTP_WRITE : 0;
    switch ((enum gs_http_conn_state)conn->state) {
    case GS_HTTP_CONN_HEAD:
        return conn->output ? wants : GS_HTTP_READ;
    case GS_HTTP_CONN_BODY:
        return wants | GS_HTTP_READ;
    case GS_HTTP_CONN_LOAD:
        return conn->load->is_taken ? wants : wants | GS_HTTP_LOAD;
    case GS_HTTP_CONN_LINGER:
        return conn->flags & GS_HTTP_CONN_SHUT_DOWN ? GS_HTTP_READ : GS_HTTP_SHUTDOWN;
    case GS_HTTP_CONN_CLOSED:
        return GS_HTTP_CLOSE;
    default:
        return wants;
    }
}

static inline void enter_phase(struct gs_http_conn *conn, enum gs_http_conn_phase phase,
                               uint64_t now_ns)
{
    if (phase == conn->phase)
        return;
    conn->phase = (unsigned)phase & 0x7f;
    conn->transferred = 0;
    conn->deadline_ns = gs_clock_after(now_ns, phase_timeout(conn, phase));
}

void gs_http_conn_enter_phase(struct gs_http_conn *conn, enum gs_http_conn_phase phase,
                              uint64_t now_ns)
{
    enter_phase(conn, phase, now_ns);
}

static bool is_idle(const struct gs_http_conn *conn)
{
    return conn->state == GS_HTTP_CONN_HEAD && !conn->output && !conn->input_length;
}

/* Of a connection that drains, or whose peer has ended its input. */
static bool is_over(const struct gs_http_conn *conn)
{
    if (!(conn->flags & GS_HTTP_CONN_EOF))
        return is_idle(conn) && !is_patient(conn);
    return conn->state == GS_HTTP_CONN_BODY || (conn->state == GS_HTTP_CONN_HEAD && !conn->output);
}

void gs_http_conn_settle(struct gs_http_conn *conn, uint64_t now_ns)
{
    if (conn->flags & (GS_HTTP_CONN_EOF | GS_HTTP_CONN_DRAINING) && is_over(conn))
        conn->state = GS_HTTP_CONN_CLOSING;
    if (conn->state == GS_HTTP_CONN_CLOSING && !conn->output) {
        bool must_linger = !(conn->flags & GS_HTTP_CONN_EOF) &&
                           (conn->flags & GS_HTTP_CONN_MUST_LINGER || conn->input_length);
        conn->state = must_linger ? GS_HTTP_CONN_LINGER : GS_HTTP_CONN_CLOSED;
        *gs_http_conn_lingering(conn) = (struct gs_http_lingering){
            .end_ns = gs_clock_after(now_ns, LINGER_MAX_NS),
            .queued = UINT64_MAX,
        };
    }
    enter_phase(conn, current_phase(conn), now_ns);
    conn->wants = (uint8_t)compute_wants(conn);
}

/* Called at the end of each public function. */
static void settle(struct gs_http_conn *conn, uint64_t now_ns)
{
    if (gs_http2_speaks(conn))
        gs_http2_settle(conn, now_ns);
    else
        gs_http_conn_settle(conn, now_ns);
}

/* ---- Public functions ---- */

void gs_http_conn_init(struct gs_http_conn *conn, struct gs_http_service *service, uint64_t now_ns)
{
    *conn = (struct gs_http_conn){
        .service = service,
        .wants = GS_HTTP_READ,
        .deadline_ns = gs_clock_after(now_ns, service->options.header_timeout_ns),
    };
    gs_http_count(&service->counts->connections, 1);
}

void gs_http_conn_redirect(struct gs_http_conn *conn)
{
    conn->flags |= GS_HTTP_CONN_REDIRECT;
}

void gs_http_conn_set_secure(struct gs_http_conn *conn)
{
    conn->is_secure = 1;
}

static void free_output(struct gs_http_conn *conn)
{
    gs_http_flush_log(conn, true);
    gs_http_service_free_output(conn->service, conn->output);
    conn->output = NULL;
}

void gs_http_conn_done(struct gs_http_conn *conn)
{
    if (conn->output)
        free_output(conn);
    gs_http_load_free(conn->load);
    if (gs_http2_speaks(conn))
        gs_http2_free(conn);
    else
        free(conn->input);
    gs_http_count(&conn->service->counts->closed, 1);
}

bool gs_http_conn_is_idle(const struct gs_http_conn *conn)
{
    return is_idle(conn) && (!gs_http2_speaks(conn) || gs_http2_is_idle(conn));
}

bool gs_http_conn_awaits_head(const struct gs_http_conn *conn)
{
    return conn->state == GS_HTTP_CONN_HEAD && !conn->output &&
           (!gs_http2_speaks(conn) || gs_http2_awaits_head(conn));
}

bool gs_http_conn_is_kept_alive(const struct gs_http_conn *conn)
{
    return conn->phase == GS_HTTP_PHASE_IDLE;
}

uint64_t gs_http_conn_phase_start(const struct gs_http_conn *conn)
{
    uint64_t timeout_ns = phase_timeout(conn, conn->phase), deadline_ns = conn->deadline_ns;
    return deadline_ns == GS_NEVER || deadline_ns < timeout_ns ? 0 : deadline_ns - timeout_ns;
}

void gs_http_conn_receive(struct gs_http_conn *conn, const char *bytes, size_t n, uint64_t now_ns)
{
    if (!gs_http2_is_expected(conn) || !gs_http2_receive(conn, bytes, n, now_ns))
        feed(conn, bytes, n, now_ns);
    settle(conn, now_ns);
}

void gs_http_conn_receive_eof(struct gs_http_conn *conn, uint64_t now_ns)
{
    conn->flags |= GS_HTTP_CONN_EOF;
    if (conn->state == GS_HTTP_CONN_LINGER)
        conn->state = GS_HTTP_CONN_CLOSED;
    settle(conn, now_ns);
}

unsigned gs_http_conn_output(const struct gs_http_conn *conn, struct gs_http_piece *pieces,
                             unsigned max_count)
{
    const struct gs_http_output *output = conn->output;
    unsigned count = 0;
    if (!output)
        return 0;
    for (uint32_t i = output->first; i < output->count && count < max_count; i++)
        pieces[count++] = output->segments[i].piece;
    return count;
}

uint64_t gs_http_conn_last_bytes(const struct gs_http_conn *conn)
{
    const struct gs_http_output *output = conn->output;
    return conn->state == GS_HTTP_CONN_CLOSING && output ? output->end - output->position : 0;
}

/* Keep the output of a slow reader in little memory; the large block, which is in the processor's
 * cache, serves the next connection. */
static void compact_output(struct gs_http_conn *conn)
{
    struct gs_http_output *rest = gs_http_output_compact(conn->output);
    if (!rest)
        return;
    gs_http_service_free_output(conn->service, conn->output);
    conn->output = rest;
}

void gs_http_conn_sent(struct gs_http_conn *conn, uint64_t n, uint64_t now_ns)
{
    struct gs_http_output *output = conn->output;
    gs_http_count(&conn->service->counts->bytes, n);
    conn->transferred += n;
    gs_http_output_advance(output, n);
    if (output->position < output->end) {
        gs_http_flush_log(conn, false);
        compact_output(conn);
        return;
    }
    gs_http_service_count_sent(conn->service, output, now_ns);
    free_output(conn);
    if (gs_http2_speaks(conn)) {
        gs_http2_resume(conn, now_ns);
        gs_http2_settle(conn, now_ns);
        return;
    }
    if (conn->phase == GS_HTTP_PHASE_SENDING)
        conn->phase = GS_HTTP_PHASE_RESTART;
    resume_input(conn, now_ns);
    gs_http_conn_settle(conn, now_ns);
}

void gs_http_conn_abort(struct gs_http_conn *conn)
{
    conn->state = GS_HTTP_CONN_CLOSED;
    conn->phase = GS_HTTP_PHASE_CLOSED;
    conn->wants = GS_HTTP_CLOSE;
    conn->deadline_ns = GS_NEVER;
}

void gs_http_conn_break_off(struct gs_http_conn *conn)
{
    gs_http_count(&conn->service->counts->broken_off, 1);
    gs_http_conn_abort(conn);
}

void gs_http_conn_linger(struct gs_http_conn *conn, uint64_t now_ns)
{
    if (conn->output)
        free_output(conn);
    if (gs_http2_speaks(conn))
        gs_http2_free(conn);
    conn->state = GS_HTTP_CONN_CLOSING;
    conn->flags |= GS_HTTP_CONN_MUST_LINGER;
    gs_http_conn_settle(conn, now_ns);
}

void gs_http_conn_shut_down(struct gs_http_conn *conn, uint64_t now_ns)
{
    conn->flags |= GS_HTTP_CONN_SHUT_DOWN;
    settle(conn, now_ns);
}

void gs_http_conn_expire(struct gs_http_conn *conn, uint64_t queued, uint64_t now_ns)
{
    bool receiving = conn->phase == GS_HTTP_PHASE_RECEIVING;
    if (now_ns < conn->deadline_ns || (conn->phase == GS_HTTP_PHASE_LINGERING &&
                                       gs_http_conn_may_linger_on(conn, queued, now_ns)))
        return;
    if (conn->phase == GS_HTTP_PHASE_LOADING) { /* HTTP/2: the peer is not to blame */
        restart_phase(conn, now_ns);
        return;
    }
    if (conn->phase == GS_HTTP_PHASE_SENDING || receiving) {
        if (gs_http_conn_is_fast_enough(conn, receiving ? 0 : queued, now_ns))
            return;
        gs_http_count(&conn->service->counts->timeouts, 1);
    } else if (conn->phase == GS_HTTP_PHASE_HEAD) {
        gs_http_count(&conn->service->counts->timeouts, 1);
    }
    if (gs_http2_speaks(conn) && conn->state == GS_HTTP_CONN_HEAD && !conn->output) {
        gs_http2_end(conn, now_ns);
        settle(conn, now_ns);
        return;
    }
    if ((receiving || conn->phase == GS_HTTP_PHASE_HEAD) && !conn->output &&
        refuse_buffered(conn, 408, now_ns) == GS_HTTP_HANDLED) {
        settle(conn, now_ns);
        return;
    }
    gs_http_conn_abort(conn);
}

void gs_http_conn_restart_rate(struct gs_http_conn *conn, uint64_t now_ns)
{
    if (conn->phase == GS_HTTP_PHASE_SENDING)
        restart_phase(conn, now_ns);
}

void gs_http_conn_disable_keep_alive(struct gs_http_conn *conn)
{
    conn->flags |= GS_HTTP_CONN_DRAINING;
}

void gs_http_conn_drain(struct gs_http_conn *conn, uint64_t now_ns)
{
    /* A peer that was promised keep-alive may be sending the next request. */
    conn->flags |=
        GS_HTTP_CONN_DRAINING | (gs_http_conn_is_idle(conn) ? 0 : GS_HTTP_CONN_MUST_LINGER);
    if (gs_http2_speaks(conn) && !conn->output)
        gs_http2_resume(conn, now_ns);
    settle(conn, now_ns);
    uint64_t until_ns = gs_clock_after(now_ns, GS_HTTP_PATIENCE_NS);
    if (is_patient(conn) && is_idle(conn) && until_ns < conn->deadline_ns)
        conn->deadline_ns = until_ns;
}

void gs_http_conn_set_patient(struct gs_http_conn *conn)
{
    __atomic_store_n(&conn->service->is_patient, true, __ATOMIC_RELAXED);
}

struct gs_http_load *gs_http_conn_take_load(struct gs_http_conn *conn)
{
    conn->load->is_taken = true;
    conn->wants &= (uint8_t)~GS_HTTP_LOAD;
    return conn->load;
}

void gs_http_conn_loaded(struct gs_http_conn *conn, struct gs_http_load *load, uint64_t now_ns)
{
    conn->load = NULL;
    if (gs_http2_speaks(conn) && conn->state == GS_HTTP_CONN_HEAD) {
        gs_http2_loaded(conn, load, now_ns);
    } else if (conn->state == GS_HTTP_CONN_LOAD) {
        handle_buffered(conn, load, now_ns);
        resume_input(conn, now_ns);
    }
    gs_http_load_free(load);
    settle(conn, now_ns);
}
