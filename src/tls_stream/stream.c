#include "tls_stream/stream.h"
#include "tls/operations.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/net.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gs_tls_call(struct gs_tls *tls, void *(*fn)(void *argument), void *argument)
{
    gs_mutex_lock(&tls->mutex, GS_NEVER);
    gs_thread_call_on_worker_stack(fn, argument);
    gs_mutex_unlock(&tls->mutex);
}

/* ---- Creation and end ---- */

struct creation {
    struct gs_tls_context *context;
    const char *server_name;
    struct gs_tls_engine *engine;
    int err;
};

static void *new_engine(void *argument)
{
    struct creation *creation = argument;
    creation->err = gs_tls_engine_new(creation->context, creation->server_name, &creation->engine);
    return NULL;
}

static void *free_engine(void *argument)
{
    struct gs_tls *tls = argument;
    if (tls->context)
        (void)gs_tls_operations_of(tls->context)
            ->leave_session(tls->engine, tls->server_name, tls->offered);
    gs_tls_session_free(tls->offered);
    gs_tls_engine_free(tls->engine);
    gs_tls_context_release(tls->context);
    return NULL;
}

static void free_stream(struct gs_tls *tls)
{
    gs_thread_call_on_worker_stack(free_engine, tls);
    free(tls->server_name);
    free(tls->input);
    free(tls);
}

static void *offer_session(void *argument)
{
    struct gs_tls *tls = argument;
    tls->offered = gs_tls_operations_of(tls->context)->offer_session(tls->engine, tls->server_name);
    return NULL;
}

static void use_sessions(struct gs_tls *tls, const struct creation *creation)
{
    tls->server_name = strdup(creation->server_name);
    if (!tls->server_name)
        return;
    gs_tls_context_hold(creation->context);
    tls->context = creation->context;
    gs_thread_call_on_worker_stack(offer_session, tls);
}

static int new_stream(struct creation *creation, int fd, struct gs_tls **ret_tls)
{
    struct gs_tls *tls = calloc(1, sizeof *tls);
    if (!tls)
        return -ENOMEM;
    gs_thread_call_on_worker_stack(new_engine, creation);
    if (creation->err) {
        free(tls);
        return creation->err;
    }
    tls->engine = creation->engine;
    tls->fd = fd;
    if (creation->server_name)
        use_sessions(tls, creation);
    *ret_tls = tls;
    return 0;
}

int gs_tls_close(struct gs_tls *tls, uint64_t deadline_ns)
{
    int err = gs_tls_shutdown(tls, deadline_ns);
    gs_tls_abort(tls);
    return err;
}

void gs_tls_abort(struct gs_tls *tls)
{
    gs_close(tls->fd);
    free_stream(tls);
}

static int adopt(struct gs_tls_engine *engine, int fd, struct gs_tls **ret_tls)
{
    struct gs_tls *tls = calloc(1, sizeof *tls);
    if (!tls)
        return -ENOMEM;
    tls->engine = engine;
    tls->fd = fd;
    *ret_tls = tls;
    return 0;
}

/* ---- The handshake ---- */

/* It is complete when nothing is left to be sent either. A first byte of plaintext may come with
 * its end, and the end of the stream. */
static int handshake(struct gs_tls *tls, uint64_t deadline_ns)
{
    struct gs_tls_receiving receiving = {.tls = tls, .bytes = &tls->first, .n = 1};
    struct gs_tls_info info;
    gs_tls_take(&receiving);
    for (;;) {
        if (receiving.result < 0 && receiving.result != -EAGAIN)
            return (int)receiving.result;
        gs_tls_info(tls, &info);
        if (info.is_established)
            break;
        int err = receiving.result ? gs_tls_receive(&receiving, deadline_ns) : -ECONNRESET;
        if (err)
            return err;
    }
    tls->has_first = receiving.result > 0;
    return gs_tls_flush(tls, deadline_ns);
}

/* tls: NULL: none was made. */
static void describe(struct gs_tls *tls, int err, char *ret_text)
{
    if (!ret_text)
        return;
    ret_text[0] = '\0';
    if (tls && err == -EPROTO)
        gs_tls_error(tls, ret_text);
    if (!ret_text[0])
        snprintf(ret_text, GS_TLS_TEXT, "%s",
                 err == -ECONNRESET ? "the peer has closed the connection" : strerror(-err));
}

