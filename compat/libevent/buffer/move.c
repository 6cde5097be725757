/* Moving bytes from buffer to buffer. */
#include "compat/libevent/buffer/buffer.h"
#include "compat/libevent/event/memory.h"

#include <limits.h>

static int move_all(struct evbuffer *dst, struct evbuffer *src, bool to_front)
{
    gs_ev_buffer_lock_both(dst, src);
    int result = 0;
    if (!src->length || dst == src)
        goto unlock;
    if ((to_front ? dst->is_front_frozen : dst->is_back_frozen) || src->is_front_frozen ||
        src->length > GS_EV_BUFFER_MAX - dst->length) {
        result = -1;
        goto unlock;
    }
    if (to_front)
        gs_ev_buffer_splice_front(dst, src);
    else
        gs_ev_buffer_splice_back(dst, src);
    gs_ev_buffer_changed(src);
    gs_ev_buffer_changed(dst);
unlock:
    gs_ev_buffer_unlock_both(dst, src);
    return result;
}

int evbuffer_add_buffer(struct evbuffer *outbuf, struct evbuffer *inbuf)
{
    return move_all(outbuf, inbuf, false);
}

int evbuffer_prepend_buffer(struct evbuffer *dst, struct evbuffer *src)
{
    return move_all(dst, src, true);
}

/* Move the first chains, which have `n` bytes or the more. Returns how many bytes were moved. */
static size_t move_chains(struct evbuffer *dst, struct evbuffer *src, size_t n)
{
    size_t moved = 0;
    struct gs_ev_chain *chain = src->first;
    while (chain && chain->length <= n - moved) {
        moved += chain->length;
        src->first = chain->next;
        gs_ev_buffer_append(dst, chain);
        chain = src->first;
    }
    src->length -= moved;
    src->removed += moved;
    return moved;
}

/* Move fewer bytes than there are, the last of them by copying. */
static int remove_part(struct evbuffer *src, struct evbuffer *dst, size_t n)
{
    size_t moved = move_chains(dst, src, n);
    size_t rest = n - moved;
    if (!rest) {
        gs_ev_buffer_changed(dst);
    } else if (gs_ev_buffer_load(src) || evbuffer_add(dst, gs_ev_chain_bytes(src->first), rest)) {
        gs_ev_buffer_changed(dst);
        n = moved;
    } else {
        gs_ev_buffer_cut(src, rest);
    }
    gs_ev_buffer_changed(src);
    return n ? (int)n : -1;
}

int evbuffer_remove_buffer(struct evbuffer *src, struct evbuffer *dst, size_t datlen)
{
    gs_ev_buffer_lock_both(src, dst);
    int result = -1;
    if (datlen > INT_MAX)
        datlen = INT_MAX;
    if (!datlen || dst == src)
        result = 0;
    else if (dst->is_back_frozen || src->is_front_frozen)
        result = -1;
    else if (datlen < src->length)
        result = remove_part(src, dst, datlen);
    else {
        size_t n = src->length;
        result = evbuffer_add_buffer(dst, src) ? -1 : (int)n;
    }
    gs_ev_buffer_unlock_both(src, dst);
    return result;
}

/* ---- References to the bytes of other buffers ---- */

static struct gs_ev_chain *share(struct gs_ev_chain *chain)
{
    struct gs_ev_outside_chain *outside = gs_ev_chain_new_outside(GS_EV_CHAIN_SHARED);
    if (!outside)
        return NULL;
    outside->chain.memory = gs_ev_chain_bytes(chain);
    outside->chain.capacity = outside->chain.length = chain->length;
    outside->origin.shared = chain;
    atomic_fetch_add(&chain->references, 1);
    return &outside->chain;
}

/* Make chains of all bytes of a buffer. Returns the list, or NULL. */
static struct gs_ev_chain *share_all(const struct evbuffer *buffer)
{
    struct gs_ev_chain *list = NULL, **link = &list;
    for (struct gs_ev_chain *chain = buffer->first; chain; chain = chain->next) {
        *link = share(chain);
        if (!*link)
            goto free_list;
        link = &(*link)->next;
    }
    return list;

free_list:
    while (list) {
        struct gs_ev_chain *next = list->next;
        gs_ev_chain_free(list);
        list = next;
    }
    return NULL;
}

/* Whether every chain can have further references. */
static bool is_shareable(const struct evbuffer *buffer)
{
    const struct gs_ev_chain *chain = buffer->first;
    while (chain && (chain->kind == GS_EV_CHAIN_OWN || chain->kind == GS_EV_CHAIN_BORROWED))
        chain = chain->next;
    return !chain;
}

static int add_shared(struct evbuffer *to, const struct evbuffer *from)
{
    if (to->is_back_frozen || to == from || from->length > GS_EV_BUFFER_MAX - to->length ||
        !is_shareable(from))
        return -1;
    struct gs_ev_chain *chain = share_all(from);
    if (!chain)
        return -1;
    while (chain) {
        struct gs_ev_chain *next = chain->next;
        gs_ev_buffer_append(to, chain);
        chain = next;
    }
    return 0;
}

int evbuffer_add_buffer_reference(struct evbuffer *outbuf, struct evbuffer *inbuf)
{
    gs_ev_buffer_lock_both(outbuf, inbuf);
    int result = inbuf->length ? add_shared(outbuf, inbuf) : 0;
    if (!result)
        gs_ev_buffer_changed(outbuf);
    gs_ev_buffer_unlock_both(outbuf, inbuf);
    return result;
}
