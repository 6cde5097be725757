#include "websocket_stream/stream.h"

#include <errno.h>
#include <gossamer/error.h>
#include <gossamer/io.h>
#include <stdlib.h>

/* ---- The end ---- */

static int end(struct gs_websocket *socket, int failure, const char *error)
{
    socket->failure = failure;
    socket->error = error;
    return failure;
}

/* Tell the peer why. */
static __attribute__((noinline)) int fail(struct gs_websocket *socket, unsigned code, int failure,
                                          const char *error)
{
    uint64_t deadline_ns = gs_clock_after(gs_clock_now(), GS_WEBSOCKET_ANSWER_NS);
    struct gs_http_text reason = {error, strlen(error)};
    (void)!gs_websocket_send_close(socket, code, reason, deadline_ns);
    return end(socket, failure, error);
}

static int fail_memory(struct gs_websocket *socket)
{
    return fail(socket, GS_WEBSOCKET_INTERNAL_ERROR, -ENOMEM, "there is not enough memory");
}

static __attribute__((noinline)) int take_close(struct gs_websocket *socket,
                                                const struct gs_websocket_piece *reason)
{
    uint64_t deadline_ns = gs_clock_after(gs_clock_now(), GS_WEBSOCKET_ANSWER_NS);
    socket->has_received_close = true;
    socket->end_code = socket->parser.code;
    socket->end_reason = reason->n ? strndup(reason->bytes, reason->n) : NULL;
    (void)!gs_websocket_send_close(socket, socket->end_code, (struct gs_http_text){0}, deadline_ns);
    return end(socket, -ENODATA, "the peer has closed the connection");
}

/* ---- Receiving bytes ---- */

/* Where bytes of a message go, directly if nothing else can come. */
struct into {
    char *bytes; /* NULL: to the input */
    size_t n;
};

static void drop_input(struct gs_websocket *socket)
{
    free(socket->input);
    socket->input = NULL;
    socket->input_start = socket->input_end = 0;
}

static ssize_t receive_once(struct gs_websocket *socket, const struct into *into,
                            uint64_t deadline_ns)
{
    return into->bytes ? gs_websocket_recv(socket, into->bytes, into->n, deadline_ns)
                       : gs_websocket_recv_input(socket, deadline_ns);
}

/* How often it is asked whether a window of HTTP/2 has opened. */
#define WINDOW_NS (100 * GS_MILLISECOND)

/* There is a pong for which a window has no room. */
static __attribute__((noinline)) ssize_t receive_with_window(struct gs_websocket *socket,
                                                             const struct into *into,
                                                             uint64_t deadline_ns)
{
    ssize_t n;
    bool is_last;
    do {
        uint64_t next_ns = gs_clock_after(gs_clock_now(), WINDOW_NS);
        is_last = deadline_ns <= next_ns;
        n = receive_once(socket, into, is_last ? deadline_ns : next_ns);
    } while (n == -ETIMEDOUT && !is_last && !gs_websocket_send_pong(socket));
    return n == -ETIMEDOUT && !is_last ? receive_once(socket, into, deadline_ns) : n;
}

/* How long a sender may have the mutex although the socket has room, before we look again:
 * usually it is about to use the room, but with TLS it may have to wait for what is received. */
#define SENDER_NS GS_MILLISECOND

/* There is a pong that could not be sent (2. in stream.h). Plaintext may be there without an event.
 */
static __attribute__((noinline)) ssize_t receive_with_pong(struct gs_websocket *socket,
                                                           const struct into *into,
                                                           uint64_t deadline_ns)
{
    if (socket->transport.stream)
        return receive_with_window(socket, into, deadline_ns);
    struct gs_poll poll = {.fd = socket->transport.fd, .events = GS_READ | GS_WRITE};
    ssize_t n;
    while ((n = receive_once(socket, into, 0)) == -ETIMEDOUT) {
        int ready = gs_poll(&poll, 1, deadline_ns);
        if (ready < 0)
            return ready;
        if (gs_websocket_send_pong(socket))
            return receive_once(socket, into, deadline_ns);
        uint64_t now_ns = gs_clock_now();
        if (now_ns >= deadline_ns)
            return -ETIMEDOUT;
        (void)!gs_wait_readable(poll.fd, gs_clock_after(now_ns, SENDER_NS));
    }
    return n;
}

