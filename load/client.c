#include "load/client.h"

#include "load/worker.h"

#include <gossamer/sys.h>

#include <errno.h>

enum { RETIRED, RESTING, CONNECTING, WAITING };

/* A server that refuses connections is not asked again at once. */
static const uint64_t pause_after_refusal_ns = 10 * GS_MILLISECOND;

static void begin_request(struct load_client *client);
static void connect_to_server(struct load_client *client);

static const struct load_request *request_of(const struct load_client *client)
{
    return &client->worker->target->requests[client->request];
}

/* The timer is active, so that this can't fail. */
static void set_timer(struct load_client *client, uint64_t start_ns, uint64_t wait_ns)
{
    (void)gs_timer_start(&client->timer, gs_clock_after(start_ns, wait_ns));
}

static void close_connection(struct load_client *client)
{
    if (client->fd < 0)
        return;
    gs_io_stop(&client->io);
    gs_loop_fd_closed(client->worker->loop, client->fd);
    gs_sys_close(client->fd);
    client->fd = -1;
}

static void rest(struct load_client *client, uint64_t wait_ns)
{
    client->state = RESTING;
    set_timer(client, gs_clock_now(), wait_ns);
}

/* What comes next is left to the timer, so that errors in a row don't pile up on the stack. */
static void fail(struct load_client *client, enum load_error kind)
{
    struct load_worker *worker = client->worker;
    if (gs_load_worker_counts(worker, client->is_counted))
        gs_load_tally_error(&worker->tally, kind, client->connect_ns);
    close_connection(client);
    uint64_t wait_ns = worker->settings->think_ns;
    if (kind == LOAD_CONNECT && wait_ns < pause_after_refusal_ns)
        wait_ns = pause_after_refusal_ns;
    rest(client, wait_ns);
}

/* The server may close a kept connection while a request is on its way: that is nobody's fault. */
static void fail_or_resend(struct load_client *client, enum load_error kind)
{
    if (!client->on_connection || gs_response_has_begun(&client->response)) {
        fail(client, kind);
        return;
    }
    if (client->worker->is_measuring)
        client->worker->tally.resent++;
    close_connection(client);
    connect_to_server(client);
}

/* ---- Sending ---- */

static bool is_last_on_connection(const struct load_client *client)
{
    uint64_t limit = client->worker->settings->requests_per_connection;
    return limit && client->on_connection + 1 >= limit;
}

/* Returns 0, -EAGAIN if some is left to be sent, or -errno. */
static int send_more(struct load_client *client)
{
    const struct load_request *request = request_of(client);
    bool is_last = is_last_on_connection(client);
    const char *bytes = is_last ? request->last_bytes : request->bytes;
    size_t length = is_last ? request->last_length : request->length;
    ssize_t n = gs_sys_send(client->fd, bytes + client->sent, length - client->sent, MSG_DONTWAIT);
    if (n < 0)
        return (int)n;
    client->sent += (size_t)n;
    return client->sent == length ? 0 : -EAGAIN;
}

/* The request is timed from here on. */
static void prepare_request(struct load_client *client)
{
    client->sent = 0;
    client->first_byte_ns = 0;
    gs_response_init(&client->response, client->worker->is_head);
    client->request_ns = gs_clock_now();
}

static void await_answer(struct load_client *client, bool is_unsent)
{
    client->state = WAITING;
    client->is_unsent = is_unsent;
    set_timer(client, client->request_ns, client->worker->settings->timeout_ns);
}

static void send_request(struct load_client *client)
{
    prepare_request(client);
    int err = send_more(client);
    if (!err || err == -EAGAIN)
        await_answer(client, err == -EAGAIN);
    else
        fail_or_resend(client, LOAD_RESET);
}

static void send_rest(struct load_client *client)
{
    int err = send_more(client);
    client->is_unsent = err == -EAGAIN;
    if (err && err != -EAGAIN)
        fail_or_resend(client, LOAD_RESET);
}

/* ---- Connecting ---- */

static void fail_to_connect(struct load_client *client, int err)
{
    if (client->worker->is_measuring)
        client->worker->tally.connect_error = err;
    fail(client, err == -ECONNRESET || err == -EPIPE ? LOAD_RESET : LOAD_CONNECT);
}

/* The connection is made once the request can be sent. Towards the loopback interface that is so at
 * once. */
static void send_first(struct load_client *client)
{
    struct load_worker *worker = client->worker;
    prepare_request(client);
    int err = send_more(client);
    if (err == -EAGAIN && !client->sent)
        return;
    if (err && err != -EAGAIN) {
        fail_to_connect(client, err);
        return;
    }
    client->connect_ns = client->request_ns - client->connect_begun_ns;
    if (worker->is_measuring)
        worker->tally.connections++;
    await_answer(client, err == -EAGAIN);
}

static void connect_to_server(struct load_client *client)
{
    struct load_worker *worker = client->worker;
    const struct load_addresses *addresses = &worker->target->addresses;
    client->state = CONNECTING;
    client->on_connection = 0;
    client->connect_ns = UINT64_MAX;
    client->fd = gs_load_addresses_socket(addresses, worker->sources_used++);
    if (client->fd < 0) {
        fail_to_connect(client, client->fd);
        return;
    }
    gs_io_set(&client->io, client->fd, GS_READ | GS_WRITE | GS_EDGE);
    client->connect_begun_ns = gs_clock_now();
    set_timer(client, client->connect_begun_ns, worker->settings->timeout_ns);
    int err =
        gs_sys_connect(client->fd, (const struct sockaddr *)&addresses->server, addresses->length);
    if (!err || err == -EINPROGRESS)
        err = gs_io_start(&client->io);
    if (err)
        fail_to_connect(client, err);
    else
        send_first(client);
}

