#include "load/client.h"

#include "http/response.h"
#include "load/moments.h"
#include "load/worker.h"

#include <gossamer/io.h>
#include <gossamer/sys.h>

#include <errno.h>

/* A server that refuses connections is not asked again at once. */
static const uint64_t pause_after_refusal_ns = 10 * GS_MILLISECOND;

struct client {
    struct load_worker *worker;
    int fd;                 /* -1: not connected */
    bool is_counted;        /* the request is one of those of -n */
    bool is_new;            /* nothing was waited for on the connection */
    bool is_kept;           /* the connection was made for an earlier request, or ahead of any */
    size_t request;         /* index in the target's */
    uint64_t on_connection; /* answers so far */
    uint64_t connect_ns;    /* of a connection whose first answer is awaited; else LOAD_NO_TIME */
    struct load_moments at;
    struct gs_response response;
};

static void hang_up(struct client *client)
{
    if (client->fd >= 0)
        gs_close(client->fd);
    client->fd = -1;
}

/* What a call that failed with err makes of the request. When the run is over it is no matter. */
static enum load_error error_of(int err)
{
    return err == -ETIMEDOUT || err == -ECANCELED ? LOAD_TIMEOUT : LOAD_RESET;
}

/* ---- Connecting ---- */

static enum load_error fail_to_connect(struct client *client, int err)
{
    struct load_worker *worker = client->worker;
    if (err == -ETIMEDOUT || err == -ECANCELED)
        return LOAD_TIMEOUT;
    if (gs_load_worker_measures(worker, client->at.begun_ns))
        worker->tally.connect_error = err;
    return err == -ECONNRESET || err == -EPIPE ? LOAD_RESET : LOAD_CONNECT;
}

static int connect_to_server(const struct client *client)
{
    const struct load_addresses *to = &client->worker->target->addresses;
    return gs_sys_connect(client->fd, (const struct sockaddr *)&to->server, to->length);
}

/* Towards the loopback interface the connection is made on return, otherwise it is under way. */
static int begin_to_connect(struct client *client)
{
    struct load_worker *worker = client->worker;
    client->on_connection = 0;
    client->connect_ns = LOAD_NO_TIME;
    client->is_new = true;
    client->is_kept = false;
    client->fd = gs_load_addresses_socket(&worker->target->addresses, worker->sources_used++);
    if (client->fd < 0)
        return client->fd;
    int err = connect_to_server(client);
    return err == -EINPROGRESS ? 0 : err;
}

static void note_connection(struct client *client, uint64_t begun_ns, uint64_t made_ns)
{
    client->connect_ns = made_ns - begun_ns;
    if (gs_load_worker_measures(client->worker, made_ns))
        client->worker->tally.connections++;
}

/* To connect again tells how far it is. */
static int wait_until_connected(struct client *client, uint64_t deadline_ns)
{
    int err = connect_to_server(client);
    while (err == -EALREADY) {
        client->is_new = false;
        err = gs_wait_writable(client->fd, deadline_ns);
        if (!err)
            err = connect_to_server(client);
    }
    return err;
}

/* A connection that is to be kept need not wait for the first request. If it can't be made, that
 * request will tell. */
static void connect_ahead(struct client *client)
{
    uint64_t begun_ns = gs_clock_now();
    int err = begin_to_connect(client);
    if (!err)
        err = wait_until_connected(client,
                                   gs_clock_after(begun_ns, client->worker->settings->timeout_ns));
    if (err) {
        hang_up(client);
        return;
    }
    client->is_kept = true;
    note_connection(client, begun_ns, gs_clock_now());
}

/* ---- Sending ---- */

static bool is_last_on_connection(const struct client *client)
{
    uint64_t limit = client->worker->settings->requests_per_connection;
    return limit && client->on_connection + 1 >= limit;
}

static const char *request_of(const struct client *client, size_t *ret_length)
{
    const struct load_request *request = &client->worker->target->requests[client->request];
    bool is_last = is_last_on_connection(client);
    *ret_length = is_last ? request->last_length : request->length;
    return is_last ? request->last_bytes : request->bytes;
}

static enum load_error send_request(struct client *client)
{
    size_t length;
    const char *bytes = request_of(client, &length);
    uint64_t deadline_ns = gs_clock_after(client->at.sent_ns, client->worker->settings->timeout_ns);
    ssize_t n = gs_send_all(client->fd, bytes, length, deadline_ns);
    return n < 0 ? error_of((int)n) : LOAD_RIGHT;
}

