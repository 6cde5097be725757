#include "http/conn.h"

#include "http/load.h"
#include "http/reply.h"

#include <stdlib.h>

/* How long we wait, after our last byte, for the peer to end. */
#define LINGER_NS (2 * GS_SECOND)

void gs_http_conn_free_output(struct gs_http_conn *conn)
{
    gs_http_reply_flush_log(conn, true);
    gs_http_service_free_output(conn->service, conn->output);
    conn->output = NULL;
}

static enum gs_http_conn_phase phase_of(const struct gs_http_conn *conn)
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
    /* Begun is begun, until it is answered: empty lines, a byte at a time, gain no time. */
    if (conn->tail_n || conn->phase == GS_HTTP_PHASE_HEAD)
        return GS_HTTP_PHASE_HEAD;
    return conn->requests ? GS_HTTP_PHASE_IDLE : GS_HTTP_PHASE_NEW;
}

/* Each phase has its time, counted from its beginning. */
static uint64_t time_of(const struct gs_http_conn *conn, enum gs_http_conn_phase phase)
{
    const struct gs_http_options *options = &conn->service->options;
    switch (phase) {
    case GS_HTTP_PHASE_NEW:
    case GS_HTTP_PHASE_HEAD:
        return options->header_timeout_ns;
    case GS_HTTP_PHASE_IDLE:
        return options->idle_timeout_ns;
    case GS_HTTP_PHASE_SENDING:
    case GS_HTTP_PHASE_RECEIVING:
        return options->rate_least ? options->rate_window_ns : GS_NEVER;
    case GS_HTTP_PHASE_LINGERING:
        return LINGER_NS;
    default:
        return GS_NEVER;
    }
}

static unsigned wants_of(const struct gs_http_conn *conn)
{
    unsigned wants = conn->output ? GS_HTTP_WRITE : 0;
    switch ((enum gs_http_conn_state)conn->state) {
    case GS_HTTP_CONN_HEAD:
        return conn->output ? wants : GS_HTTP_READ;
    case GS_HTTP_CONN_BODY:
        return wants | GS_HTTP_READ;
    case GS_HTTP_CONN_LOAD:
        return conn->load->taken ? wants : wants | GS_HTTP_LOAD;
    case GS_HTTP_CONN_LINGER:
        return conn->flags & GS_HTTP_CONN_SHUT_DOWN ? GS_HTTP_READ : GS_HTTP_SHUTDOWN;
    case GS_HTTP_CONN_CLOSED:
        return GS_HTTP_CLOSE;
    default:
        return wants;
    }
}

/* The end of every call: the states that nothing from outside has to move, then what is wanted and
 * until when. */
static void settle(struct gs_http_conn *conn, uint64_t now_ns)
{
    bool ended = conn->flags & GS_HTTP_CONN_PEER_ENDED;
    if (ended &&
        (conn->state == GS_HTTP_CONN_BODY || (conn->state == GS_HTTP_CONN_HEAD && !conn->output)))
        conn->state = GS_HTTP_CONN_CLOSING;
    if (conn->flags & GS_HTTP_CONN_DRAINING && gs_http_conn_is_idle(conn))
        conn->state = GS_HTTP_CONN_CLOSING;
    if (conn->state == GS_HTTP_CONN_CLOSING && !conn->output) {
        bool lingers = !ended && (conn->flags & GS_HTTP_CONN_LINGERS || conn->tail_n);
        conn->state = lingers ? GS_HTTP_CONN_LINGER : GS_HTTP_CONN_CLOSED;
    }
    enum gs_http_conn_phase phase = phase_of(conn);
    if (phase != conn->phase) {
        conn->phase = (uint8_t)phase;
        conn->moved = 0;
        conn->deadline_ns = gs_clock_after(now_ns, time_of(conn, phase));
    }
    conn->wants = (uint8_t)wants_of(conn);
}

void gs_http_conn_init(struct gs_http_conn *conn, struct gs_http_service *service, uint64_t now_ns)
{
    *conn = (struct gs_http_conn){
        .service = service,
        .wants = GS_HTTP_READ,
        .deadline_ns = gs_clock_after(now_ns, service->options.header_timeout_ns),
    };
    gs_http_count(&service->counts->connections, 1);
}

void gs_http_conn_done(struct gs_http_conn *conn)
{
    if (conn->output)
        gs_http_conn_free_output(conn);
    gs_http_load_free(conn->load);
    free(conn->tail);
    gs_http_count(&conn->service->counts->closed, 1);
}

bool gs_http_conn_is_idle(const struct gs_http_conn *conn)
{
    return conn->state == GS_HTTP_CONN_HEAD && !conn->output && !conn->tail_n;
}

