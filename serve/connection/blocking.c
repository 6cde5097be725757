/* The loop comes first, then its steps in the order in which it asks for them. */
#include "serve/connection/blocking.h"

#include "http/http2.h"

#include <gossamer/sys.h>

/* Steps without a wait after which a connection lets others run. */
#define STEPS_MAX 16

/* A user-level thread that waits for its next request should have little on its stack, which has
 * left the cache when the thread goes on: what each request needs is a part of the loop's frame,
 * and what is called occasionally has a frame of its own. */
#define OWN_FRAME __attribute__((noinline))
#define LOOPS_FRAME inline __attribute__((always_inline))

static void shut_down(struct serve_blocking *blocking);
static void drain(struct serve_blocking *blocking);
static void load(struct serve_blocking *blocking);
static bool pause_for_memory(struct serve_blocking *blocking);
static bool send_output(struct serve_blocking *blocking, unsigned wants);
static LOOPS_FRAME bool step(struct serve_blocking *blocking);
static LOOPS_FRAME bool receive(struct serve_blocking *blocking, bool may_wait);
static bool lingered_too_long(const struct serve_blocking *blocking);
static uint64_t deadline_of(const struct serve_blocking *blocking);
static uint64_t drain_until(const struct serve_blocking *blocking);
static uint64_t idle_limit(const struct serve_blocking *blocking);

OWN_FRAME void serve_blocking_set_waits(struct serve_blocking *blocking, uint64_t waits)
{
    struct serve_entry *entry =
        blocking->calls->is_kernel ? serve_kernel_of(blocking)->entry : NULL;
    atomic_store_explicit(entry ? &entry->waits : &blocking->own_waits, waits,
                          memory_order_release);
}

/* ---- The loop ---- */

/* The time of user-level threads is when their worker last looked for events: if it has not changed
 * since the last call, the connection has not waited. */
static OWN_FRAME void yield_if_it_never_waited(struct serve_blocking *blocking)
{
    uint32_t now_ns = (uint32_t)blocking->calls->now();
    if (blocking->calls->yield && now_ns == blocking->yielded_ns)
        blocking->calls->yield();
    blocking->yielded_ns = now_ns;
}

void serve_blocking_run(struct serve_blocking *blocking)
{
    while (!serve_blocking_is_over(blocking)) {
        step(blocking);
        if (++blocking->steps % STEPS_MAX == 0)
            yield_if_it_never_waited(blocking);
    }
}

static LOOPS_FRAME bool step(struct serve_blocking *blocking)
{
    if (drain_until(blocking) != GS_NEVER && !blocking->is_draining) {
        drain(blocking);
        return true;
    }
    if (lingered_too_long(blocking)) {
        serve_blocking_wait_failed(blocking, -ETIMEDOUT);
        return true;
    }
    unsigned wants = serve_connection_wants(&blocking->base);
    if (wants & GS_HTTP_LOAD)
        load(blocking);
    else if (wants & GS_HTTP_SHUTDOWN)
        shut_down(blocking);
    else if (wants & GS_HTTP_WRITE && blocking->send_nomem)
        return pause_for_memory(blocking);
    else if (wants & GS_HTTP_WRITE)
        return send_output(blocking, wants);
    else
        return receive(blocking, true);
    return true;
}

bool serve_blocking_step(struct serve_blocking *blocking)
{
    return step(blocking);
}

/* ---- Draining, and files ---- */

/* What has already arrived is still answered. From now on waits are no longer cancelled. */
static OWN_FRAME void drain(struct serve_blocking *blocking)
{
    blocking->is_draining = blocking->is_readable = true;
    if (blocking->calls->ignore_cancel)
        blocking->calls->ignore_cancel();
    serve_connection_announce_end(&blocking->base);
    if (serve_connection_wants(&blocking->base) & GS_HTTP_READ)
        receive(blocking, false);
    serve_connection_drain(&blocking->base, blocking->calls->now());
}

/* With TLS, sending needs more stack than a waiting thread should have, and so does HTTP/2. */
static OWN_FRAME void call(struct serve_blocking *blocking, void *(*fn)(void *data), void *data)
{
    bool is_large = blocking->base.tls || gs_http2_speaks(&blocking->base.http);
    if (is_large && blocking->calls->call)
        blocking->calls->call(fn, data);
    else
        fn(data);
}

