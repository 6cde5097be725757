#include "websocket_stream/stream.h"

#include "websocket/deflate.h"

#include <errno.h>
#include <gossamer/io.h>
#include <stdlib.h>

#define MAX_MESSAGE (1u << 20)

struct gs_websocket *gs_websocket_new(struct gs_http_transport transport,
                                      const struct gs_websocket_options *options, bool is_client)
{
    struct gs_websocket *socket = calloc(1, sizeof *socket);
    if (!socket)
        return NULL;
    socket->transport = transport;
    socket->is_client = is_client;
    socket->max_message = options->max_message ? options->max_message : MAX_MESSAGE;
    socket->keepalive_ns = options->keepalive_ns;
    socket->received_ns = gs_clock_now();
    socket->parser.is_server = !is_client;
    socket->parser.max_message = socket->max_message;
    return socket;
}

bool gs_websocket_set_agreed(struct gs_websocket *socket, struct gs_http_text protocol,
                             const struct gs_websocket_agreement *agreement, unsigned level)
{
    if (agreement->is_agreed) {
        uint8_t bits = socket->is_client ? agreement->client_bits : agreement->server_bits;
        socket->parser.may_compress = true;
        socket->bits = bits;
        socket->level = (uint8_t)(bits >= GS_WEBSOCKET_BITS_MIN ? level : 0);
    }
    if (protocol.bytes)
        socket->protocol = strndup(protocol.bytes, protocol.n);
    return !protocol.bytes || socket->protocol;
}

struct part {
    struct gs_websocket_coding *coding;
    int result;
};

static void *code_part(void *argument)
{
    struct part *part = argument;
    part->result = gs_websocket_code(part->coding);
    return NULL;
}

int gs_websocket_code_part(struct gs_websocket_coding *coding)
{
    struct part part = {.coding = coding};
    gs_thread_call_on_worker_stack(code_part, &part);
    if (part.result > 0)
        gs_thread_end_turn();
    return part.result;
}

static void free_socket(struct gs_websocket *socket)
{
    free(socket->protocol);
    free(socket->end_reason);
    free(socket->input);
    free(socket->message);
    free(socket);
}

const char *gs_websocket_protocol(const struct gs_websocket *socket)
{
    return socket->protocol;
}

int gs_websocket_fd(const struct gs_websocket *socket)
{
    return socket->transport.fd;
}

const char *gs_websocket_error(const struct gs_websocket *socket)
{
    return socket->error ? socket->error : "";
}

void gs_websocket_end(const struct gs_websocket *socket, struct gs_websocket_end *ret_end)
{
    *ret_end = (struct gs_websocket_end){.code = socket->end_code};
    if (socket->failure && !socket->end_code)
        ret_end->code = socket->has_received_close ? GS_WEBSOCKET_NO_CODE : GS_WEBSOCKET_LOST;
    if (socket->end_reason)
        memcpy(ret_end->reason, socket->end_reason, strlen(socket->end_reason));
}

/* ---- The end ---- */

/* Messages that still arrive are discarded. */
static int wait_for_close(struct gs_websocket *socket, uint64_t deadline_ns)
{
    enum gs_websocket_type type;
    int err = 0;
    while (!err)
        err = gs_websocket_next(socket, &type, deadline_ns);
    return err == -ENODATA ? 0 : err;
}

int gs_websocket_close(struct gs_websocket *socket, unsigned code, const char *reason,
                       uint64_t deadline_ns)
{
    int err = gs_websocket_shutdown(socket, code, reason, deadline_ns);
    if (!err)
        err = wait_for_close(socket, deadline_ns);
    if (socket->is_client && socket->transport.tls)
        (void)!socket->transport.operations->shutdown(socket->transport.tls, deadline_ns);
    gs_websocket_abort(socket);
    return err;
}

/* A server's connection ends when the handler has returned. */
void gs_websocket_abort(struct gs_websocket *socket)
{
    if (!socket)
        return;
    if (socket->is_client && socket->transport.tls)
        socket->transport.operations->abort(socket->transport.tls);
    else if (socket->is_client)
        gs_close(socket->transport.fd);
    free_socket(socket);
}
