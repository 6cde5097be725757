/* A user-level thread for each connection: it receives, answers and sends, one after the other, and waits wherever it must, as if
 * it were alone.
 *
 *     listener (one a worker and address, SO_REUSEPORT)
 *        |
 *        v
 *     accepting thread            thread of a connection, which goes on on any worker
 *     +------------------+        +--------------------------------------------------+
 *     | take a place     | spawn  |  .-> receive --> HTTP --> send --.               |
 *     | accept           |------->|  |      :         :         :    |               |
 *     +------------------+        |  `------:---------:---------:----'               |
 *          ^                      +---------:---------:---------:--------------------+
 *          |                            readable    file     writable
 *          |                          (or the deadline of what is waited for)
 *          `--- a place is free again when the connection ends
 *
 * What comes and goes without waiting does so on the worker's stack. Where threads wait by completions (io_uring), the kernel receives
 * and sends for them instead, and a connection stays with its worker.
 *
 * While a connection waits, one page of memory is all that it has: its thread, and what is in `struct client`. */
#include "serve/arch/user.h"
#include "serve/connection.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>

#define RECEIVE_SIZE 65536

/* On the stack of a thread that waits by completions: a request, usually. What is longer comes without waiting. */
#define AWAITED_SIZE 1024

/* A sanitizer makes frames larger, and has calls made here that otherwise are made on the worker's stack. */
#ifndef __has_feature
#define __has_feature(feature_) 0
#endif
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STACK_SIZE 65536
#else
#define STACK_SIZE 16384
#endif

/* What is called now and then has a frame of its own, so that those who wait have little on their stacks. */
#define OWN_FRAME __attribute__((noinline))

/* Steps of one connection in one turn. */
#define STEPS_MOST 16

struct client {
    struct serve_connection base;
    struct serve_worker *worker;
    struct serve_user user;
    bool completes; /* it waits by completions */
    bool is_empty;  /* the socket, as far as is known */
    bool is_draining;
    bool lacks; /* the kernel had no memory for what is to be sent */
};

/* What its thread starts with. */
struct arrival {
    struct serve_worker *worker;
    int fd;
    bool has_address;
    struct sockaddr_storage address;
};

static uint64_t deadline_of(const struct client *client)
{
    uint64_t deadline_ns = gs_http_conn_deadline(&client->base.http);
    uint64_t end_ns = atomic_load_explicit(&client->worker->site->end_ns, memory_order_relaxed);
    return deadline_ns < end_ns ? deadline_ns : end_ns;
}

/* A wait has ended; err: without what it was for. Canceled: the server is going down, which the loop in `serve` sees. */
static void settle(struct client *client, ssize_t err)
{
    uint64_t now_ns = gs_threads_now();
    if (err == -ETIMEDOUT && now_ns < atomic_load(&client->worker->site->end_ns))
        serve_connection_expire(&client->base, now_ns);
    else if (err && err != -ECANCELED)
        gs_http_conn_abort(&client->base.http);
}

static void sent(struct client *client, const struct serve_output *output, ssize_t n)
{
    client->lacks = serve_connection_lacks(n);
    serve_connection_sent(&client->base, output, n, gs_threads_now());
}

static bool would_wait(ssize_t n)
{
    return n == -ETIMEDOUT || n == -ECANCELED;
}

/* ---- What needs no waiting ---- */

static _Thread_local char buffer[RECEIVE_SIZE];

/* False, here and below: it must be waited for. */
static bool receive_at_once(struct client *client)
{
    ssize_t n = gs_recv(client->base.fd, buffer, sizeof buffer, 0, 0);
    if (would_wait(n))
        return false;
    client->is_empty = n < RECEIVE_SIZE;
    serve_connection_received(&client->base, buffer, n, gs_threads_now());
    return true;
}

static ssize_t send_output(const struct client *client, struct serve_output *output,
                           uint64_t deadline_ns)
{
    const struct iovec *part = output->parts;
    const struct msghdr message = {.msg_iov = output->parts, .msg_iovlen = output->count};
    return output->count == 1
               ? gs_send(client->base.fd, part->iov_base, part->iov_len, output->flags, deadline_ns)
               : gs_sendmsg(client->base.fd, &message, output->flags, deadline_ns);
}

static bool send_at_once(struct client *client)
{
    struct serve_output output;
    serve_connection_output(&client->base, &output);
    ssize_t n = send_output(client, &output, 0);
    if (would_wait(n))
        return false;
    sent(client, &output, n);
    return true;
}

