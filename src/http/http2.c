#include "http/http2.h"

#include "http/load.h"
#include "http/service.h"

#include <stdlib.h>

/* What of the preface looks like the head of a request. */
static const char preface_head[] = "PRI * HTTP/2.0\r\n\r\n";

void gs_http2_service_done(struct gs_http_service *service)
{
    if (service->http2)
        service->http2->free_shared(service->http2_block, service->http2_desk);
}

void gs_http2_expect(struct gs_http_conn *conn)
{
    conn->flags |= GS_HTTP_CONN_NOT_HTTP1;
}

void gs_http2_forbid(struct gs_http_conn *conn)
{
    conn->body[0] = true;
}

/* Whether the bytes, which are received next, may belong to the preface, if it is expected. */
static bool may_be_preface(const struct gs_http_conn *conn, const char *bytes, size_t n)
{
    size_t at = conn->input_length, max = sizeof preface_head - 1;
    if (!(conn->flags & GS_HTTP_CONN_NOT_HTTP1) || at >= max)
        return true;
    return !memcmp(preface_head + at, bytes, n < max - at ? n : max - at);
}

bool gs_http2_receive(struct gs_http_conn *conn, const char *bytes, size_t n, uint64_t now_ns)
{
    if (conn->state != GS_HTTP_CONN_HEAD)
        return false;
    if (gs_http2_speaks(conn))
        conn->service->http2->receive(conn, bytes, n, now_ns);
    else if (may_be_preface(conn, bytes, n))
        return false;
    else
        conn->state = GS_HTTP_CONN_CLOSED;
    return true;
}

void gs_http2_resume(struct gs_http_conn *conn, uint64_t now_ns)
{
    if (conn->state == GS_HTTP_CONN_HEAD)
        conn->service->http2->resume(conn, now_ns);
}

void gs_http2_loaded(struct gs_http_conn *conn, struct gs_http_load *load, uint64_t now_ns)
{
    conn->service->http2->loaded(conn, load, now_ns);
}

void gs_http2_end(struct gs_http_conn *conn, uint64_t now_ns)
{
    conn->service->http2->end(conn, now_ns);
}

bool gs_http2_may_keep_file(struct gs_http_conn *conn, const struct gs_http_page *page)
{
    return conn->service->http2->may_keep(conn, page);
}

void gs_http2_free(struct gs_http_conn *conn)
{
    if (conn->http2) /* there was memory for it */
        conn->service->http2->free(conn);
}

bool gs_http2_detect(struct gs_http_conn *conn, const struct gs_http_text *line)
{
    bool may_be = conn->service->http2 && !conn->requests && !conn->body[0];
    if (!may_be || !gs_http_text_is(*line, "PRI * HTTP/2.0"))
        return false;
    conn->flags |= GS_HTTP_CONN_HTTP2;
    return true;
}

/* The input, which starts with the preface, becomes the session's. */
static void start(struct gs_http_conn *conn, uint64_t now_ns)
{
    const struct gs_http2_operations *operations = conn->service->http2;
    char *input = conn->input;
    size_t n = conn->input_length;
    if (conn->state != GS_HTTP_CONN_HEAD) { /* there was no memory for the input */
        conn->flags &= (uint8_t)~GS_HTTP_CONN_HTTP2;
        return;
    }
    conn->input_length = conn->input_size = 0;
    conn->http2 = operations->start(conn, now_ns);
    if (conn->http2) {
        gs_http_count(&conn->service->counts->http2_connections, 1);
        operations->receive(conn, input, n, now_ns);
    } else {
        conn->flags &= (uint8_t)~GS_HTTP_CONN_HTTP2;
        conn->state = GS_HTTP_CONN_CLOSED;
    }
    free(input);
}

/* Frames that answer no request, and header blocks of none, start no phase: otherwise they would
 * move its deadline. */
static enum gs_http_conn_phase current_phase(const struct gs_http_conn *conn)
{
    const struct gs_http2 *http2 = conn->http2;
    if (conn->output && http2->has_response)
        return GS_HTTP_PHASE_SENDING;
    if (conn->load)
        return GS_HTTP_PHASE_LOADING;
    if (http2->answering)
        return GS_HTTP_PHASE_SENDING; /* as soon as the peer's window allows */
    if (http2->receiving)
        return GS_HTTP_PHASE_RECEIVING;
    if (http2->is_in_header)
        return GS_HTTP_PHASE_HEAD;
    if (http2->is_draining)
        return GS_HTTP_PHASE_DRAINING;
    if (conn->phase == GS_HTTP_PHASE_HEAD)
        return GS_HTTP_PHASE_HEAD; /* until a request is complete */
    return conn->requests ? GS_HTTP_PHASE_IDLE : GS_HTTP_PHASE_NEW;
}

static bool is_transfer(unsigned phase)
{
    return phase == GS_HTTP_PHASE_SENDING || phase == GS_HTTP_PHASE_RECEIVING ||
           phase == GS_HTTP_PHASE_LOADING;
}

/* Whether the window in which the rate is measured goes on in this phase: as long as streams are
 * open, so that requests in between give a slow one no time. If it ended while a file was loaded,
 * another one starts. */
static bool keeps_window(const struct gs_http_conn *conn, enum gs_http_conn_phase phase,
                         uint64_t now_ns)
{
    return is_transfer(conn->phase) && is_transfer(phase) && conn->deadline_ns != GS_NEVER &&
           now_ns < conn->deadline_ns;
}

/* The output is sent before a file is loaded, since that may take the thread that would send. */
static unsigned compute_wants(const struct gs_http_conn *conn)
{
    bool may_read = !(conn->flags & GS_HTTP_CONN_EOF) && !conn->http2->has_input;
    if (conn->output)
        return may_read ? GS_HTTP_WRITE | GS_HTTP_READ : GS_HTTP_WRITE;
    if (conn->load)
        return conn->load->is_taken ? 0 : GS_HTTP_LOAD;
    return GS_HTTP_READ;
}

bool gs_http2_awaits_head(const struct gs_http_conn *conn)
{
    return !conn->http2->answering && !conn->http2->receiving;
}

bool gs_http2_is_idle(const struct gs_http_conn *conn)
{
    return gs_http2_awaits_head(conn) && !conn->http2->is_in_header;
}

/* After its end the peer cannot open its windows. */
static bool is_over(const struct gs_http_conn *conn)
{
    bool is_eof = conn->flags & GS_HTTP_CONN_EOF;
    return !conn->output && (conn->http2->is_over || (is_eof && !conn->load));
}

static void enter_phase(struct gs_http_conn *conn, enum gs_http_conn_phase phase, uint64_t now_ns)
{
    if (keeps_window(conn, phase, now_ns))
        conn->phase = (unsigned)phase & 0x7f;
    else
        gs_http_conn_enter_phase(conn, phase, now_ns);
}

/* A connection that lingers needs no session. */
void gs_http2_settle(struct gs_http_conn *conn, uint64_t now_ns)
{
    if (conn->input_length)
        start(conn, now_ns);
    if (conn->state == GS_HTTP_CONN_HEAD && is_over(conn)) {
        conn->state = GS_HTTP_CONN_CLOSING;
        conn->flags |= GS_HTTP_CONN_MUST_LINGER;
        gs_http2_free(conn);
    }
    if (conn->state == GS_HTTP_CONN_HEAD) {
        enter_phase(conn, current_phase(conn), now_ns);
        conn->wants = (uint8_t)compute_wants(conn);
    } else {
        gs_http_conn_settle(conn, now_ns);
    }
}
