#include "websocket/deflate.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

/* What a sender leaves out at the end of a message (RFC 7692, 7.2.1). */
static const char tail[4] = {0, 0, (char)0xff, (char)0xff};

/* To compress or to decompress. */
struct gs_websocket_zlib {
    struct gs_websocket_zlib *next;
    unsigned level, bits; /* level 0: to decompress */
    z_stream stream;
};

/* ---- States that are not in use ----
 * A call that finds the lock held does without them: none waits, not even in a child of fork whose
 * parent held it. */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gs_websocket_zlib *kept;
static unsigned kept_count;

/* As many as are in use at the same time on most machines. */
#define KEPT_MAX 16u

static void free_state(struct gs_websocket_zlib *state)
{
    if (state->level)
        deflateEnd(&state->stream);
    else
        inflateEnd(&state->stream);
    free(state);
}

static struct gs_websocket_zlib *new_state(unsigned level, unsigned bits)
{
    struct gs_websocket_zlib *state = calloc(1, sizeof *state);
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
static struct gs_websocket_zlib *take_state(unsigned level, unsigned bits)
{
    if (pthread_mutex_trylock(&lock))
        return new_state(level, bits);
    struct gs_websocket_zlib **at = &kept;
    while (*at && ((*at)->level != level || (*at)->bits != bits))
        at = &(*at)->next;
    struct gs_websocket_zlib *state = *at;
    if (state) {
        *at = state->next;
        kept_count--;
    }
    pthread_mutex_unlock(&lock);
    return state ? state : new_state(level, bits);
}

static void keep_state(struct gs_websocket_zlib *state)
{
    int err = state->level ? deflateReset(&state->stream) : inflateReset(&state->stream);
    bool is_locked = err == Z_OK && !pthread_mutex_trylock(&lock);
    if (is_locked && kept_count < KEPT_MAX) {
        kept_count++;
        state->next = kept;
        kept = state;
        state = NULL;
    }
    if (is_locked)
        pthread_mutex_unlock(&lock);
    if (state)
        free_state(state);
}

bool gs_websocket_has_deflate(void)
{
    return true;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- Compressing: the output has room for all from the beginning ---- */

static int begin_to_deflate(struct gs_websocket_coding *coding)
{
    coding->size = deflateBound(&coding->zlib->stream, coding->input.n) + 16;
    coding->output = malloc(coding->size);
    return coding->output ? 0 : -ENOMEM;
}

static int deflate_part(struct gs_websocket_coding *coding)
{
    z_stream *stream = &coding->zlib->stream;
    size_t n = least(coding->input.n, GS_WEBSOCKET_PART_MAX), room = coding->size - coding->n;
    bool is_last = n == coding->input.n;
    stream->next_in = (Bytef *)coding->input.bytes;
    stream->avail_in = (uInt)n;
    stream->next_out = (Bytef *)coding->output + coding->n;
    stream->avail_out = (uInt)least(room, UINT32_MAX);
    (void)deflate(stream, is_last ? Z_SYNC_FLUSH : Z_NO_FLUSH);
    coding->n = (size_t)((char *)stream->next_out - coding->output);
    coding->input.bytes += n;
    coding->input.n -= n;
    coding->n -= is_last ? sizeof tail : 0;
    return !is_last;
}

/* ---- Decompressing ---- */

/* Returns 0 or -errno. A buffer for more than max bytes tells a message that is too long. */
static int make_room(struct gs_websocket_coding *coding)
{
    if (coding->size - coding->n > 1)
        return 0;
    if (coding->n > coding->max)
        return -EMSGSIZE;
    size_t size = coding->size ? 2 * coding->size : 256;
    if (size / 2 > coding->max)
        size = coding->max + 2;
    char *output = realloc(coding->output, size);
    if (!output)
        return -ENOMEM;
    coding->output = output;
    coding->size = size;
    return 0;
}

/* After a final block another one may follow (RFC 7692, 7.2.3.4). Returns Z_OK or an error. */
static int inflate_once(z_stream *stream)
{
    int result = inflate(stream, Z_SYNC_FLUSH);
    if (result == Z_STREAM_END)
        result = inflateReset(stream);
    return result == Z_BUF_ERROR ? Z_OK : result;
}

/* The tail follows the input. */
static int inflate_part(struct gs_websocket_coding *coding)
{
    z_stream *stream = &coding->zlib->stream;
    size_t left = GS_WEBSOCKET_PART_MAX;
    bool is_done = false;
    while (left && !is_done) {
        int err = make_room(coding);
        if (err)
            return err;
        if (!coding->input.n && !coding->is_in_tail) {
            coding->input = (struct gs_http_text){tail, sizeof tail};
            coding->is_in_tail = true;
        }
        size_t n = least(coding->input.n, left), room = least(coding->size - coding->n - 1, left);
        stream->next_in = (Bytef *)coding->input.bytes;
        stream->avail_in = (uInt)n;
        stream->next_out = (Bytef *)coding->output + coding->n;
        stream->avail_out = (uInt)room;
        int result = inflate_once(stream);
        if (result != Z_OK)
            return result == Z_MEM_ERROR ? -ENOMEM : -EPROTO;
        n -= stream->avail_in;
        coding->input.bytes += n;
        coding->input.n -= n;
        n += room - stream->avail_out;
        coding->n += room - stream->avail_out;
        left -= least(left, n);
        is_done = coding->is_in_tail && !coding->input.n && stream->avail_out;
    }
    if (is_done && coding->n > coding->max)
        return -EMSGSIZE;
    if (is_done)
        coding->output[coding->n] = '\0';
    return !is_done;
}

/* ---- Both ---- */

static int begin(struct gs_websocket_coding *coding)
{
    coding->zlib = take_state(coding->level, coding->level ? coding->bits : 15);
    if (!coding->zlib)
        return -ENOMEM;
    return coding->level ? begin_to_deflate(coding) : 0;
}

int gs_websocket_code(struct gs_websocket_coding *coding)
{
    int result = coding->zlib ? 0 : begin(coding);
    if (!result)
        result = coding->level ? deflate_part(coding) : inflate_part(coding);
    if (result > 0)
        return result;
    if (coding->zlib)
        keep_state(coding->zlib);
    coding->zlib = NULL;
    if (result) {
        free(coding->output);
        coding->output = NULL;
    }
    return result;
}
