#include "websocket_stream/stream.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/random.h>

/* ---- Frames: with the mutex ---- */

/* What a client masks at once. */
#define MASKED_MAX (64u << 10)

/* Returns whether the kernel has random bytes, of which masks are made. */
static bool set_mask(struct gs_websocket_frame *frame)
{
    frame->is_masked = true;
    return getrandom(frame->mask, sizeof frame->mask, 0) == sizeof frame->mask;
}

/* A copy of the payload is sent, part by part. */
static int transmit_masked(struct gs_websocket *socket, const struct gs_websocket_frame *frame,
                           struct gs_http_text payload, uint64_t deadline_ns, bool *ret_is_partial)
{
    char header[GS_WEBSOCKET_HEADER_MAX];
    size_t header_n = gs_websocket_frame_put(header, frame), done = 0;
    size_t size = payload.n < MASKED_MAX ? payload.n : MASKED_MAX;
    char *masked = malloc(size + 1);
    int err = masked ? 0 : -ENOMEM;
    bool is_partial = false;
    while (!err && (done < payload.n || header_n)) {
        size_t n = payload.n - done < size ? payload.n - done : size;
        if (n)
            memcpy(masked, payload.bytes + done, n);
        gs_websocket_mask(masked, n, frame->mask, done);
        struct gs_http_text part = {masked, n}, start = {header, header_n};
        if (!header_n) /* the payload goes on */
            start = part, part = (struct gs_http_text){0};
        err = gs_websocket_transmit(socket, start, part, deadline_ns, &is_partial);
        *ret_is_partial |= is_partial;
        header_n = 0;
        done += n;
    }
    free(masked);
    return err;
}

static int transmit(struct gs_websocket *socket, struct gs_websocket_frame *frame,
                    struct gs_http_text payload, uint64_t deadline_ns, bool *ret_is_partial)
{
    char header[GS_WEBSOCKET_HEADER_MAX];
    if (socket->is_client)
        return set_mask(frame)
                   ? transmit_masked(socket, frame, payload, deadline_ns, ret_is_partial)
                   : -EAGAIN;
    size_t header_n = gs_websocket_frame_put(header, frame);
    return gs_websocket_transmit(socket, (struct gs_http_text){header, header_n}, payload,
                                 deadline_ns, ret_is_partial);
}

/* Send a frame. Returns 0 or -errno. */
static int send_frame(struct gs_websocket *socket, struct gs_websocket_frame frame,
                      struct gs_http_text payload, uint64_t deadline_ns)
{
    bool is_partial = false;
    if (socket->send_error || socket->has_sent_close)
        return -EPIPE;
    frame.length = payload.n;
    int err = transmit(socket, &frame, payload, deadline_ns, &is_partial);
    bool can_go_on =
        !is_partial && (err == -ETIMEDOUT || err == -ECANCELED || err == -ENOMEM || err == -EAGAIN);
    if (err && !can_go_on)
        socket->send_error = err;
    return err;
}

static int send_control(struct gs_websocket *socket, uint8_t opcode, struct gs_http_text payload,
                        uint64_t deadline_ns)
{
    const struct gs_websocket_frame frame = {.opcode = opcode, .is_last = true};
    return send_frame(socket, frame, payload, deadline_ns);
}

static void unlock(struct gs_websocket *socket)
{
    gs_mutex_unlock(&socket->mutex);
    if (atomic_load(&socket->has_pong))
        (void)gs_websocket_send_pong(socket);
}

/* ---- Answers of the receiver ---- */

/* Whether a small frame is sent at once. */
static bool has_room(const struct gs_websocket *socket)
{
    struct pollfd poll = {.fd = socket->transport.fd, .events = POLLOUT};
    struct gs_http_upgraded *stream = socket->transport.stream;
    return gs_sys_poll(&poll, 1, 0) != 0 &&
           (!stream ||
            gs_http_upgraded_has_room(stream, GS_WEBSOCKET_HEADER_MAX + GS_WEBSOCKET_CONTROL_MAX));
}

static uint64_t answer_deadline(void)
{
    return gs_clock_after(gs_clock_now(), GS_WEBSOCKET_ANSWER_NS);
}

static __attribute__((noinline)) void send_pong(struct gs_websocket *socket)
{
    char bytes[GS_WEBSOCKET_CONTROL_MAX];
    gs_mutex_lock(&socket->pong_mutex, GS_NEVER);
    size_t n = socket->pong_n;
    memcpy(bytes, socket->pong, n);
    atomic_store(&socket->has_pong, false);
    gs_mutex_unlock(&socket->pong_mutex);
    (void)!send_control(socket, GS_WEBSOCKET_OP_PONG, (struct gs_http_text){bytes, n},
                        answer_deadline());
}

bool gs_websocket_send_pong(struct gs_websocket *socket)
{
    bool is_free = true;
    while (is_free && atomic_load(&socket->has_pong) && !gs_mutex_lock(&socket->mutex, 0)) {
        is_free = socket->send_error || has_room(socket);
        if (is_free && atomic_load(&socket->has_pong))
            send_pong(socket);
        gs_mutex_unlock(&socket->mutex);
    }
    return !atomic_load(&socket->has_pong);
}

void gs_websocket_answer_ping(struct gs_websocket *socket, const char *bytes, size_t n)
{
    gs_mutex_lock(&socket->pong_mutex, GS_NEVER);
    memcpy(socket->pong, bytes, n);
    socket->pong_n = (uint8_t)n;
    atomic_store(&socket->has_pong, true);
    gs_mutex_unlock(&socket->pong_mutex);
    (void)gs_websocket_send_pong(socket);
}

