/* Positions in buffers, and searching. */
#include "compat/libevent/buffer/buffer.h"
#include "compat/libevent/event/memory.h"

#include <string.h>

/* A place in the list; chain is NULL at the end. */
struct place {
    const struct gs_ev_chain *chain;
    size_t offset; /* within the chain */
    size_t pos;    /* within the buffer */
};

static const struct evbuffer_ptr not_found = {.pos = -1};

static struct place place_of(const struct evbuffer *buffer, const struct evbuffer_ptr *start)
{
    if (!start)
        return (struct place){.chain = buffer->first};
    return (struct place){
        .chain = start->internal_.chain,
        .offset = start->internal_.pos_in_chain,
        .pos = (size_t)start->pos,
    };
}

static struct evbuffer_ptr ptr_to(const struct place *place)
{
    return (struct evbuffer_ptr){
        .pos = (ev_ssize_t)place->pos,
        .internal_ = {.chain = (void *)(uintptr_t)place->chain, .pos_in_chain = place->offset},
    };
}

static void next_chain(struct place *place)
{
    place->pos += place->chain->length - place->offset;
    place->offset = 0;
    place->chain = place->chain->next;
}

int evbuffer_ptr_set(struct evbuffer *buffer, struct evbuffer_ptr *ptr, size_t position,
                     enum evbuffer_ptr_how how)
{
    gs_ev_buffer_lock(buffer);
    int result = -1;
    struct place place = {.chain = buffer->first};
    if (how == EVBUFFER_PTR_ADD) {
        if (ptr->pos < 0 || (size_t)ptr->pos > buffer->length)
            goto unlock;
        place = place_of(buffer, ptr);
    }
    if (position > buffer->length - place.pos) {
        *ptr = not_found;
        goto unlock;
    }
    size_t target = place.pos + position;
    while (place.chain && target - place.pos >= place.chain->length - place.offset)
        next_chain(&place);
    place.offset += target - place.pos;
    place.pos = target;
    *ptr = ptr_to(&place);
    result = 0;
unlock:
    gs_ev_buffer_unlock(buffer);
    return result;
}

/* ---- Strings ---- */

/* Whether the n bytes are at the place, which may extend over several chains. */
static bool is_at(struct place place, const unsigned char *what, size_t n)
{
    while (n && place.chain) {
        size_t piece = place.chain->length - place.offset;
        if (piece > n)
            piece = n;
        if (memcmp(gs_ev_chain_bytes(place.chain) + place.offset, what, piece))
            return false;
        what += piece;
        n -= piece;
        next_chain(&place);
    }
    return !n;
}

/* Look for what begins in the chain of the place, within it. Returns whether it was found, and
 * moves the place there. */
static bool find_within(struct place *place, const unsigned char *what, size_t n)
{
    const unsigned char *bytes = gs_ev_chain_bytes(place->chain) + place->offset;
    const unsigned char *hit = memmem(bytes, place->chain->length - place->offset, what, n);
    if (!hit)
        return false;
    place->offset += (size_t)(hit - bytes);
    place->pos += (size_t)(hit - bytes);
    return true;
}

/* Look for what begins in the chain of the place and ends in a later one. */
static bool find_across(struct place *place, const unsigned char *what, size_t n)
{
    const struct gs_ev_chain *chain = place->chain;
    size_t offset = place->offset;
    if (chain->length - offset >= n)
        offset = chain->length - n + 1;
    while (offset < chain->length) {
        const unsigned char *bytes = gs_ev_chain_bytes(chain);
        const unsigned char *hit = memchr(bytes + offset, what[0], chain->length - offset);
        if (!hit)
            return false;
        offset = (size_t)(hit - bytes);
        struct place there = {chain, offset, place->pos + offset - place->offset};
        if (is_at(there, what, n)) {
            *place = there;
            return true;
        }
        offset++;
    }
    return false;
}

/* What is found ends at `end` at the latest. */
static struct evbuffer_ptr search(struct place place, const unsigned char *what, size_t n,
                                  size_t end)
{
    while (place.chain && place.pos < end && n <= end - place.pos) {
        if (find_within(&place, what, n) || (n > 1 && find_across(&place, what, n)))
            return place.pos <= end - n ? ptr_to(&place) : not_found;
        next_chain(&place);
    }
    return not_found;
}

struct evbuffer_ptr evbuffer_search_range(struct evbuffer *buffer, const char *what, size_t len,
                                          const struct evbuffer_ptr *start,
                                          const struct evbuffer_ptr *end)
{
    gs_ev_buffer_lock(buffer);
    struct place place = place_of(buffer, start);
    struct evbuffer_ptr result = not_found;
    if (!len || len > EV_SSIZE_MAX)
        result = start ? *start : ptr_to(&place);
    else if (!gs_ev_buffer_load(buffer))
        result = search(place, (const unsigned char *)what, len,
                        end && end->pos >= 0 ? (size_t)end->pos : buffer->length);
    gs_ev_buffer_unlock(buffer);
    return result;
}

struct evbuffer_ptr evbuffer_search(struct evbuffer *buffer, const char *what, size_t len,
                                    const struct evbuffer_ptr *start)
{
    return evbuffer_search_range(buffer, what, len, start, NULL);
}

unsigned char *evbuffer_find(struct evbuffer *buffer, const unsigned char *what, size_t len)
{
    gs_ev_buffer_lock(buffer);
    unsigned char *bytes = NULL;
    struct evbuffer_ptr ptr = evbuffer_search(buffer, (const char *)what, len, NULL);
    if (ptr.pos >= 0) {
        bytes = evbuffer_pullup(buffer, ptr.pos + (ev_ssize_t)len);
        if (bytes)
            bytes += ptr.pos;
    }
    gs_ev_buffer_unlock(buffer);
    return bytes;
}