struct loaded {
    struct serve_blocking *blocking;
    struct gs_http_load *load;
};

static void *note_loaded(void *data)
{
    const struct loaded *loaded = data;
    struct serve_blocking *blocking = loaded->blocking;
    serve_connection_loaded(&blocking->base, loaded->load, blocking->calls->now());
    return NULL;
}

static OWN_FRAME void load(struct serve_blocking *blocking)
{
    struct gs_http_load *load = gs_http_conn_take_load(&blocking->base.http);
    blocking->calls->load(load);
    call(blocking, note_loaded, &(struct loaded){blocking, load});
}

static void *shut_down_here(void *data)
{
    struct serve_blocking *blocking = data;
    serve_connection_shut_down(&blocking->base, blocking->calls->now());
    return NULL;
}

static OWN_FRAME void shut_down(struct serve_blocking *blocking)
{
    call(blocking, shut_down_here, blocking);
}

/* ---- Sending ---- */

struct sending {
    struct serve_blocking *blocking;
    const struct serve_output *output;
    ssize_t n;
};

static void *note_sent(void *data)
{
    const struct sending *sending = data;
    struct serve_blocking *blocking = sending->blocking;
    serve_connection_sent(&blocking->base, sending->output, sending->n, blocking->calls->now());
    return NULL;
}

/* Send, by the deadline, and note the result. With the deadline 0, -EAGAIN: there is no room.
 * -ETIMEDOUT and -ECANCELED are not noted: the wait has failed. */
static ssize_t send_by(struct serve_blocking *blocking, struct serve_output *output,
                       uint64_t deadline_ns)
{
    ssize_t n = blocking->calls->send(blocking, output, deadline_ns);
    if (n == -ETIMEDOUT && !deadline_ns)
        n = -EAGAIN;
    if (n == -ETIMEDOUT || n == -ECANCELED)
        return n;
    blocking->send_nomem = serve_is_nomem(n);
    call(blocking, note_sent, &(struct sending){blocking, output, n});
    return n;
}

/* Wait for room, or for bytes if HTTP wants these, too: the peer may send before it receives.
 * Returns whether there is room. */
static bool wait_for_room(struct serve_blocking *blocking, unsigned wants)
{
    if (!(wants & GS_HTTP_READ))
        return true;
    int ready = blocking->calls->wait(blocking, POLLIN | POLLOUT, deadline_of(blocking));
    if (ready < 0)
        serve_blocking_wait_failed(blocking, ready);
    else if (!(ready & POLLOUT))
        receive(blocking, true);
    return ready >= 0 && ready & POLLOUT;
}

/* A client that reads as fast as it is sent to never fills the socket, so nothing waits for bytes
 * during a download: when an output of HTTP/2, which has 64 KiB, was sent and another follows, it
 * is tried to receive some. */
static OWN_FRAME void look_for_bytes(struct serve_blocking *blocking)
{
    if (!gs_http2_speaks(&blocking->base.http) ||
        serve_connection_wants(&blocking->base) != (GS_HTTP_READ | GS_HTTP_WRITE))
        return;
    blocking->is_readable = true;
    receive(blocking, false);
}

/* It is tried without waiting first if the connection must not wait, if HTTP also wants bytes (then
 * it waits for either), and for a file, whose pacing must see whether the socket is full. */
static OWN_FRAME bool send_output(struct serve_blocking *blocking, unsigned wants)
{
    struct serve_output output;
    ssize_t n = -EAGAIN;
    serve_connection_output(&blocking->base, &output);
    if (blocking->never_waits || wants & GS_HTTP_READ || output.is_file)
        n = send_by(blocking, &output, 0);
    if (n == -EAGAIN && blocking->never_waits)
        return wants & GS_HTTP_READ && receive(blocking, false);
    if (n == -EAGAIN && wait_for_room(blocking, wants))
        n = send_by(blocking, &output, deadline_of(blocking));
    if (n == -ETIMEDOUT || n == -ECANCELED)
        serve_blocking_wait_failed(blocking, n);
    if (n > 0 && wants & GS_HTTP_READ && !(output.flags & MSG_MORE))
        look_for_bytes(blocking);
    return true;
}