/* The connection is made once a part of the request can be sent, which is tried at once. Returns how
 * much that was, or -errno. */
static ssize_t send_first(struct client *client, const char *bytes, size_t length,
                          uint64_t deadline_ns)
{
    for (;;) {
        client->at.sent_ns = gs_clock_now();
        ssize_t n = gs_send(client->fd, bytes, length, 0, 0);
        if (n != -ETIMEDOUT)
            return n;
        client->is_new = false;
        int err = gs_wait_writable(client->fd, deadline_ns);
        if (err)
            return err;
    }
}

static enum load_error connect_and_send(struct client *client)
{
    const struct load_settings *settings = client->worker->settings;
    uint64_t begun_ns = gs_clock_now();
    int err = begin_to_connect(client);
    if (err)
        return fail_to_connect(client, err);
    size_t length;
    const char *bytes = request_of(client, &length);
    ssize_t n = send_first(client, bytes, length, gs_clock_after(begun_ns, settings->timeout_ns));
    if (n < 0)
        return fail_to_connect(client, (int)n);
    note_connection(client, begun_ns, client->at.sent_ns);
    if ((size_t)n == length)
        return LOAD_RIGHT;
    n = gs_send_all(client->fd, bytes + n, length - (size_t)n,
                    gs_clock_after(client->at.sent_ns, settings->timeout_ns));
    return n < 0 ? error_of((int)n) : LOAD_RIGHT;
}

/* ---- Receiving ---- */

/* What was not known of a right answer, the first one tells. */
static enum load_error judge(struct client *client)
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

/* Some bytes have come, which are read into the answer. Whether it is one. */
static bool take_in(struct client *client, size_t n)
{
    struct load_worker *worker = client->worker;
    client->at.end_ns = gs_clock_now();
    if (client->at.first_byte_ns == LOAD_NO_TIME)
        client->at.first_byte_ns = client->at.end_ns;
    if (gs_load_worker_measures(worker, client->at.end_ns))
        worker->tally.bytes += n;
    return gs_response_feed(&client->response, worker->buffer, n) == (ssize_t)n;
}

static enum load_error end_with_connection(struct client *client)
{
    if (gs_response_end(&client->response))
        return LOAD_CLOSED;
    client->at.end_ns = gs_clock_now();
    return judge(client);
}

/* The buffer is the worker's: nobody else runs between the receive and the end of its use. */
static enum load_error read_answer(struct client *client)
{
    struct load_worker *worker = client->worker;
    uint64_t deadline_ns = gs_clock_after(client->at.sent_ns, worker->settings->timeout_ns);
    gs_response_init(&client->response, worker->is_head);
    client->at.first_byte_ns = LOAD_NO_TIME;
    if (client->is_new) {
        /* Even if the answer is there already, others get their turn. */
        int err = gs_wait_readable(client->fd, deadline_ns);
        if (err)
            return error_of(err);
        client->is_new = false;
    }
    do {
        ssize_t n = gs_recv(client->fd, worker->buffer, LOAD_BUFFER, 0, deadline_ns);
        if (n < 0)
            return error_of((int)n);
        if (n == 0)
            return end_with_connection(client);
        if (!take_in(client, (size_t)n))
            return LOAD_PARSE;
    } while (!gs_response_is_done(&client->response));
    return judge(client);
}

/* ---- A request ---- */

static enum load_error ask_once(struct client *client)
{
    enum load_error problem = client->fd < 0 ? connect_and_send(client) : send_request(client);
    return problem == LOAD_RIGHT ? read_answer(client) : problem;
}

/* The server may close a kept connection while a request is on its way: that is nobody's fault. */
static bool was_closed_before(const struct client *client, enum load_error problem)
{
    return (problem == LOAD_CLOSED || problem == LOAD_RESET) && client->is_kept &&
           !gs_response_has_begun(&client->response);
}

static enum load_error ask(struct client *client)
{
    struct load_worker *worker = client->worker;
    client->request = worker->next_request;
    worker->next_request =
        client->request + 1 == worker->target->request_count ? 0 : client->request + 1;
    client->at.begun_ns = client->at.sent_ns = gs_clock_now();
    gs_response_init(&client->response, worker->is_head);
    enum load_error problem = ask_once(client);
    if (was_closed_before(client, problem)) {
        if (gs_load_worker_measures(worker, client->at.begun_ns))
            worker->tally.resent++;
        hang_up(client);
        problem = ask_once(client);
    }
    return problem;
}

