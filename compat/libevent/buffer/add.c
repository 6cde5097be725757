/* Adding bytes to buffers. */
#include "compat/libevent/buffer/buffer.h"
#include "compat/libevent/event/memory.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static bool can_append(const struct evbuffer *buffer, size_t n)
{
    return !buffer->is_back_frozen && n <= GS_EV_BUFFER_MAX - buffer->length;
}

/* The first bytes of a buffer. */
static int start_list(struct evbuffer *buffer, const unsigned char *bytes, size_t n)
{
    struct gs_ev_chain *chain = gs_ev_chain_new(n);
    if (!chain)
        return -1;
    memcpy(chain->memory, bytes, n);
    chain->length = n;
    buffer->first = buffer->last = chain;
    buffer->length = n;
    buffer->added += n;
    return 0;
}

/* Bytes for which the last chain has no room: the rest of them goes to the spare chain. Returns 0
 * or -1. */
static int append_more(struct evbuffer *buffer, const unsigned char *bytes, size_t n)
{
    struct gs_ev_chain *last = buffer->last;
    if (!last && !buffer->spare)
        return start_list(buffer, bytes, n);
    size_t room = last ? gs_ev_chain_room(last) : 0;
    if (last && gs_ev_chain_realign(last, n))
        room = gs_ev_chain_room(last);
    size_t rest = n > room ? n - room : 0;
    if (rest && gs_ev_buffer_make_spare(buffer, rest))
        return -1;
    if (n > rest) {
        memcpy(gs_ev_chain_end(last), bytes, n - rest);
        gs_ev_buffer_extend(buffer, last, n - rest);
    }
    if (rest) {
        memcpy(gs_ev_chain_end(buffer->spare), bytes + (n - rest), rest);
        gs_ev_buffer_extend(buffer, buffer->spare, rest);
    }
    return 0;
}

static inline int append(struct evbuffer *buffer, const unsigned char *bytes, size_t n)
{
    struct gs_ev_chain *last = buffer->last;
    if (!last || n > gs_ev_chain_room(last))
        return append_more(buffer, bytes, n);
    memcpy(gs_ev_chain_end(last), bytes, n);
    last->length += n;
    buffer->length += n;
    buffer->added += n;
    return 0;
}

int evbuffer_add(struct evbuffer *buf, const void *data, size_t datlen)
{
    gs_ev_buffer_lock(buf);
    int result = can_append(buf, datlen) ? 0 : -1;
    if (!result && datlen)
        result = append(buf, data, datlen);
    if (!result)
        gs_ev_buffer_changed(buf);
    gs_ev_buffer_unlock(buf);
    return result;
}

size_t evbuffer_add_iovec(struct evbuffer *buffer, struct evbuffer_iovec *vec, int n_vec)
{
    size_t total = 0, added = 0;
    for (int i = 0; i < n_vec; i++)
        if (__builtin_add_overflow(total, vec[i].iov_len, &total))
            return 0;
    gs_ev_buffer_lock(buffer);
    size_t room = buffer->last ? gs_ev_chain_room(buffer->last) : 0;
    if (can_append(buffer, total) &&
        (total <= room || !gs_ev_buffer_make_spare(buffer, total - room))) {
        for (int i = 0; i < n_vec && !evbuffer_add(buffer, vec[i].iov_base, vec[i].iov_len); i++)
            added += vec[i].iov_len;
    }
    gs_ev_buffer_unlock(buffer);
    return added;
}

/* Put bytes before the first chain, at the end of a new one, so that more fit before them. */
static int prepend_chain(struct evbuffer *buffer, const unsigned char *bytes, size_t n)
{
    struct gs_ev_chain *chain = gs_ev_chain_new(n);
    if (!chain)
        return -1;
    chain->start = chain->capacity - n;
    chain->length = n;
    memcpy(gs_ev_chain_bytes(chain), bytes, n);
    chain->next = buffer->first;
    buffer->first = chain;
    if (!buffer->last)
        buffer->last = chain;
    return 0;
}

static int prepend(struct evbuffer *buffer, const unsigned char *bytes, size_t n)
{
    struct gs_ev_chain *first = buffer->first;
    size_t room = first && gs_ev_chain_is_exclusive(first) ? first->start : 0;
    if (room > n)
        room = n;
    if (n > room && prepend_chain(buffer, bytes, n - room))
        return -1;
    if (room) {
        first->start -= room;
        first->length += room;
        memcpy(gs_ev_chain_bytes(first), bytes + (n - room), room);
    }
    buffer->length += n;
    buffer->added += n;
    return 0;
}

int evbuffer_prepend(struct evbuffer *buf, const void *data, size_t size)
{
    gs_ev_buffer_lock(buf);
    int result = -1;
    if (!size)
        result = 0;
    else if (!buf->is_front_frozen && size <= GS_EV_BUFFER_MAX - buf->length)
        result = prepend(buf, data, size);
    if (!result)
        gs_ev_buffer_changed(buf);
    gs_ev_buffer_unlock(buf);
    return result;
}

