#include "websocket/deflate.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

/* What a sender leaves out at the end of a message (RFC 7692, 7.2.1). */
static const char tail[4] = {0, 0, (char)0xff, (char)0xff};

/* A state of zlib, to compress or to decompress. */
struct state {
    struct state *next;
    unsigned level, bits; /* level 0: to decompress */
    z_stream stream;
};

/* ---- States that are not in use ----
 * A call that finds the lock held does without them: none waits, not even in a child of fork whose
 * parent held it. */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct state *kept;

static void free_state(struct state *state)
{
    if (state->level)
        deflateEnd(&state->stream);
    else
        inflateEnd(&state->stream);
    free(state);
}

static struct state *new_state(unsigned level, unsigned bits)
{
    struct state *state = calloc(1, sizeof *state);
    if (!state)
        return NULL;
    state->level = level;
    state->bits = bits;
    int err = level ? deflateInit2(&state->stream, (int)level, Z_DEFLATED, -(int)bits, 8,
                                   Z_DEFAULT_STRATEGY)
                    : inflateInit2(&state->stream, -(int)bits);
    if (err != Z_OK) {
        free(state);
        return NULL;
    }
    return state;
}

/* One of the right kind, or a new one; NULL: there is no memory. */
static struct state *take_state(unsigned level, unsigned bits)
{
    if (pthread_mutex_trylock(&lock))
        return new_state(level, bits);
    struct state **at = &kept;
    while (*at && ((*at)->level != level || (*at)->bits != bits))
        at = &(*at)->next;
    struct state *state = *at;
    if (state)
        *at = state->next;
    pthread_mutex_unlock(&lock);
    return state ? state : new_state(level, bits);
}

static void keep_state(struct state *state)
{
    int err = state->level ? deflateReset(&state->stream) : inflateReset(&state->stream);
    if (err != Z_OK || pthread_mutex_trylock(&lock)) {
        free_state(state);
        return;
    }
    state->next = kept;
    kept = state;
    pthread_mutex_unlock(&lock);
}

bool gs_websocket_has_deflate(void)
{
    return true;
}

/* ---- Compressing ---- */

int gs_websocket_deflate(struct gs_http_text message, unsigned level, unsigned bits,
                         struct gs_http_text *ret_compressed)
{
    struct state *state = take_state(level, bits);
    if (!state)
        return -ENOMEM;
    z_stream *stream = &state->stream;
    size_t size = deflateBound(stream, message.n) + 16, done = 0;
    char *compressed = malloc(size);
    if (!compressed) {
        keep_state(state);
        return -ENOMEM;
    }
    stream->next_out = (Bytef *)compressed;
    do { /* its counters have 32 bits */
        size_t n = message.n - done < (1u << 30) ? message.n - done : 1u << 30;
        stream->next_in = (Bytef *)message.bytes + done;
        stream->avail_in = (uInt)n;
        size_t room = size - (size_t)((char *)stream->next_out - compressed);
        stream->avail_out = (uInt)(room < UINT32_MAX ? room : UINT32_MAX);
        done += n;
        (void)deflate(stream, done < message.n ? Z_NO_FLUSH : Z_SYNC_FLUSH);
    } while (done < message.n);
    size_t n = (size_t)((char *)stream->next_out - compressed);
    keep_state(state);
    *ret_compressed = (struct gs_http_text){compressed, n - sizeof tail};
    return 0;
}

/* ---- Decompressing ---- */

struct inflation {
    z_stream *stream;
    char *message;
    size_t n, size, max;
};

/* Returns 0 or -errno. A buffer for more than max bytes tells a message that is too long. */
static int make_room(struct inflation *inflation)
{
    size_t room = inflation->size - inflation->n;
    if (room > 1)
        return 0;
    if (inflation->n > inflation->max)
        return -EMSGSIZE;
    size_t size = inflation->size ? 2 * inflation->size : 256;
    if (size / 2 > inflation->max)
        size = inflation->max + 2;
    char *message = realloc(inflation->message, size);
    if (!message)
        return -ENOMEM;
    inflation->message = message;
    inflation->size = size;
    return 0;
}

/* Decompress all of the input. After a final block another one may follow (RFC 7692, 7.2.3.4). */
static int inflate_part(struct inflation *inflation, struct gs_http_text part)
{
    z_stream *stream = inflation->stream;
    stream->next_in = (Bytef *)part.bytes;
    stream->avail_in = (uInt)part.n;
    for (;;) {
        int err = make_room(inflation);
        if (err)
            return err;
        size_t room = inflation->size - inflation->n - 1;
        stream->next_out = (Bytef *)inflation->message + inflation->n;
        stream->avail_out = (uInt)(room < UINT32_MAX ? room : UINT32_MAX);
        uInt before = stream->avail_out;
        int result = inflate(stream, Z_SYNC_FLUSH);
        inflation->n += before - stream->avail_out;
        if (result == Z_STREAM_END)
            result = inflateReset(stream);
        if (result == Z_MEM_ERROR)
            return -ENOMEM;
        if (result != Z_OK && result != Z_BUF_ERROR)
            return -EPROTO;
        if (!stream->avail_in && stream->avail_out)
            return 0;
    }
}

int gs_websocket_inflate(struct gs_http_text compressed, size_t max, char **ret_message,
                         size_t *ret_n)
{
    struct state *state = take_state(0, 15);
    if (!state)
        return -ENOMEM;
    struct inflation inflation = {.stream = &state->stream, .max = max};
    int err = 0;
    while (!err && compressed.n) {
        size_t n = compressed.n < (1u << 30) ? compressed.n : 1u << 30;
        err = inflate_part(&inflation, (struct gs_http_text){compressed.bytes, n});
        compressed.bytes += n;
        compressed.n -= n;
    }
    if (!err)
        err = inflate_part(&inflation, (struct gs_http_text){tail, sizeof tail});
    if (!err && inflation.n > max)
        err = -EMSGSIZE;
    keep_state(state);
    if (err) {
        free(inflation.message);
        return err;
    }
    inflation.message[inflation.n] = '\0';
    *ret_message = inflation.message;
    *ret_n = inflation.n;
    return 0;
}
