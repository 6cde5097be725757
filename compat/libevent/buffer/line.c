/* Lines in buffers. */
#include "compat/libevent/buffer/buffer.h"
#include "compat/libevent/event/memory.h"

#include <string.h>

/* Two bytes are searched for in blocks of this size, so that one that is far away costs little. */
#define BLOCK 256

/* Where bytes are; `before` is the chain before it, unless that has not been looked at. */
struct spot {
    struct gs_ev_chain *chain, *before;
    size_t offset, pos;
};

static void next_chain(struct spot *spot)
{
    spot->pos += spot->chain->length - spot->offset;
    spot->offset = 0;
    spot->before = spot->chain;
    spot->chain = spot->chain->next;
}

/* Move to the next byte of this value. Returns whether there is one. */
static bool find_byte(struct spot *spot, int value)
{
    for (; spot->chain; next_chain(spot)) {
        const unsigned char *bytes = gs_ev_chain_bytes(spot->chain) + spot->offset;
        const unsigned char *hit = memchr(bytes, value, spot->chain->length - spot->offset);
        if (hit) {
            spot->offset += (size_t)(hit - bytes);
            spot->pos += (size_t)(hit - bytes);
            return true;
        }
    }
    return false;
}

/* Returns the first CR or LF of n bytes, or NULL. */
static const unsigned char *find_eol_byte(const unsigned char *bytes, size_t n)
{
    while (n) {
        size_t block = n < BLOCK ? n : BLOCK;
        const unsigned char *lf = memchr(bytes, '\n', block);
        const unsigned char *cr = memchr(bytes, '\r', lf ? (size_t)(lf - bytes) : block);
        if (cr || lf)
            return cr ? cr : lf;
        bytes += block;
        n -= block;
    }
    return NULL;
}

static bool find_any_eol(struct spot *spot)
{
    for (; spot->chain; next_chain(spot)) {
        const unsigned char *bytes = gs_ev_chain_bytes(spot->chain) + spot->offset;
        const unsigned char *hit = find_eol_byte(bytes, spot->chain->length - spot->offset);
        if (hit) {
            spot->offset += (size_t)(hit - bytes);
            spot->pos += (size_t)(hit - bytes);
            return true;
        }
    }
    return false;
}

/* Returns how many CR and LF there are from here on. */
static size_t count_eol_bytes(struct spot spot)
{
    size_t start = spot.pos;
    for (; spot.chain; next_chain(&spot)) {
        const unsigned char *bytes = gs_ev_chain_bytes(spot.chain);
        for (; spot.offset < spot.chain->length; spot.offset++, spot.pos++)
            if (bytes[spot.offset] != '\r' && bytes[spot.offset] != '\n')
                return spot.pos - start;
    }
    return spot.pos - start;
}

/* From an LF, go to the CR before it, if it is not before `start`. Returns whether it did. */
static bool back_to_cr(struct spot *spot, size_t start)
{
    if (spot->pos == start)
        return false;
    struct spot back = *spot;
    back.pos--;
    if (back.offset) {
        back.offset--;
    } else {
        back.chain = back.before;
        back.offset = back.chain->length - 1;
    }
    if (gs_ev_chain_bytes(back.chain)[back.offset] != '\r')
        return false;
    *spot = back;
    return true;
}

/* Returns the number of bytes that end the line, and moves the spot to the first, or returns 0. */
static size_t find_eol(struct spot *spot, enum evbuffer_eol_style style)
{
    size_t start = spot->pos;
    switch (style) {
    case EVBUFFER_EOL_ANY:
        return find_any_eol(spot) ? count_eol_bytes(*spot) : 0;
    case EVBUFFER_EOL_CRLF:
        if (!find_byte(spot, '\n'))
            return 0;
        return back_to_cr(spot, start) ? 2 : 1;
    case EVBUFFER_EOL_CRLF_STRICT:
        for (; find_byte(spot, '\n'); spot->offset++, spot->pos++) {
            if (back_to_cr(spot, start))
                return 2;
        }
        return 0;
    case EVBUFFER_EOL_LF:
        return find_byte(spot, '\n');
    case EVBUFFER_EOL_NUL:
        return find_byte(spot, '\0');
    }
    return 0;
}

struct evbuffer_ptr evbuffer_search_eol(struct evbuffer *buffer, struct evbuffer_ptr *start,
                                        size_t *eol_len_out, enum evbuffer_eol_style eol_style)
{
    struct evbuffer_ptr result = {.pos = -1};
    size_t length = 0;
    gs_ev_buffer_lock(buffer);
    struct spot spot = {.chain = buffer->first};
    if (start) {
        spot.chain = start->internal_.chain;
        spot.offset = start->internal_.pos_in_chain;
        spot.pos = (size_t)start->pos;
    }
    if (!gs_ev_buffer_load(buffer))
        length = find_eol(&spot, eol_style);
    if (length) {
        result.pos = (ev_ssize_t)spot.pos;
        result.internal_.chain = spot.chain;
        result.internal_.pos_in_chain = spot.offset;
    }
    if (eol_len_out)
        *eol_len_out = length;
    gs_ev_buffer_unlock(buffer);
    return result;
}

char *evbuffer_readln(struct evbuffer *buffer, size_t *n_read_out,
                      enum evbuffer_eol_style eol_style)
{
    char *line = NULL;
    size_t n = 0, eol_length = 0;
    gs_ev_buffer_lock(buffer);
    if (buffer->is_front_frozen)
        goto unlock;
    struct evbuffer_ptr end = evbuffer_search_eol(buffer, NULL, &eol_length, eol_style);
    if (end.pos < 0)
        goto unlock;
    line = gs_ev_malloc((size_t)end.pos + 1);
    if (!line)
        goto unlock;
    n = (size_t)end.pos;
    evbuffer_copyout(buffer, line, n);
    line[n] = '\0';
    evbuffer_drain(buffer, n);
    evbuffer_drain(buffer, eol_length);
unlock:
    gs_ev_buffer_unlock(buffer);
    if (n_read_out)
        *n_read_out = n;
    return line;
}

char *evbuffer_readline(struct evbuffer *buffer)
{
    return evbuffer_readln(buffer, NULL, EVBUFFER_EOL_ANY);
}