/* ---- Receiving ---- */

/* What was not known of a right answer, the first one tells. */
static enum load_error judge(struct load_client *client)
{
    const struct gs_response *response = &client->response;
    struct load_expected *expected = &client->worker->expected[client->request];
    bool is_success = response->status >= 200 && response->status <= 299;
    if (expected->status == LOAD_ANY ? !is_success : response->status != expected->status)
        return LOAD_STATUS;
    if (expected->length != LOAD_ANY && response->body_bytes != expected->length)
        return LOAD_LENGTH;
    expected->status = response->status;
    expected->length = response->body_bytes;
    return LOAD_RIGHT;
}

static void finish(struct load_client *client, uint64_t now_ns, bool is_hung_up)
{
    struct load_worker *worker = client->worker;
    enum load_error problem = judge(client);
    gs_load_pace_answer(&worker->pace, now_ns - client->request_ns);
    if (gs_load_worker_counts(worker, client->is_counted)) {
        const struct load_sample sample = {.end_ns = now_ns,
                                           .response_ns = now_ns - client->request_ns,
                                           .first_byte_ns =
                                               client->first_byte_ns - client->request_ns,
                                           .connect_ns = client->connect_ns};
        if (problem == LOAD_RIGHT)
            gs_load_tally_answer(&worker->tally, &sample);
        else
            gs_load_tally_error(&worker->tally, problem, client->connect_ns);
    }
    client->connect_ns = UINT64_MAX;
    bool is_over = !client->response.keep_alive || is_hung_up || client->is_unsent;
    if (is_over || is_last_on_connection(client))
        close_connection(client);
    client->on_connection++;
    if (worker->settings->think_ns)
        rest(client, worker->settings->think_ns);
    else
        begin_request(client);
}

/* The server has closed the connection, or it broke (n < 0). */
static void lose_connection(struct load_client *client, ssize_t n)
{
    if (n == 0 && gs_response_end(&client->response) == 0)
        finish(client, gs_clock_now(), true);
    else
        fail_or_resend(client, n < 0 ? LOAD_RESET : LOAD_CLOSED);
}

/* Read until nothing is left: readiness is told by edges. A read that does not fill the buffer is
 * the last one, unless the end of the connection waits behind it. */
static void receive(struct load_client *client, bool is_hung_up)
{
    struct load_worker *worker = client->worker;
    ssize_t n;
    do {
        n = gs_sys_recv(client->fd, worker->buffer, LOAD_BUFFER, MSG_DONTWAIT);
        if (n == -EAGAIN)
            return;
        if (n <= 0) {
            lose_connection(client, n);
            return;
        }
        uint64_t now_ns = gs_clock_now();
        if (!client->first_byte_ns)
            client->first_byte_ns = now_ns;
        if (worker->is_measuring)
            worker->tally.bytes += (uint64_t)n;
        if (gs_response_feed(&client->response, worker->buffer, (size_t)n) != n) {
            fail(client, LOAD_PARSE);
            return;
        }
        if (gs_response_is_done(&client->response)) {
            finish(client, now_ns, is_hung_up);
            return;
        }
    } while (n == LOAD_BUFFER || is_hung_up);
}

/* ---- What happens to a client ---- */

/* A client that awaits an answer, or did until the rest of its request could not be sent. */
static void on_progress(struct load_client *client, unsigned events)
{
    if (client->is_unsent && (events & GS_WRITE))
        send_rest(client);
    if (client->state == WAITING && (events & (GS_READ | GS_HANGUP)))
        receive(client, events & GS_HANGUP);
}

static void on_io(struct gs_io *io, unsigned events)
{
    struct load_client *client = io->watcher.data;
    if (events & GS_FAILED) {
        fail_to_connect(client, gs_io_error(io));
        return;
    }
    switch (client->state) {
    case CONNECTING:
        send_first(client);
        if (client->state == WAITING && (events & GS_HANGUP))
            receive(client, true);
        break;
    case WAITING:
        on_progress(client, events);
        break;
    default:
        if (events & (GS_READ | GS_HANGUP))
            close_connection(client);
    }
}

static void begin_request(struct load_client *client)
{
    struct load_worker *worker = client->worker;
    if (!gs_load_worker_claim(worker, &client->is_counted)) {
        gs_load_client_stop(client);
        gs_load_worker_retire(worker);
        return;
    }
    client->request = worker->next_request;
    worker->next_request =
        client->request + 1 == worker->target->request_count ? 0 : client->request + 1;
    if (client->fd < 0)
        connect_to_server(client);
    else
        send_request(client);
}

static void on_timer(struct gs_timer *timer)
{
    struct load_client *client = timer->watcher.data;
    if (client->state == RESTING)
        begin_request(client);
    else
        fail(client, LOAD_TIMEOUT);
}

int gs_load_client_start(struct load_client *client, struct load_worker *worker)
{
    client->worker = worker;
    client->fd = -1;
    client->state = RESTING;
    client->connect_ns = UINT64_MAX;
    gs_io_init(&client->io, worker->loop, on_io);
    gs_timer_init(&client->timer, worker->loop, on_timer);
    client->io.watcher.data = client->timer.watcher.data = client;
    return gs_timer_start(&client->timer, 0);
}

void gs_load_client_stop(struct load_client *client)
{
    client->state = RETIRED;
    close_connection(client);
    gs_timer_stop(&client->timer);
}