void gs_http_conn_receive(struct gs_http_conn *conn, const char *bytes, size_t n, uint64_t now_ns)
{
    gs_http_input(conn, bytes, n, now_ns);
    settle(conn, now_ns);
}

void gs_http_conn_receive_end(struct gs_http_conn *conn, uint64_t now_ns)
{
    conn->flags |= GS_HTTP_CONN_PEER_ENDED;
    if (conn->state == GS_HTTP_CONN_LINGER)
        conn->state = GS_HTTP_CONN_CLOSED;
    settle(conn, now_ns);
}

unsigned gs_http_conn_output(const struct gs_http_conn *conn, struct gs_http_piece *pieces,
                             unsigned most)
{
    const struct gs_http_output *output = conn->output;
    unsigned count = 0;
    if (!output)
        return 0;
    for (uint32_t i = output->first; i < output->count && count < most; i++)
        pieces[count++] = output->segments[i].piece;
    return count;
}

/* What waits for a slow reader takes little memory, and the rest is there, still in the processor's
 * cache, for whoever is next. */
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
    conn->moved += n;
    gs_http_output_advance(output, n);
    if (output->position < output->end) {
        gs_http_reply_flush_log(conn, false);
        compact_output(conn);
        return;
    }
    gs_http_service_count_sent(conn->service, output, now_ns);
    gs_http_conn_free_output(conn);
    if (conn->phase == GS_HTTP_PHASE_SENDING)
        conn->phase = GS_HTTP_PHASE_OVER;
    gs_http_input_resume(conn, now_ns);
    settle(conn, now_ns);
}

void gs_http_conn_abort(struct gs_http_conn *conn)
{
    conn->state = GS_HTTP_CONN_CLOSED;
    conn->phase = GS_HTTP_PHASE_CLOSED;
    conn->wants = GS_HTTP_CLOSE;
    conn->deadline_ns = GS_NEVER;
}

void gs_http_conn_shut_down(struct gs_http_conn *conn, uint64_t now_ns)
{
    conn->flags |= GS_HTTP_CONN_SHUT_DOWN;
    settle(conn, now_ns);
}

/* A transfer that has moved enough since its window began gets another. Bytes that were taken
 * before the window and are still on their way make the count too small; then the window is not
 * judged. */
static bool is_fast_enough(struct gs_http_conn *conn, uint64_t queued, uint64_t now_ns)
{
    const struct gs_http_options *options = &conn->service->options;
    uint64_t least = options->rate_least * (options->rate_window_ns / GS_MILLISECOND) / 1000;
    if (queued <= conn->moved && conn->moved - queued < least)
        return false;
    conn->moved = queued;
    conn->deadline_ns = gs_clock_after(now_ns, options->rate_window_ns);
    return true;
}

void gs_http_conn_expire(struct gs_http_conn *conn, uint64_t queued, uint64_t now_ns)
{
    bool receiving = conn->phase == GS_HTTP_PHASE_RECEIVING;
    if (now_ns < conn->deadline_ns)
        return;
    if (conn->phase == GS_HTTP_PHASE_SENDING || receiving) {
        if (is_fast_enough(conn, receiving ? 0 : queued, now_ns))
            return;
        gs_http_count(&conn->service->counts->timeouts, 1);
    } else if (conn->phase == GS_HTTP_PHASE_HEAD) {
        gs_http_count(&conn->service->counts->timeouts, 1);
    }
    if ((receiving || conn->phase == GS_HTTP_PHASE_HEAD) && !conn->output &&
        gs_http_input_refuse(conn, 408, now_ns) == GS_HTTP_ANSWERED) {
        settle(conn, now_ns);
        return;
    }
    gs_http_conn_abort(conn);
}

void gs_http_conn_drain_soon(struct gs_http_conn *conn)
{
    conn->flags |= GS_HTTP_CONN_DRAINING;
}

void gs_http_conn_drain(struct gs_http_conn *conn, uint64_t now_ns)
{
    /* Who was told that the connection stays open may be sending the next request. */
    conn->flags |= GS_HTTP_CONN_DRAINING | (gs_http_conn_is_idle(conn) ? 0 : GS_HTTP_CONN_LINGERS);
    settle(conn, now_ns);
}

struct gs_http_load *gs_http_conn_take_load(struct gs_http_conn *conn)
{
    conn->load->taken = true;
    conn->wants = (uint8_t)wants_of(conn);
    return conn->load;
}

void gs_http_conn_loaded(struct gs_http_conn *conn, struct gs_http_load *load, uint64_t now_ns)
{
    conn->load = NULL;
    if (conn->state == GS_HTTP_CONN_LOAD) {
        gs_http_input_answer(conn, load, now_ns);
        gs_http_input_resume(conn, now_ns);
    }
    gs_http_load_free(load);
    settle(conn, now_ns);
}