/* Nothing has been received for the time of keepalive. */
static __attribute__((noinline)) int keep_alive(struct gs_websocket *socket)
{
    if (socket->is_pinged)
        return end(socket, -ECONNRESET, "the peer has not answered a ping");
    socket->is_pinged = gs_websocket_try_ping(socket);
    socket->received_ns = gs_clock_now();
    return 0;
}

static uint64_t next_ping(const struct gs_websocket *socket)
{
    return socket->keepalive_ns ? gs_clock_after(socket->received_ns, socket->keepalive_ns)
                                : GS_NEVER;
}

static int end_of_bytes(struct gs_websocket *socket, ssize_t n)
{
    if (n == -ETIMEDOUT || n == -ECANCELED)
        return (int)n;
    return n ? end(socket, (int)n, gs_strerror((int)n))
             : end(socket, -ECONNRESET, "the connection has ended without a close");
}

/* Returns how many bytes, or -errno, which is final unless it is -ETIMEDOUT or -ECANCELED. */
static ssize_t receive(struct gs_websocket *socket, const struct into *into, uint64_t deadline_ns)
{
    for (;;) {
        uint64_t ping_ns = next_ping(socket);
        uint64_t until_ns = ping_ns < deadline_ns ? ping_ns : deadline_ns;
        bool has_room = !atomic_load(&socket->has_pong) || gs_websocket_send_pong(socket);
        ssize_t n = has_room ? receive_once(socket, into, until_ns)
                             : receive_with_pong(socket, into, until_ns);
        if (n > 0)
            return n;
        if (n != -ETIMEDOUT || ping_ns >= deadline_ns)
            return end_of_bytes(socket, n);
        int err = keep_alive(socket);
        if (err)
            return err;
    }
}

/* ---- Events ---- */

static enum gs_websocket_event parse_input(struct gs_websocket *socket, size_t max,
                                           struct gs_websocket_piece *ret_piece)
{
    if (!socket->input)
        return GS_WEBSOCKET_MORE;
    size_t n = socket->input_end - socket->input_start;
    struct gs_websocket_input input = {socket->input + socket->input_start, n};
    enum gs_websocket_event event =
        gs_websocket_parser_next(&socket->parser, &input, max, ret_piece);
    socket->input_start += n - input.n;
    return event;
}

/* Receive more, and parse what went directly to its place. */
static int receive_more(struct gs_websocket *socket, struct into into, uint64_t deadline_ns,
                        struct gs_websocket_piece *ret_piece)
{
    struct gs_websocket_parser *parser = &socket->parser;
    drop_input(socket);
    if (into.n > parser->left)
        into.n = (size_t)parser->left;
    if (!into.n)
        into.bytes = NULL;
    ssize_t n = receive(socket, &into, deadline_ns);
    if (n < 0)
        return (int)n;
    if (socket->keepalive_ns)
        socket->received_ns = gs_clock_now();
    socket->is_pinged = false;
    struct gs_websocket_input input = {into.bytes, (size_t)n};
    return into.bytes ? (int)gs_websocket_parser_next(parser, &input, (size_t)n, ret_piece)
                      : GS_WEBSOCKET_MORE;
}

