/* Removing bytes from buffers, and looking at them. */
#include "compat/libevent/buffer/buffer.h"

#include <limits.h>
#include <string.h>

int evbuffer_drain(struct evbuffer *buf, size_t len)
{
    gs_ev_buffer_lock(buf);
    int result = 0;
    if (buf->length) {
        result = buf->is_front_frozen ? -1 : 0;
        if (!result) {
            gs_ev_buffer_cut(buf, len < buf->length ? len : buf->length);
            gs_ev_buffer_changed(buf);
        }
    }
    gs_ev_buffer_unlock(buf);
    return result;
}

/* Copy n bytes, which are there. */
static void copy(unsigned char *to, const struct gs_ev_chain *chain, size_t skipped, size_t n)
{
    while (n) {
        size_t piece = chain->length - skipped;
        if (piece > n)
            piece = n;
        memcpy(to, gs_ev_chain_bytes(chain) + skipped, piece);
        to += piece;
        n -= piece;
        chain = chain->next;
        skipped = 0;
    }
}

ev_ssize_t evbuffer_copyout_from(struct evbuffer *buf, const struct evbuffer_ptr *pos,
                                 void *data_out, size_t datlen)
{
    gs_ev_buffer_lock(buf);
    size_t before = pos ? (size_t)pos->pos : 0;
    ev_ssize_t result = -1;
    if (before > buf->length)
        goto unlock;
    size_t n = buf->length - before;
    if (n > datlen)
        n = datlen;
    if (!n) {
        result = 0;
        goto unlock;
    }
    if (buf->is_front_frozen || gs_ev_buffer_load(buf))
        goto unlock;
    if (pos)
        copy(data_out, pos->internal_.chain, pos->internal_.pos_in_chain, n);
    else
        copy(data_out, buf->first, 0, n);
    result = (ev_ssize_t)n;
unlock:
    gs_ev_buffer_unlock(buf);
    return result;
}

ev_ssize_t evbuffer_copyout(struct evbuffer *buf, void *data_out, size_t datlen)
{
    return evbuffer_copyout_from(buf, NULL, data_out, datlen);
}

/* The result is an int: no more bytes than it can tell are removed. */
int evbuffer_remove(struct evbuffer *buf, void *data, size_t datlen)
{
    gs_ev_buffer_lock(buf);
    ev_ssize_t n = evbuffer_copyout_from(buf, NULL, data, datlen < INT_MAX ? datlen : INT_MAX);
    if (n > 0) {
        gs_ev_buffer_cut(buf, (size_t)n);
        gs_ev_buffer_changed(buf);
    }
    gs_ev_buffer_unlock(buf);
    return (int)n;
}

/* Returns a chain with the first bytes and room for `size` in all, which is not in the list any
 * more or not yet, or NULL. */
static struct gs_ev_chain *take_target(struct evbuffer *buffer, size_t size)
{
    struct gs_ev_chain *first = buffer->first;
    if (gs_ev_chain_is_exclusive(first) && first->capacity >= size) {
        if (first->capacity - first->start < size) {
            memmove(first->memory, gs_ev_chain_bytes(first), first->length);
            first->start = 0;
        }
        buffer->first = first->next;
        return first;
    }
    return gs_ev_chain_new_exact(size);
}

static unsigned char *join(struct evbuffer *buffer, size_t size)
{
    struct gs_ev_chain *target = take_target(buffer, size);
    if (!target)
        return NULL;
    size_t missing = size - target->length;
    unsigned char *to = gs_ev_chain_end(target);
    struct gs_ev_chain *chain = buffer->first;
    while (missing) {
        size_t piece = chain->length < missing ? chain->length : missing;
        memcpy(to, gs_ev_chain_bytes(chain), piece);
        to += piece;
        missing -= piece;
        if (piece < chain->length) {
            chain->start += piece;
            chain->length -= piece;
            break;
        }
        struct gs_ev_chain *next = chain->next;
        gs_ev_chain_free(chain);
        chain = next;
    }
    target->length = size;
    target->next = chain;
    buffer->first = target;
    if (!chain)
        buffer->last = target;
    return gs_ev_chain_bytes(target);
}

static unsigned char *pull_up(struct evbuffer *buf, ev_ssize_t size)
{
    gs_ev_buffer_lock(buf);
    unsigned char *bytes = NULL;
    size_t wanted = size < 0 ? buf->length : (size_t)size;
    if (buf->first && wanted && wanted <= buf->length && !gs_ev_buffer_load(buf))
        bytes = wanted <= buf->first->length ? gs_ev_chain_bytes(buf->first) : join(buf, wanted);
    gs_ev_buffer_unlock(buf);
    return bytes;
}

unsigned char *evbuffer_pullup(struct evbuffer *buf, ev_ssize_t size)
{
    /* If there is a lock, nothing else may be read without it. */
    if (buf->lock || buf->has_files)
        return pull_up(buf, size);
    const struct gs_ev_chain *first = buf->first;
    bool is_together = first && size > 0 && (size_t)size <= first->length;
    return is_together ? gs_ev_chain_bytes(first) : pull_up(buf, size);
}

int evbuffer_peek(struct evbuffer *buffer, ev_ssize_t len, struct evbuffer_ptr *start_at,
                  struct evbuffer_iovec *vec_out, int n_vec)
{
    if (start_at && !start_at->internal_.chain)
        return 0;
    gs_ev_buffer_lock(buffer);
    int count = 0;
    if (gs_ev_buffer_load(buffer))
        goto unlock;
    const struct gs_ev_chain *chain = start_at ? start_at->internal_.chain : buffer->first;
    size_t skipped = start_at ? start_at->internal_.pos_in_chain : 0;
    /* Everything: what there is, or as much as there are extents for. */
    size_t wanted = len < 0 ? SIZE_MAX : (size_t)len, seen = 0;
    /* At a position there is always an extent, even for no bytes. */
    for (; chain && (seen < wanted || (start_at && !count)); chain = chain->next) {
        if (count < n_vec) {
            vec_out[count].iov_base = gs_ev_chain_bytes(chain) + skipped;
            vec_out[count].iov_len = chain->length - skipped;
        } else if (len < 0 && n_vec > 0) {
            break;
        }
        seen += chain->length - skipped;
        skipped = 0;
        count++;
    }
unlock:
    gs_ev_buffer_unlock(buffer);
    return count;
}
