#include "tls_stream/stream.h"

#include <errno.h>
#include <gossamer/io.h>

/* What is encrypted at once: the output of a peer that does not read takes no more. */
#define PART_MAX (64u << 10)

/* A thread whose sends need not wait lets others run after this time. The clock is read once in so
 * many sends. */
#define TURN_NS GS_MILLISECOND
#define TURN_SENDS 32u

int gs_tls_send_now(struct gs_tls *tls, size_t *ret_unsent)
{
    const char *bytes;
    while ((bytes = gs_tls_engine_output(tls->engine, ret_unsent), *ret_unsent)) {
        ssize_t sent = gs_send(tls->fd, bytes, *ret_unsent, 0, 0);
        if (sent < 0)
            return sent == -ETIMEDOUT ? -EAGAIN : (int)sent;
        gs_tls_engine_sent(tls->engine, (size_t)sent);
    }
    return 0;
}

struct sending {
    struct gs_tls *tls;
    const char *bytes;
    size_t n;
    bool ends;
    bool awaits_peer; /* the rest of a message of its handshake */
    int result;       /* 0; -EAGAIN: the socket is full, or it awaits the peer; or an error */
};

/* Called on the worker's stack, with the mutex: send what is left, and the next part. */
static void *send_part(void *argument)
{
    struct sending *sending = argument;
    struct gs_tls *tls = sending->tls;
    size_t n = sending->n < PART_MAX ? sending->n : PART_MAX, unsent;
    sending->result = gs_tls_send_now(tls, &unsent);
    if (sending->result)
        return NULL;
    ssize_t written = n ? gs_tls_engine_write(tls->engine, sending->bytes, n) : 0;
    if (sending->ends)
        gs_tls_engine_close(tls->engine);
    sending->result = gs_tls_send_now(tls, &unsent);
    sending->awaits_peer = !sending->result && written == -EAGAIN;
    if (sending->awaits_peer)
        atomic_store(&tls->is_awaited, true);
    if (written < 0) {
        sending->result = (int)written;
    } else if (n) {
        sending->bytes += n;
        sending->n -= n;
    }
    return NULL;
}

static void end_turn_if_due(struct gs_tls *tls, uint64_t deadline_ns)
{
    if (++tls->sends % TURN_SENDS == 0 && deadline_ns &&
        gs_clock_now() - gs_threads_now() > TURN_NS)
        gs_thread_end_turn();
}

/* As the receiver: receive once, and keep a byte of plaintext. */
static int receive_rest(struct gs_tls *tls, uint64_t deadline_ns)
{
    struct gs_tls_receiving receiving = {
        .tls = tls, .bytes = &tls->first, .n = 1, .result = -EAGAIN};
    int err = gs_tls_receive(&receiving, deadline_ns);
    tls->has_first = receiving.result > 0;
    gs_tls_release_input(tls);
    return err == -ECONNRESET ? -EPIPE : err;
}

/* Wait for the rest of a message of the peer's handshake (5. in stream.h). */
static int wait_for_peer(struct gs_tls *tls, uint64_t deadline_ns)
{
    bool is_receiver = false;
    int err = 0;
    gs_mutex_lock(&tls->mutex, GS_NEVER);
    while (!err && atomic_load(&tls->is_awaited) && !(is_receiver = gs_tls_claim_input(tls)))
        err = gs_cond_wait(&tls->progress, &tls->mutex, deadline_ns);
    gs_mutex_unlock(&tls->mutex);
    if (is_receiver)
        err = receive_rest(tls, deadline_ns);
    return err;
}

/* Returns 0 or -errno, which then holds for all further calls. */
static int send_all(struct sending *sending, uint64_t deadline_ns)
{
    struct gs_tls *tls = sending->tls;
    bool is_done = false;
    while (!tls->send_error && !is_done) {
        gs_tls_call(tls, send_part, sending);
        is_done = !sending->result && !sending->n;
        end_turn_if_due(tls, deadline_ns);
        tls->send_error = sending->result;
        if (sending->result == -EAGAIN)
            tls->send_error = sending->awaits_peer ? wait_for_peer(tls, deadline_ns)
                                                   : gs_wait_writable(tls->fd, deadline_ns);
    }
    return tls->send_error;
}

int gs_tls_flush(struct gs_tls *tls, uint64_t deadline_ns)
{
    struct sending sending = {.tls = tls};
    return send_all(&sending, deadline_ns);
}

ssize_t gs_tls_send_all(struct gs_tls *tls, const void *bytes, size_t n, uint64_t deadline_ns)
{
    struct sending sending = {.tls = tls, .bytes = bytes, .n = n};
    int err = send_all(&sending, deadline_ns);
    return err ? err : (ssize_t)n;
}

int gs_tls_shutdown(struct gs_tls *tls, uint64_t deadline_ns)
{
    struct sending sending = {.tls = tls, .ends = true};
    return send_all(&sending, deadline_ns);
}