/* Returns the next event of a message, or -errno. */
static int advance(struct gs_websocket *socket, struct into into, uint64_t deadline_ns,
                   struct gs_websocket_piece *ret_piece)
{
    size_t max = into.bytes ? into.n : SIZE_MAX;
    int event = (int)parse_input(socket, max, ret_piece);
    for (;;) {
        if (event == GS_WEBSOCKET_BEGIN || event == GS_WEBSOCKET_DATA || event < 0)
            return event;
        if (event == GS_WEBSOCKET_CLOSE)
            return take_close(socket, ret_piece);
        if (event == GS_WEBSOCKET_FAILED)
            return fail(socket, socket->parser.code,
                        socket->parser.code == GS_WEBSOCKET_TOO_LARGE ? -EMSGSIZE : -EPROTO,
                        socket->parser.failure);
        if (event == GS_WEBSOCKET_PING)
            gs_websocket_answer_ping(socket, ret_piece->bytes, ret_piece->n);
        if (event == GS_WEBSOCKET_MORE)
            event = receive_more(socket, into, deadline_ns, ret_piece);
        else
            event = GS_WEBSOCKET_MORE;
        if (event == GS_WEBSOCKET_MORE)
            event = (int)parse_input(socket, max, ret_piece);
    }
}

/* ---- Messages ---- */

#define GROWTH_MIN 64u
#define GROWTH_MAX (64u << 10)

static void drop_message(struct gs_websocket *socket)
{
    free(socket->message);
    socket->message = NULL;
    socket->message_n = socket->message_size = socket->message_start = 0;
}

/* Make room for at least one byte, and the NUL: for the rest of the frame, but for no more than has
 * arrived; and for half as much as that if the frames are small. Returns false without memory. */
static bool make_room(struct gs_websocket *socket)
{
    if (socket->message_size - socket->message_n > 1)
        return true;
    size_t most = socket->message_n > GROWTH_MAX ? socket->message_n : GROWTH_MAX;
    size_t least = socket->message_n / 2 > GROWTH_MIN ? socket->message_n / 2 : GROWTH_MIN;
    size_t more = socket->parser.left < most ? (size_t)socket->parser.left : most;
    size_t size = socket->message_n + (more > least ? more : least) + 1;
    char *message = realloc(socket->message, size);
    if (!message)
        return false;
    socket->message = message;
    socket->message_size = size;
    return true;
}

/* Returns 0 or -errno. *ret_is_text: what a text must be: UTF-8. */
static int decompress(struct gs_websocket *socket, struct gs_websocket_coding *coding,
                      bool *ret_is_text)
{
    struct gs_websocket_utf8 utf8 = {0};
    size_t checked = 0;
    int result;
    *ret_is_text = true;
    do {
        result = gs_websocket_code_part(coding);
        if (result < 0)
            return result;
        if (socket->type == GS_WEBSOCKET_TEXT)
            *ret_is_text &=
                gs_websocket_utf8_check(&utf8, coding->output + checked, coding->n - checked);
        checked = coding->n;
    } while (result);
    *ret_is_text &= gs_websocket_utf8_is_complete(&utf8);
    return 0;
}

static __attribute__((noinline)) int decompress_message(struct gs_websocket *socket)
{
    struct gs_websocket_coding coding = {.input = {socket->message, socket->message_n},
                                         .max = socket->max_message};
    bool is_text;
    int err = decompress(socket, &coding, &is_text);
    if (err == -EMSGSIZE)
        return fail(socket, GS_WEBSOCKET_TOO_LARGE, -EMSGSIZE, "a message is too long");
    if (err == -EPROTO)
        return fail(socket, GS_WEBSOCKET_MALFORMED, -EPROTO, "a message is not compressed right");
    if (err)
        return fail_memory(socket);
    drop_message(socket);
    socket->message = coding.output;
    socket->message_n = coding.n;
    return is_text ? 0 : fail(socket, GS_WEBSOCKET_MALFORMED, -EPROTO, "a text is not UTF-8");
}

/* Collect the rest of a message. */
static int collect(struct gs_websocket *socket, uint64_t deadline_ns)
{
    struct gs_websocket_piece piece = {0};
    while (!piece.is_last) {
        if (!make_room(socket))
            return fail_memory(socket);
        struct into into = {socket->message + socket->message_n,
                            socket->message_size - socket->message_n - 1};
        int event = advance(socket, into, deadline_ns, &piece);
        if (event < 0)
            return event;
        if (piece.n && piece.bytes != into.bytes)
            memcpy(into.bytes, piece.bytes, piece.n);
        socket->message_n += piece.n;
    }
    if (socket->parser.is_compressed)
        return decompress_message(socket);
    socket->message[socket->message_n] = '\0';
    return 0;
}