static int start(struct creation *creation, int fd, uint64_t deadline_ns, struct gs_tls **ret_tls,
                 char *ret_text)
{
    struct gs_tls *tls = NULL;
    int err = new_stream(creation, fd, &tls);
    if (!err)
        err = handshake(tls, deadline_ns);
    if (err) {
        describe(tls, err, ret_text);
        if (tls)
            free_stream(tls);
        return err;
    }
    *ret_tls = tls;
    return 0;
}

int gs_tls_accept(struct gs_tls_context *context, int fd, uint64_t deadline_ns,
                  struct gs_tls **ret_tls, char ret_text[GS_TLS_TEXT])
{
    struct creation creation = {.context = context};
    return start(&creation, fd, deadline_ns, ret_tls, ret_text);
}

int gs_tls_connect(struct gs_tls_context *context, int fd, const char *server_name,
                   uint64_t deadline_ns, struct gs_tls **ret_tls, char ret_text[GS_TLS_TEXT])
{
    struct creation creation = {.context = context, .server_name = server_name};
    return start(&creation, fd, deadline_ns, ret_tls, ret_text);
}

/* ---- Dialing ---- */

/* The host of "HOST:PORT" or "[HOST]:PORT", an address that gs_dial has accepted; NULL: of a Unix
 * socket. */
static const char *host_of(const char *address, char host[256])
{
    if (!strncmp(address, "unix:", 5))
        return NULL;
    bool has_brackets = *address == '[';
    const char *end = strrchr(address, has_brackets ? ']' : ':');
    snprintf(host, 256, "%.*s", (int)(end - address - has_brackets), address + has_brackets);
    return host;
}

int gs_dial_tls(struct gs_tls_context *context, const char *address, uint64_t deadline_ns,
                struct gs_tls **ret_tls, char ret_text[GS_TLS_TEXT])
{
    char host[256];
    int fd = gs_dial(address, deadline_ns);
    if (fd < 0) {
        describe(NULL, fd, ret_text);
        return fd;
    }
    const char *name = host_of(address, host);
    int err = gs_tls_connect(context, fd, name, deadline_ns, ret_tls, ret_text);
    if (err)
        gs_close(fd);
    return err;
}

/* ---- What has become of it ---- */

struct question {
    struct gs_tls_engine *engine;
    struct gs_tls_info *ret_info;
    char *ret_text;
};

static void *get_info(void *argument)
{
    const struct question *question = argument;
    gs_tls_engine_info(question->engine, question->ret_info);
    return NULL;
}

static void *get_error(void *argument)
{
    const struct question *question = argument;
    gs_tls_engine_error(question->engine, question->ret_text);
    return NULL;
}

void gs_tls_info(struct gs_tls *tls, struct gs_tls_info *ret_info)
{
    struct question question = {.engine = tls->engine, .ret_info = ret_info};
    gs_tls_call(tls, get_info, &question);
}

void gs_tls_error(struct gs_tls *tls, char ret_text[GS_TLS_TEXT])
{
    struct question question = {.engine = tls->engine, .ret_text = ret_text};
    gs_tls_call(tls, get_error, &question);
}

int gs_tls_fd(const struct gs_tls *tls)
{
    return tls->fd;
}

/* For libgossamer, which is not linked with this. */
const struct gs_tls_stream_operations gs_tls_stream_operations = {
    .adopt = adopt,
    .dial = gs_dial_tls,
    .recv = gs_tls_recv,
    .send_all = gs_tls_send_all,
    .shutdown = gs_tls_shutdown,
    .abort = gs_tls_abort,
    .fd = gs_tls_fd,
};

/* ---- Readers and writers (gossamer/buffered.h) ---- */

static ssize_t read_stream(void *tls, void *bytes, size_t n, uint64_t deadline_ns)
{
    return gs_tls_recv(tls, bytes, n, deadline_ns);
}

static ssize_t write_stream(void *tls, const void *bytes, size_t n, uint64_t deadline_ns)
{
    return gs_tls_send_all(tls, bytes, n, deadline_ns);
}

int gs_tls_reader_init(struct gs_reader *reader, struct gs_tls *tls, void *buffer, size_t size)
{
    return gs_reader_init_with(reader, read_stream, tls, buffer, size);
}

int gs_tls_writer_init(struct gs_writer *writer, struct gs_tls *tls, void *buffer, size_t size)
{
    return gs_writer_init_with(writer, write_stream, tls, buffer, size);
}
