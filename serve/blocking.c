#include "serve/blocking.h"

#include <gossamer/sys.h>

/* On the stack; what is not received into is not touched. */
#define RECEIVE_SIZE 16384

/* Of one connection, for those who have others to serve. */
#define STEPS_MOST 64

void serve_blocking_init(struct serve_blocking *blocking, struct serve_gate *gate,
                         struct serve_shard *shard, const struct serve_arrival *arrival)
{
    const struct sockaddr *address = (const struct sockaddr *)&arrival->address;
    serve_connection_init(&blocking->base, arrival->fd, shard,
                          arrival->has_address ? address : NULL, gs_clock_now());
    blocking->gate = gate;
    blocking->limit_ns = GS_NEVER;
    blocking->is_readable = blocking->is_writable = true;
    blocking->lacks = blocking->is_draining = blocking->has_received = false;
}

void serve_blocking_close(struct serve_blocking *blocking)
{
    struct serve_shard *shard = blocking->base.shard;
    serve_connection_done(&blocking->base);
    serve_shard_settle(shard);
}

void serve_blocking_done(struct serve_blocking *blocking)
{
    serve_blocking_close(blocking);
    serve_gate_leave(blocking->gate);
}

/* ---- What needs no waiting ---- */

static void receive(struct serve_blocking *blocking, char *buffer, uint64_t now_ns)
{
    ssize_t n = serve_connection_receive(&blocking->base, buffer, RECEIVE_SIZE, now_ns);
    blocking->is_readable = n == RECEIVE_SIZE;
    blocking->has_received |= n > 0;
}

static void load(struct serve_connection *base)
{
    struct gs_http_load *load = gs_http_conn_take_load(&base->http);
    gs_http_load_run(load);
    serve_connection_loaded(base, load, gs_clock_now());
}

/* False: there is none. */
static bool step(struct serve_blocking *blocking, char *buffer, uint64_t now_ns)
{
    struct serve_connection *base = &blocking->base;
    unsigned wants = gs_http_conn_wants(&base->http);
    if (wants & GS_HTTP_WRITE && blocking->is_writable) {
        ssize_t n = serve_connection_send(base, now_ns);
        blocking->lacks = serve_connection_lacks(n);
        blocking->is_writable = n != -EAGAIN && !blocking->lacks;
    } else if (wants & GS_HTTP_LOAD) {
        load(base);
    } else if (wants & GS_HTTP_SHUTDOWN) {
        serve_connection_shut_down(base, now_ns);
    } else if (wants & GS_HTTP_READ && blocking->is_readable) {
        receive(blocking, buffer, now_ns);
    } else {
        return false;
    }
    return true;
}

/* What has come is still answered. */
static void drain(struct serve_blocking *blocking, char *buffer, uint64_t now_ns)
{
    blocking->is_draining = true;
    if (gs_http_conn_wants(&blocking->base.http) & GS_HTTP_READ)
        receive(blocking, buffer, now_ns);
    serve_connection_drain(&blocking->base, now_ns);
}

bool serve_blocking_advance(struct serve_blocking *blocking)
{
    char buffer[RECEIVE_SIZE];
    uint64_t now_ns = gs_clock_now();
    if (serve_gate_is_draining(blocking->gate) && !blocking->is_draining)
        drain(blocking, buffer, now_ns);
    unsigned steps = 0;
    while (steps < STEPS_MOST && step(blocking, buffer, now_ns))
        steps++;
    return steps == STEPS_MOST;
}

/* ---- Waiting ---- */

unsigned serve_blocking_events(const struct serve_blocking *blocking)
{
    unsigned wants = gs_http_conn_wants(&blocking->base.http);
    return (wants & GS_HTTP_READ ? POLLIN : 0) |
           (wants & GS_HTTP_WRITE && !blocking->lacks ? POLLOUT : 0);
}

static uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

uint64_t serve_blocking_deadline(const struct serve_blocking *blocking)
{
    uint64_t deadline_ns = gs_http_conn_deadline(&blocking->base.http);
    deadline_ns = earlier(deadline_ns, atomic_load(&blocking->gate->end_ns));
    if (blocking->lacks)
        deadline_ns = earlier(deadline_ns, gs_clock_now() + SERVE_LACK_PAUSE_NS);
    return earlier(deadline_ns, blocking->limit_ns);
}

void serve_blocking_limit(struct serve_blocking *blocking, uint64_t now_ns)
{
    if (now_ns < blocking->limit_ns)
        return;
    blocking->limit_ns = GS_NEVER;
    if (gs_http_conn_is_idle(&blocking->base.http))
        serve_connection_drain(&blocking->base, now_ns);
}

/* Nothing came. */
static void judge(struct serve_blocking *blocking)
{
    struct serve_connection *base = &blocking->base;
    uint64_t now_ns = gs_clock_now();
    if (now_ns >= atomic_load(&blocking->gate->end_ns)) {
        gs_http_conn_abort(&base->http);
    } else if (now_ns >= gs_http_conn_deadline(&base->http)) {
        serve_connection_expire(base, now_ns);
    } else {
        serve_blocking_limit(blocking, now_ns);
    }
}

void serve_blocking_ready(struct serve_blocking *blocking, unsigned events)
{
    if (blocking->lacks || events & (POLLOUT | POLLHUP | POLLERR))
        blocking->is_writable = true;
    if (events & (POLLIN | POLLHUP | POLLERR))
        blocking->is_readable = true;
    blocking->lacks = false;
    if (!events)
        judge(blocking);
}

void serve_blocking_wait(struct serve_blocking *blocking)
{
    serve_shard_settle(blocking->base.shard);
    uint64_t now_ns = gs_clock_now(), deadline_ns = serve_blocking_deadline(blocking);
    struct pollfd polls[] = {
        {.fd = blocking->base.fd, .events = (short)serve_blocking_events(blocking)},
        {.fd = blocking->is_draining ? -1 : blocking->gate->ending_fd, .events = POLLIN},
    };
    uint64_t timeout_ns = deadline_ns == GS_NEVER ? GS_NEVER
                          : deadline_ns > now_ns  ? deadline_ns - now_ns
                                                  : 0;
    int n = gs_sys_poll(polls, 2, timeout_ns);
    if (n <= 0 || !polls[1].revents)
        serve_blocking_ready(blocking, n > 0 ? (unsigned)polls[0].revents : 0);
}

void serve_blocking_run(struct serve_blocking *blocking)
{
    while (!serve_blocking_is_over(blocking))
        if (!serve_blocking_advance(blocking) && !serve_blocking_is_over(blocking))
            serve_blocking_wait(blocking);
}