/* Discard the rest of a message that was read in parts. */
static int discard(struct gs_websocket *socket, uint64_t deadline_ns)
{
    struct gs_websocket_piece piece = {0};
    if (socket->reading == GS_WEBSOCKET_READS_PARTS)
        socket->reading = GS_WEBSOCKET_READS_REST;
    while (socket->reading == GS_WEBSOCKET_READS_REST) {
        int event = advance(socket, (struct into){0}, deadline_ns, &piece);
        if (event < 0)
            return event;
        if (piece.is_last)
            socket->reading = GS_WEBSOCKET_READS_NONE;
    }
    return 0;
}

/* Wait for the beginning of a message, unless one is being collected. */
static int begin(struct gs_websocket *socket, uint64_t deadline_ns)
{
    struct gs_websocket_piece piece;
    int err = socket->failure;
    if (err || socket->reading == GS_WEBSOCKET_READS_WHOLE)
        return err;
    drop_message(socket);
    if (socket->reading == GS_WEBSOCKET_READS_KEPT)
        socket->reading = GS_WEBSOCKET_READS_NONE;
    err = discard(socket, deadline_ns);
    if (err)
        return err;
    int event = advance(socket, (struct into){0}, deadline_ns, &piece);
    if (event < 0)
        return event;
    socket->reading = GS_WEBSOCKET_READS_WHOLE;
    socket->type = socket->parser.type;
    return 0;
}

int gs_websocket_receive(struct gs_websocket *socket, struct gs_websocket_message *ret_message,
                         uint64_t deadline_ns)
{
    int err = begin(socket, deadline_ns);
    if (!err)
        err = collect(socket, deadline_ns);
    if (err)
        return err;
    socket->reading = GS_WEBSOCKET_READS_NONE;
    *ret_message = (struct gs_websocket_message){
        .type = socket->type, .bytes = socket->message, .n = socket->message_n};
    return 0;
}

/* ---- Parts ---- */

int gs_websocket_next(struct gs_websocket *socket, enum gs_websocket_type *ret_type,
                      uint64_t deadline_ns)
{
    int err = begin(socket, deadline_ns);
    if (err)
        return err;
    bool is_kept = socket->message || socket->parser.is_compressed;
    err = is_kept ? collect(socket, deadline_ns) : 0;
    if (err)
        return err;
    socket->reading = is_kept ? GS_WEBSOCKET_READS_KEPT : GS_WEBSOCKET_READS_PARTS;
    *ret_type = socket->type;
    return 0;
}

static size_t read_kept(struct gs_websocket *socket, void *bytes, size_t n)
{
    size_t left = socket->message_n - socket->message_start;
    if (n > left)
        n = left;
    memcpy(bytes, socket->message + socket->message_start, n);
    socket->message_start += n;
    return n;
}

ssize_t gs_websocket_read(struct gs_websocket *socket, void *bytes, size_t n, uint64_t deadline_ns)
{
    struct gs_websocket_piece piece;
    if (socket->failure)
        return socket->failure;
    if (socket->reading == GS_WEBSOCKET_READS_KEPT)
        return (ssize_t)read_kept(socket, bytes, n);
    if (socket->reading != GS_WEBSOCKET_READS_PARTS || !n)
        return 0;
    int event = advance(socket, (struct into){bytes, n}, deadline_ns, &piece);
    if (event < 0)
        return event;
    if (piece.n && piece.bytes != bytes)
        memcpy(bytes, piece.bytes, piece.n);
    if (piece.is_last)
        socket->reading = GS_WEBSOCKET_READS_NONE;
    return (ssize_t)piece.n;
}