static bool step(struct client *client)
{
    struct serve_connection *base = &client->base;
    unsigned wants = gs_http_conn_wants(&base->http);
    bool is_awaited = client->completes && wants == GS_HTTP_WRITE;
    if (wants & GS_HTTP_WRITE && !client->lacks && !is_awaited &&
        !serve_connection_sends_file(base) && send_at_once(client))
        return true;
    if (wants & GS_HTTP_READ && !client->is_empty && receive_at_once(client))
        return true;
    if (wants & GS_HTTP_SHUTDOWN)
        serve_connection_shut_down(base, gs_threads_now());
    return wants & GS_HTTP_SHUTDOWN;
}

/* On the worker's stack, and with one buffer for all of its threads. Returns NULL, or the client: there is more to do. */
static void *advance(void *argument)
{
    for (unsigned steps = 0; step(argument); steps++)
        if (steps == STEPS_MOST)
            return argument;
    return NULL;
}

/* What the kernel has done for a thread, to be handed over on the worker's stack. */
struct completion {
    struct client *client;
    const char *bytes; /* received: n of them; NULL: sent */
    const struct serve_output *output;
    ssize_t n;
};

static void *complete(void *argument)
{
    const struct completion *completion = argument;
    struct client *client = completion->client;
    if (!completion->bytes) {
        sent(client, completion->output, completion->n);
        return NULL;
    }
    client->is_empty = completion->n < AWAITED_SIZE;
    serve_connection_received(&client->base, completion->bytes, completion->n, gs_threads_now());
    return NULL;
}

/* What has come is still answered, even if no worker has heard of it yet. */
static void *drain_at_once(void *argument)
{
    struct client *client = argument;
    gs_http_conn_drain_soon(&client->base.http);
    if (gs_http_conn_wants(&client->base.http) & GS_HTTP_READ)
        serve_connection_receive(&client->base, buffer, sizeof buffer, gs_threads_now());
    serve_connection_drain(&client->base, gs_threads_now());
    return NULL;
}

/* The server is going down. From now on waits are waits again. */
static void drain(struct client *client)
{
    client->is_draining = true;
    gs_thread_set_cancelable(false);
    gs_thread_borrow(drain_at_once, client);
}

/* ---- What may have to be waited for ---- */

/* Until it may go better. */
static OWN_FRAME void wait_for_memory(struct client *client)
{
    uint64_t again_ns = gs_threads_now() + SERVE_LACK_PAUSE_NS, deadline_ns = deadline_of(client);
    client->lacks = false;
    (void)!gs_thread_sleep(again_ns < deadline_ns ? again_ns : deadline_ns);
    if (gs_threads_now() >= deadline_ns)
        settle(client, -ETIMEDOUT);
}

static OWN_FRAME void receive(struct client *client)
{
    char bytes[AWAITED_SIZE];
    struct completion received = {.client = client, .bytes = bytes};
    received.n = gs_recv(client->base.fd, bytes, sizeof bytes, 0, deadline_of(client));
    if (would_wait(received.n))
        settle(client, received.n);
    else
        gs_thread_borrow(complete, &received);
}

static OWN_FRAME void send_memory(struct client *client)
{
    struct serve_output output;
    struct completion done = {.client = client, .output = &output};
    serve_connection_output(&client->base, &output);
    done.n = send_output(client, &output, deadline_of(client));
    if (would_wait(done.n))
        settle(client, done.n);
    else
        gs_thread_borrow(complete, &done);
}

static void wait_readable(struct client *client)
{
    settle(client, gs_wait_readable(client->base.fd, deadline_of(client)));
    client->is_empty = false;
}

static void wait_writable(struct client *client)
{
    settle(client, gs_wait_writable(client->base.fd, deadline_of(client)));
}

/* The peer may want its bytes taken before it takes ours, or the other way round. */
static OWN_FRAME void wait_for_either(struct client *client)
{
    struct gs_poll poll = {.fd = client->base.fd, .wanted = GS_READ | GS_WRITE};
    int ready = gs_poll(&poll, 1, deadline_of(client));
    if (ready <= 0)
        settle(client, ready ? ready : -ETIMEDOUT);
    else if (poll.ready & GS_WRITE)
        wait_writable(client);
    else
        wait_readable(client);
}

