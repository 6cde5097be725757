#include "tls_stream/stream.h"

#include <errno.h>
#include <gossamer/io.h>
#include <stdlib.h>
#include <string.h>

/* ---- Input that the engine has not taken ---- */

/* There is none yet. */
static void keep(struct gs_tls *tls, const struct gs_tls_input *input)
{
    tls->input = malloc(input->n);
    if (!tls->input) {
        tls->receive_error = -ENOMEM;
        return;
    }
    memcpy(tls->input, input->bytes, input->n);
    tls->left = (struct gs_tls_input){tls->input, input->n};
}

/* ---- Decrypting: on the worker's stack, with the mutex ---- */

static void decrypt(struct gs_tls_receiving *receiving, struct gs_tls_input *input)
{
    struct gs_tls *tls = receiving->tls;
    size_t done = tls->has_first, unsent;
    ssize_t n = 1;
    if (done)
        receiving->bytes[0] = tls->first;
    tls->has_first = false;
    while (n > 0 && done < receiving->n) {
        n = gs_tls_engine_read(tls->engine, input, receiving->bytes + done, receiving->n - done);
        done += n > 0 ? (size_t)n : 0;
    }
    tls->is_drained = n == -EAGAIN;
    receiving->result = done ? (ssize_t)done : n;
    int err = gs_tls_send_now(tls, &unsent);
    tls->unsent = err == -EAGAIN ? unsent : 0; /* after other errors it can't be sent */
    if (atomic_load_explicit(&tls->is_awaited, memory_order_relaxed)) {
        atomic_store_explicit(&tls->is_awaited, false, memory_order_relaxed);
        gs_cond_signal(&tls->progress);
    }
}

static void *take(void *argument)
{
    struct gs_tls_receiving *receiving = argument;
    struct gs_tls *tls = receiving->tls;
    decrypt(receiving, &tls->left);
    if (!tls->left.n) {
        free(tls->input);
        tls->input = NULL;
    }
    return NULL;
}

void gs_tls_take(struct gs_tls_receiving *receiving)
{
    gs_tls_call(receiving->tls, take, receiving);
}

/* ---- One receiver at a time (5.) ---- */

bool gs_tls_claim_input(struct gs_tls *tls)
{
    return !atomic_exchange(&tls->has_receiver, true);
}

void gs_tls_release_input(struct gs_tls *tls)
{
    atomic_store(&tls->has_receiver, false);
    if (!atomic_load(&tls->is_awaited))
        return;
    gs_mutex_lock(&tls->mutex, GS_NEVER);
    gs_cond_signal(&tls->progress);
    gs_mutex_unlock(&tls->mutex);
}

/* The sender receives. */
static __attribute__((noinline)) int wait_for_input(struct gs_tls *tls, uint64_t deadline_ns)
{
    int err = 0;
    gs_mutex_lock(&tls->mutex, GS_NEVER);
    atomic_store(&tls->is_awaited, true);
    while (!err && !gs_tls_claim_input(tls)) {
        err = gs_cond_wait(&tls->progress, &tls->mutex, deadline_ns);
        atomic_store(&tls->is_awaited, true);
    }
    gs_mutex_unlock(&tls->mutex);
    return err;
}

/* ---- Receiving ---- */

/* A gs_received_fn; returns 1, or 0 at the end of the socket's stream. */
static ssize_t on_received(void *data, const void *bytes, size_t n)
{
    struct gs_tls_receiving *receiving = data;
    struct gs_tls *tls = receiving->tls;
    struct gs_tls_input input = {bytes, n};
    if (!n)
        return 0;
    if (!gs_mutex_lock(&tls->mutex, 0)) {
        decrypt(receiving, &input);
        gs_mutex_unlock(&tls->mutex);
    }
    if (input.n)
        keep(tls, &input);
    return 1;
}

static void *send_answers(void *argument)
{
    struct gs_tls *tls = argument;
    int err = gs_tls_send_now(tls, &tls->unsent);
    if (err != -EAGAIN)
        tls->unsent = 0;
    return NULL;
}

/* Wait until some answers can be sent, or something has arrived. */
static __attribute__((noinline)) int wait_for_either(struct gs_tls *tls, uint64_t deadline_ns)
{
    uint8_t events = tls->unsent > GS_TLS_UNSENT_MAX ? GS_WRITE : GS_READ | GS_WRITE;
    struct gs_poll poll = {.fd = tls->fd, .events = events};
    int ready = gs_poll(&poll, 1, deadline_ns);
    if (ready <= 0)
        return ready ? ready : -ETIMEDOUT;
    gs_tls_call(tls, send_answers, tls);
    return 0;
}

/* Bytes without plaintext do not prolong the call, nor keep the worker. */
static int check_limits(uint64_t deadline_ns)
{
    if (deadline_ns != GS_NEVER && gs_clock_now() >= deadline_ns)
        return -ETIMEDOUT;
    return gs_thread_sleep(0);
}

int gs_tls_receive(struct gs_tls_receiving *receiving, uint64_t deadline_ns)
{
    struct gs_tls *tls = receiving->tls;
    bool has_answers = tls->unsent;
    int err = has_answers ? wait_for_either(tls, deadline_ns) : 0;
    if (err || tls->unsent > GS_TLS_UNSENT_MAX)
        return err;
    ssize_t n = gs_recv_with(tls->fd, on_received, receiving, has_answers ? 0 : deadline_ns);
    if (n == -ETIMEDOUT && has_answers)
        return 0;
    if (n <= 0)
        return n ? (int)n : -ECONNRESET;
    if (tls->receive_error)
        return tls->receive_error;
    if (receiving->result == -EAGAIN && tls->input)
        gs_tls_take(receiving);
    return receiving->result == -EAGAIN ? check_limits(deadline_ns) : 0;
}

ssize_t gs_tls_recv(struct gs_tls *tls, void *bytes, size_t n, uint64_t deadline_ns)
{
    struct gs_tls_receiving *receiving = &tls->receiving;
    int err = 0;
    if (!n)
        return 0;
    if (!gs_tls_claim_input(tls))
        err = wait_for_input(tls, deadline_ns);
    if (err)
        return err;
    *receiving = (struct gs_tls_receiving){.tls = tls, .bytes = bytes, .n = n, .result = -EAGAIN};
    err = tls->receive_error;
    if (!err && !tls->is_drained)
        gs_tls_take(receiving);
    while (receiving->result == -EAGAIN && !err)
        err = gs_tls_receive(receiving, deadline_ns);
    ssize_t result = receiving->result;
    gs_tls_release_input(tls);
    return err ? err : result;
}