bool gs_websocket_try_ping(struct gs_websocket *socket)
{
    if (gs_mutex_lock(&socket->mutex, 0))
        return false;
    bool is_free = has_room(socket);
    if (is_free)
        (void)!send_control(socket, GS_WEBSOCKET_OP_PING, (struct gs_http_text){0},
                            answer_deadline());
    unlock(socket);
    return is_free;
}

/* ---- Closing ---- */

int gs_websocket_send_close(struct gs_websocket *socket, unsigned code, struct gs_http_text reason,
                            uint64_t deadline_ns)
{
    char payload[GS_WEBSOCKET_CONTROL_MAX];
    size_t n = code ? 2 : 0;
    payload[0] = (char)(code >> 8);
    payload[1] = (char)code;
    if (n && reason.n) {
        memcpy(payload + n, reason.bytes, reason.n);
        n += reason.n;
    }
    int err = gs_mutex_lock(&socket->mutex, deadline_ns);
    if (err)
        return err;
    if (!socket->has_sent_close) {
        err = send_control(socket, GS_WEBSOCKET_OP_CLOSE, (struct gs_http_text){payload, n},
                           deadline_ns);
        socket->has_sent_close = !err;
    }
    gs_mutex_unlock(&socket->mutex);
    return err;
}

int gs_websocket_shutdown(struct gs_websocket *socket, unsigned code, const char *reason,
                          uint64_t deadline_ns)
{
    struct gs_http_text text = {reason, reason ? strlen(reason) : 0};
    struct gs_websocket_utf8 utf8 = {0};
    bool is_valid = code ? gs_websocket_code_is_valid(code) : !text.n;
    if (!is_valid || text.n > GS_WEBSOCKET_CONTROL_MAX - 2 ||
        !gs_websocket_utf8_check(&utf8, text.bytes, text.n) ||
        !gs_websocket_utf8_is_complete(&utf8))
        return -EINVAL;
    return gs_websocket_send_close(socket, code, text, deadline_ns);
}

/* ---- Messages ---- */

/* Shorter ones seldom become smaller. */
#define COMPRESSED_MIN 64u

/* Long messages are compressed by turns, and each needs the state of a compressor meanwhile. */
static struct gs_semaphore compressors = {.count = 16};

static bool is_message(enum gs_websocket_type type, size_t n)
{
    return (type == GS_WEBSOCKET_TEXT || type == GS_WEBSOCKET_BINARY) && n <= INT64_MAX;
}

static int send_whole(struct gs_websocket *socket, struct gs_websocket_frame frame,
                      struct gs_http_text payload, uint64_t deadline_ns)
{
    int err = gs_mutex_lock(&socket->mutex, deadline_ns);
    if (err)
        return err;
    err = socket->is_in_parts && !socket->send_error
              ? -EBUSY
              : send_frame(socket, frame, payload, deadline_ns);
    unlock(socket);
    return err;
}

static __attribute__((noinline)) int send_compressed(struct gs_websocket *socket,
                                                     struct gs_websocket_frame frame,
                                                     struct gs_http_text message,
                                                     uint64_t deadline_ns)
{
    struct gs_websocket_coding coding = {
        .input = message, .level = socket->level, .bits = socket->bits};
    bool is_long = message.n > GS_WEBSOCKET_PART_MAX;
    int result = is_long ? gs_semaphore_wait(&compressors, deadline_ns) : 0;
    if (result)
        return result;
    while ((result = gs_websocket_code_part(&coding)) > 0)
        ;
    if (is_long)
        gs_semaphore_post(&compressors);
    if (result)
        return result;
    frame.is_compressed = true;
    result = send_whole(socket, frame, (struct gs_http_text){coding.output, coding.n}, deadline_ns);
    free(coding.output);
    return result;
}

int gs_websocket_send(struct gs_websocket *socket, enum gs_websocket_type type, const void *bytes,
                      size_t n, uint64_t deadline_ns)
{
    const struct gs_websocket_frame frame = {.opcode = (uint8_t)type, .is_last = true};
    struct gs_http_text message = {bytes, n};
    if (!is_message(type, n))
        return -EINVAL;
    return socket->level && n >= COMPRESSED_MIN
               ? send_compressed(socket, frame, message, deadline_ns)
               : send_whole(socket, frame, message, deadline_ns);
}

int gs_websocket_send_part(struct gs_websocket *socket, const struct gs_websocket_part *part,
                           uint64_t deadline_ns)
{
    if (!is_message(part->type, part->n))
        return -EINVAL;
    int err = gs_mutex_lock(&socket->mutex, deadline_ns);
    if (err)
        return err;
    const struct gs_websocket_frame frame = {
        .opcode = socket->is_in_parts ? GS_WEBSOCKET_OP_CONTINUATION : (uint8_t)part->type,
        .is_last = part->is_last,
    };
    err = send_frame(socket, frame, (struct gs_http_text){part->bytes, part->n}, deadline_ns);
    if (!err)
        socket->is_in_parts = !part->is_last;
    unlock(socket);
    return err;
}

int gs_websocket_ping(struct gs_websocket *socket, const void *bytes, size_t n,
                      uint64_t deadline_ns)
{
    if (n > GS_WEBSOCKET_CONTROL_MAX)
        return -EINVAL;
    int err = gs_mutex_lock(&socket->mutex, deadline_ns);
    if (err)
        return err;
    err = send_control(socket, GS_WEBSOCKET_OP_PING, (struct gs_http_text){bytes, n}, deadline_ns);
    unlock(socket);
    return err;
}