static OWN_FRAME bool pause_for_memory(struct serve_blocking *blocking)
{
    if (blocking->never_waits)
        return false;
    uint64_t again_ns = blocking->calls->now() + SERVE_NOMEM_PAUSE_NS;
    uint64_t deadline_ns = deadline_of(blocking);
    blocking->send_nomem = false;
    int err = blocking->calls->wait(blocking, 0, again_ns < deadline_ns ? again_ns : deadline_ns);
    if (again_ns >= deadline_ns)
        serve_blocking_wait_failed(blocking, err);
    return true;
}

/* ---- Receiving and answering ---- */

/* Returns false if it must not wait and nothing has arrived. */
static LOOPS_FRAME bool receive(struct serve_blocking *blocking, bool may_wait)
{
    serve_blocking_set_waits(blocking, serve_connection_waits(&blocking->base));
    ssize_t n = blocking->calls->receive_and_answer(blocking, may_wait ? deadline_of(blocking) : 0);
    serve_blocking_set_waits(blocking, SERVE_BUSY);
    if (n == -ETIMEDOUT && (!may_wait || blocking->never_waits))
        return false;
    if (n < 0)
        serve_blocking_wait_failed(blocking, n);
    return true;
}

/* Most answers are in memory and fit into the socket, which never blocks; the loop sends what does
 * not. */
static void send_at_once(struct serve_blocking *blocking, uint64_t now_ns)
{
    ssize_t n = serve_connection_send(&blocking->base, now_ns);
    blocking->send_nomem = serve_is_nomem(n);
}

ssize_t serve_blocking_answer(void *data, const void *bytes, size_t n)
{
    struct serve_blocking *blocking = data;
    struct serve_connection *base = &blocking->base;
    uint64_t now_ns = blocking->calls->now();
    serve_connection_received(base, bytes, (ssize_t)n, now_ns);
    blocking->has_received |= n > 0;
    if (serve_connection_wants(base) & GS_HTTP_WRITE && !serve_connection_sends_file(base))
        send_at_once(blocking, now_ns);
    return 0;
}

/* ---- Deadlines ---- */

static uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

static uint64_t drain_until(const struct serve_blocking *blocking)
{
    return blocking->calls->drain_until(blocking);
}

static uint64_t idle_limit(const struct serve_blocking *blocking)
{
    return blocking->calls->is_kernel ? serve_kernel_of(blocking)->idle_limit_ns : GS_NEVER;
}

uint64_t serve_blocking_wait_limit(const struct serve_blocking *blocking)
{
    uint64_t limit_ns = earlier(gs_http_conn_deadline(&blocking->base.http), drain_until(blocking));
    return earlier(limit_ns, idle_limit(blocking));
}

/* Of the next wait; 0: it must not wait. */
static uint64_t deadline_of(const struct serve_blocking *blocking)
{
    return blocking->never_waits ? 0 : serve_blocking_wait_limit(blocking);
}

/* A peer that never stops sending lets no wait reach its deadline. */
static bool lingered_too_long(const struct serve_blocking *blocking)
{
    return blocking->base.is_shut_down &&
           blocking->calls->now() >= serve_blocking_wait_limit(blocking);
}

OWN_FRAME void serve_blocking_wait_failed(struct serve_blocking *blocking, ssize_t err)
{
    uint64_t now_ns = blocking->calls->now();
    if (err == -ECANCELED)
        return;
    if (err == -ETIMEDOUT && now_ns >= drain_until(blocking))
        serve_connection_cut_off(&blocking->base);
    else if (err != -ETIMEDOUT)
        gs_http_conn_abort(&blocking->base.http);
    else if (now_ns >= idle_limit(blocking))
        serve_kernel_check_idle(serve_kernel_of(blocking), now_ns);
    else
        serve_connection_expire(&blocking->base, now_ns);
}

/* ---- The start ---- */

void serve_blocking_init(struct serve_blocking *blocking, const struct serve_blocking_calls *calls,
                         struct serve_shard *shard, const struct serve_accepted *accepted)
{
    serve_connection_init(&blocking->base, accepted, shard, calls->now());
    blocking->calls = calls;
    atomic_init(&blocking->own_waits, SERVE_BUSY);
    blocking->is_readable = true;
    blocking->is_draining = blocking->send_nomem = false;
    blocking->has_received = blocking->never_waits = false;
    blocking->steps = 0;
    blocking->yielded_ns = 0;
}