static OWN_FRAME void send_file(struct client *client)
{
    struct serve_connection *base = &client->base;
    struct serve_output file;
    serve_connection_output(base, &file);
    ssize_t n = gs_sendfile(base->fd, file.fd, &file.offset, file.n, 0);
    if (would_wait(n)) {
        serve_connection_sent(base, &file, -EAGAIN, gs_threads_now());
        n = gs_sendfile(base->fd, file.fd, &file.offset, file.n, deadline_of(client));
    }
    if (would_wait(n))
        settle(client, n);
    else
        sent(client, &file, n);
}

static int64_t carry_out(const struct gs_http_file_op *op)
{
    struct open_how how = {.flags = op->flags, .resolve = op->resolve};
    int64_t result;
    switch (op->kind) {
    case GS_HTTP_FILE_OPEN:
        how.resolve |= RESOLVE_CACHED;
        result = gs_sys_openat2(op->fd, op->path, &how);
        how.resolve = op->resolve;
        return result == -EAGAIN || result == -EINVAL ? gs_open(op->fd, op->path, &how, GS_NEVER)
                                                      : result;
    case GS_HTTP_FILE_STAT:
        return gs_sys_fstat(op->fd, op->stat);
    case GS_HTTP_FILE_READ:
        return gs_pread(op->fd, op->bytes, op->n, (off_t)op->offset, GS_NEVER);
    case GS_HTTP_FILE_CLOSE:
        return gs_sys_close(op->fd);
    case GS_HTTP_FILE_MAKE:
        return op->maker->make(op->bytes, op->n, op->maker->data);
    }
    return -EINVAL;
}

static OWN_FRAME void load(struct client *client)
{
    struct gs_http_load *load = gs_http_conn_take_load(&client->base.http);
    struct gs_http_file_op op;
    bool is_cancelable = gs_thread_set_cancelable(false);
    while (gs_http_load_next(load, &op))
        gs_http_load_result(load, carry_out(&op));
    gs_thread_set_cancelable(is_cancelable);
    serve_connection_loaded(&client->base, load, gs_threads_now());
}

static void wait_for_what_it_wants(struct client *client)
{
    unsigned wants = gs_http_conn_wants(&client->base.http);
    if (client->lacks)
        wait_for_memory(client);
    else if (wants & GS_HTTP_LOAD)
        load(client);
    else if (wants & GS_HTTP_WRITE && serve_connection_sends_file(&client->base))
        send_file(client);
    else if (wants == (GS_HTTP_READ | GS_HTTP_WRITE))
        wait_for_either(client);
    else if (wants & GS_HTTP_WRITE)
        client->completes ? send_memory(client) : wait_writable(client);
    else if (wants & GS_HTTP_READ)
        client->completes ? receive(client) : wait_readable(client);
}

/* ---- Its thread ---- */

static bool is_ending(const struct client *client)
{
    return atomic_load_explicit(&client->worker->site->end_ns, memory_order_relaxed) != GS_NEVER;
}

static void begin(struct client *client, struct arrival *arrival)
{
    const struct sockaddr *address = (const struct sockaddr *)&arrival->address;
    client->worker = arrival->worker;
    client->completes = arrival->worker->site->completes;
    client->is_empty = client->is_draining = client->lacks = false;
    serve_connection_init(&client->base, arrival->fd, &arrival->worker->shard,
                          arrival->has_address ? address : NULL, gs_threads_now());
    free(arrival);
    serve_user_enlist(client->worker, &client->user);
}

static void *serve(void *arrival)
{
    struct client client;
    begin(&client, arrival);
    while (!(gs_http_conn_wants(&client.base.http) & GS_HTTP_CLOSE)) {
        if (is_ending(&client) && !client.is_draining)
            drain(&client);
        if (gs_thread_borrow(advance, &client))
            gs_thread_yield();
        else
            wait_for_what_it_wants(&client);
    }
    serve_user_strike(client.worker, &client.user);
    gs_forget(client.base.fd);
    serve_connection_done(&client.base);
    gs_semaphore_post(&client.worker->site->places);
    return NULL;
}

int serve_user_arrived(void *worker, int fd, const struct sockaddr *address)
{
    const struct serve_site *site = ((struct serve_worker *)worker)->site;
    const struct gs_thread_attributes attributes = {.stack_size = STACK_SIZE,
                                                    .migrates = !site->completes};
    struct arrival *arrival = malloc(sizeof *arrival);
    if (!arrival)
        return -ENOMEM;
    *arrival = (struct arrival){.worker = worker, .fd = fd, .has_address = address};
    if (address)
        memcpy(&arrival->address, address, sizeof arrival->address);
    int err = gs_thread_spawn(&attributes, serve, arrival, NULL);
    if (err)
        free(arrival);
    return err;
}
