/* For workers that have several connections: how long a connection may be idle, and what to wait
 * for where another thread does that. */
#include "serve/connection/blocking.h"

void serve_kernel_check_idle(struct serve_kernel *kernel, uint64_t now_ns)
{
    if (now_ns < kernel->idle_limit_ns)
        return;
    kernel->idle_limit_ns = GS_NEVER;
    if (gs_http_conn_is_idle(&kernel->blocking.base.http))
        serve_connection_end_idle(&kernel->blocking.base, now_ns);
}

unsigned serve_blocking_events(const struct serve_blocking *blocking)
{
    unsigned wants = serve_connection_wants(&blocking->base);
    return (wants & GS_HTTP_READ ? POLLIN : 0) |
           (wants & GS_HTTP_WRITE && !blocking->send_nomem ? POLLOUT : 0);
}

uint64_t serve_blocking_deadline(const struct serve_blocking *blocking)
{
    uint64_t limit_ns = serve_blocking_wait_limit(blocking);
    if (!blocking->send_nomem)
        return limit_ns;
    uint64_t again_ns = blocking->calls->now() + SERVE_NOMEM_PAUSE_NS;
    return again_ns < limit_ns ? again_ns : limit_ns;
}

void serve_blocking_ready(struct serve_blocking *blocking, unsigned events)
{
    serve_blocking_set_waits(blocking, SERVE_BUSY);
    blocking->send_nomem = false;
    blocking->is_readable |= (events & (POLLIN | POLLHUP | POLLERR)) != 0;
    if (!events && blocking->calls->now() >= serve_blocking_wait_limit(blocking))
        serve_blocking_wait_failed(blocking, -ETIMEDOUT);
}