static void note_cut_off(struct client *client)
{
    struct load_worker *worker = client->worker;
    if (!client->is_kept && client->connect_ns == LOAD_NO_TIME)
        gs_load_tally_waiting(&worker->tally.to_connect, client->at.begun_ns, worker->ended_ns);
    else
        gs_load_tally_waiting(&worker->tally.for_answer, client->at.sent_ns, worker->ended_ns);
}

static void count(struct client *client, enum load_error problem)
{
    struct load_worker *worker = client->worker;
    if (worker->is_over && problem == LOAD_TIMEOUT)
        note_cut_off(client);
    if (problem != LOAD_RIGHT)
        client->at.end_ns = gs_clock_now();
    struct load_sample sample = gs_load_moments_sample(&client->at, client->connect_ns);
    client->connect_ns = LOAD_NO_TIME;
    if (problem == LOAD_RIGHT)
        gs_load_pace_answer(&worker->pace, sample.service_ns);
    if (!gs_load_worker_counts(worker, client->is_counted, client->at.end_ns))
        return;
    worker->tally.queued += gs_load_moments_queued(&client->at);
    if (problem == LOAD_RIGHT)
        gs_load_tally_answer(&worker->tally, &sample);
    else
        gs_load_tally_error(&worker->tally, problem, &sample);
}

static void keep_or_hang_up(struct client *client, enum load_error problem)
{
    bool is_answer = problem == LOAD_RIGHT || problem == LOAD_STATUS || problem == LOAD_LENGTH;
    if (!is_answer || !client->response.keep_alive || is_last_on_connection(client))
        hang_up(client);
    client->on_connection++;
    client->is_kept = true;
}

/* ---- Between requests ---- */

static void rest(struct client *client, uint64_t until_ns)
{
    if (client->fd >= 0) {
        client->is_new = false;
        ssize_t n = gs_recv(client->fd, client->worker->buffer, LOAD_BUFFER, 0, until_ns);
        if (n == -ETIMEDOUT || n == -ECANCELED)
            return;
        hang_up(client); /* as the server did */
    }
    gs_thread_sleep(until_ns);
}

/* In an open loop: when the next request is due. One that fails may not have waited for anything. */
static bool wait_until_due(struct client *client, enum load_error problem)
{
    struct load_worker *worker = client->worker;
    client->at.due_ns = gs_load_schedule_next(&worker->schedule);
    client->at.free_ns = gs_clock_now();
    if (!gs_load_worker_claim(worker, client->at.due_ns, &client->is_counted))
        return false;
    if (client->at.free_ns < client->at.due_ns)
        rest(client, client->at.due_ns);
    else if (problem != LOAD_RIGHT)
        gs_thread_yield();
    return !worker->is_over;
}

/* In a closed loop: after a pause, but for the first. */
static bool think(struct client *client, enum load_error problem)
{
    struct load_worker *worker = client->worker;
    bool is_first = !client->at.sent_ns;
    uint64_t pause_ns = is_first ? 0 : worker->settings->think_ns;
    if (problem == LOAD_CONNECT && pause_ns < pause_after_refusal_ns)
        pause_ns = pause_after_refusal_ns;
    if (pause_ns)
        rest(client, gs_clock_after(client->at.end_ns, pause_ns));
    uint64_t now_ns = pause_ns ? gs_clock_now() : client->at.end_ns;
    return gs_load_worker_claim(worker, now_ns, &client->is_counted);
}

static bool wait_for_turn(struct client *client, enum load_error problem)
{
    return client->worker->settings->rate ? wait_until_due(client, problem)
                                          : think(client, problem);
}

void *gs_load_client_run(void *worker)
{
    struct client client = {.worker = worker, .fd = -1, .connect_ns = LOAD_NO_TIME};
    const struct load_settings *settings = client.worker->settings;
    enum load_error problem = LOAD_RIGHT;
    client.at.due_ns = client.at.free_ns = LOAD_NO_TIME;
    client.at.end_ns = gs_clock_now();
    if (settings->rate && settings->requests_per_connection != 1)
        connect_ahead(&client);
    while (wait_for_turn(&client, problem)) {
        problem = ask(&client);
        count(&client, problem);
        keep_or_hang_up(&client, problem);
    }
    hang_up(&client);
    return NULL;
}
