/* The life cycle of buffers, their locks, flags and lengths. */
#include "compat/libevent/buffer/buffer.h"
#include "compat/libevent/event/memory.h"

#include <assert.h>

struct evbuffer *evbuffer_new(void)
{
    struct evbuffer *buffer = gs_ev_calloc(1, sizeof *buffer);
    if (buffer)
        buffer->references = 1;
    return buffer;
}

void gs_ev_buffer_hold_and_lock(struct evbuffer *buffer)
{
    gs_ev_buffer_lock(buffer);
    buffer->references++;
}

/* A deferred callback that is scheduled has a reference, so there is none: the base, which may be
 * gone, is not asked. */
static void destroy(struct evbuffer *buffer)
{
    struct gs_ev_chain *next;
    for (struct gs_ev_chain *chain = buffer->first; chain; chain = next) {
        next = chain->next;
        gs_ev_chain_free(chain);
    }
    gs_ev_chain_free(buffer->spare);
    while (buffer->callbacks) {
        struct evbuffer_cb_entry *entry = buffer->callbacks;
        buffer->callbacks = entry->next;
        gs_ev_free(entry);
    }
    gs_ev_unlock(buffer->lock);
    if (buffer->owns_lock)
        gs_ev_lock_free(buffer->lock);
    gs_ev_free(buffer);
}

void gs_ev_buffer_release_and_unlock(struct evbuffer *buffer)
{
    assert(buffer->references > 0);
    if (--buffer->references > 0)
        gs_ev_buffer_unlock(buffer);
    else
        destroy(buffer);
}

void evbuffer_free(struct evbuffer *buf)
{
    gs_ev_buffer_lock(buf);
    gs_ev_buffer_release_and_unlock(buf);
}

int evbuffer_enable_locking(struct evbuffer *buf, void *lock)
{
    if (buf->lock)
        return -1;
    buf->owns_lock = !lock;
    buf->lock = lock ? lock : gs_ev_lock_new();
    return buf->lock ? 0 : -1;
}

void evbuffer_lock(struct evbuffer *buf)
{
    gs_ev_buffer_lock(buf);
}

void evbuffer_unlock(struct evbuffer *buf)
{
    gs_ev_buffer_unlock(buf);
}

void gs_ev_buffer_lock_both(struct evbuffer *a, struct evbuffer *b)
{
    void *first = a->lock, *second = b->lock;
    if ((uintptr_t)first > (uintptr_t)second) {
        first = b->lock;
        second = a->lock;
    }
    gs_ev_lock(first);
    if (second != first)
        gs_ev_lock(second);
}

void gs_ev_buffer_unlock_both(struct evbuffer *a, struct evbuffer *b)
{
    gs_ev_buffer_unlock(a);
    if (a->lock != b->lock)
        gs_ev_buffer_unlock(b);
}

int evbuffer_set_flags(struct evbuffer *buf, ev_uint64_t flags)
{
    gs_ev_buffer_lock(buf);
    buf->flags |= flags;
    gs_ev_buffer_unlock(buf);
    return 0;
}

int evbuffer_clear_flags(struct evbuffer *buf, ev_uint64_t flags)
{
    gs_ev_buffer_lock(buf);
    buf->flags &= ~flags;
    gs_ev_buffer_unlock(buf);
    return 0;
}

static int set_frozen(struct evbuffer *buffer, int at_front, bool is_frozen)
{
    gs_ev_buffer_lock(buffer);
    if (at_front)
        buffer->is_front_frozen = is_frozen;
    else
        buffer->is_back_frozen = is_frozen;
    gs_ev_buffer_unlock(buffer);
    return 0;
}

int evbuffer_freeze(struct evbuffer *buf, int at_front)
{
    return set_frozen(buf, at_front, true);
}

int evbuffer_unfreeze(struct evbuffer *buf, int at_front)
{
    return set_frozen(buf, at_front, false);
}

size_t evbuffer_get_length(const struct evbuffer *buf)
{
    gs_ev_lock(buf->lock);
    size_t length = buf->length;
    gs_ev_unlock(buf->lock);
    return length;
}

size_t evbuffer_get_contiguous_space(const struct evbuffer *buf)
{
    gs_ev_lock(buf->lock);
    size_t length = buf->first ? buf->first->length : 0;
    gs_ev_unlock(buf->lock);
    return length;
}