int evbuffer_add_reference(struct evbuffer *outbuf, const void *data, size_t datlen,
                           evbuffer_ref_cleanup_cb cleanupfn, void *cleanupfn_arg)
{
    struct gs_ev_outside_chain *outside = gs_ev_chain_new_outside(GS_EV_CHAIN_BORROWED);
    if (!outside)
        return -1;
    outside->chain.memory = (unsigned char *)(uintptr_t)data;
    outside->chain.capacity = outside->chain.length = datlen;
    outside->origin.borrowed.cleanup = cleanupfn;
    outside->origin.borrowed.argument = cleanupfn_arg;
    gs_ev_buffer_lock(outbuf);
    int result = can_append(outbuf, datlen) ? 0 : -1;
    if (!result) {
        gs_ev_buffer_append(outbuf, &outside->chain);
        gs_ev_buffer_changed(outbuf);
    } else {
        gs_ev_free(outside);
    }
    gs_ev_buffer_unlock(outbuf);
    return result;
}

/* ---- Formatted text ---- */

/* Most texts fit into this; others are formatted a second time. */
#define TEXT_SIZE 64

int evbuffer_add_vprintf(struct evbuffer *buf, const char *fmt, va_list ap)
{
    gs_ev_buffer_lock(buf);
    int length = -1;
    if (!can_append(buf, 0))
        goto unlock;
    struct gs_ev_chain *chain = gs_ev_buffer_make_room(buf, TEXT_SIZE);
    while (chain) {
        size_t room = gs_ev_chain_room(chain);
        va_list again;
        va_copy(again, ap);
        length = vsnprintf((char *)gs_ev_chain_end(chain), room, fmt, again);
        va_end(again);
        if (length < 0)
            goto unlock;
        if ((size_t)length < room)
            break;
        chain = can_append(buf, (size_t)length) ? gs_ev_buffer_make_room(buf, (size_t)length + 1)
                                                : NULL;
        if (!chain)
            length = -1;
    }
    if (chain) {
        gs_ev_buffer_extend(buf, chain, (size_t)length);
        gs_ev_buffer_changed(buf);
    }
unlock:
    gs_ev_buffer_unlock(buf);
    return length;
}

int evbuffer_add_printf(struct evbuffer *buf, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int length = evbuffer_add_vprintf(buf, fmt, ap);
    va_end(ap);
    return length;
}

/* ---- Space that the caller fills ---- */

int evbuffer_expand(struct evbuffer *buf, size_t datlen)
{
    gs_ev_buffer_lock(buf);
    int result =
        datlen <= GS_EV_BUFFER_MAX - buf->length && gs_ev_buffer_make_room(buf, datlen) ? 0 : -1;
    gs_ev_buffer_unlock(buf);
    return result;
}

static int reserve_one(struct evbuffer *buffer, size_t size, struct evbuffer_iovec *vec)
{
    struct gs_ev_chain *chain = gs_ev_buffer_make_room(buffer, size);
    if (!chain)
        return -1;
    vec[0].iov_base = gs_ev_chain_end(chain);
    vec[0].iov_len = gs_ev_chain_room(chain);
    return 1;
}

/* In the last chain and the spare one. */
static int reserve_two(struct evbuffer *buffer, size_t size, struct evbuffer_iovec *vec)
{
    int count = 0;
    struct gs_ev_chain *last = buffer->last;
    size_t room = last ? gs_ev_chain_room(last) : 0;
    if (size > room && gs_ev_buffer_make_spare(buffer, size - room))
        return -1;
    if (size && room) {
        vec[count].iov_base = gs_ev_chain_end(last);
        vec[count++].iov_len = room;
    }
    if (size > room) {
        vec[count].iov_base = gs_ev_chain_end(buffer->spare);
        vec[count++].iov_len = gs_ev_chain_room(buffer->spare);
    }
    return count;
}

int evbuffer_reserve_space(struct evbuffer *buf, ev_ssize_t size, struct evbuffer_iovec *vec,
                           int n_vec)
{
    gs_ev_buffer_lock(buf);
    int count = -1;
    if (n_vec >= 1 && size >= 0 && can_append(buf, (size_t)size))
        count = (n_vec == 1 ? reserve_one : reserve_two)(buf, (size_t)size, vec);
    gs_ev_buffer_unlock(buf);
    return count;
}

/* Returns whether the extent is the chain's space, or the beginning of it. */
static bool is_space_of(const struct gs_ev_chain *chain, const struct evbuffer_iovec *extent)
{
    return chain && chain->memory && extent->iov_base == gs_ev_chain_end(chain) &&
           extent->iov_len <= gs_ev_chain_room(chain);
}

static int commit(struct evbuffer *buffer, const struct evbuffer_iovec *vec, int count)
{
    struct gs_ev_chain *last = buffer->last, *spare = buffer->spare;
    int of_last = last && is_space_of(last, &vec[0]) && gs_ev_chain_room(last);
    if (count - of_last > 1 || (count - of_last == 1 && !is_space_of(spare, &vec[of_last])))
        return -1;
    if (of_last)
        gs_ev_buffer_extend(buffer, last, vec[0].iov_len);
    if (count > of_last)
        gs_ev_buffer_extend(buffer, spare, vec[of_last].iov_len);
    return 0;
}

int evbuffer_commit_space(struct evbuffer *buf, struct evbuffer_iovec *vec, int n_vecs)
{
    gs_ev_buffer_lock(buf);
    int result = -1;
    if (!buf->is_back_frozen)
        result = n_vecs > 0 ? commit(buf, vec, n_vecs) : 0;
    if (!result)
        gs_ev_buffer_changed(buf);
    gs_ev_buffer_unlock(buf);
    return result;
}
