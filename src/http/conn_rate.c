/* Whether a peer takes and sends bytes fast enough. */
#include "http/conn.h"
#include "http/service.h"

bool gs_http_conn_is_fast_enough(struct gs_http_conn *conn, uint64_t queued, uint64_t now_ns)
{
    const struct gs_http_options *options = &conn->service->options;
    uint64_t min_bytes = options->min_rate * (options->rate_window_ns / GS_MILLISECOND) / 1000;
    if (queued <= conn->transferred && conn->transferred - queued < min_bytes)
        return false;
    conn->transferred = queued;
    conn->deadline_ns = gs_clock_after(now_ns, options->rate_window_ns);
    return true;
}

bool gs_http_conn_may_linger_on(struct gs_http_conn *conn, uint64_t queued, uint64_t now_ns)
{
    struct gs_http_lingering *so_far = gs_http_conn_lingering(conn);
    uint64_t min_bytes = conn->service->options.min_rate * (GS_HTTP_LINGER_WINDOW_NS / GS_SECOND);
    bool is_sending = conn->transferred && conn->transferred >= min_bytes;
    bool is_taking = queued && queued < so_far->queued && so_far->queued - queued >= min_bytes;
    if (now_ns >= so_far->end_ns || !(is_sending || is_taking))
        return false;
    uint64_t deadline_ns = gs_clock_after(now_ns, GS_HTTP_LINGER_WINDOW_NS);
    conn->deadline_ns = deadline_ns < so_far->end_ns ? deadline_ns : so_far->end_ns;
    conn->transferred = 0;
    so_far->queued = queued;
    return true;
}
