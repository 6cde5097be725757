/* The buffers of event2/buffer.h from within: lists of chains, each a piece of memory or of a file.
 *
 *     first                       last
 *     [..bytes..] -> [bytes] -> [bytes....]        spare  [..........]
 *
 * Invariants (gs_ev_buffer_check):
 *   1. Each chain in the list has bytes; their sum is `length`. An empty buffer has no chains.
 *   2. start + length <= capacity. Only memory of the chain's own has capacity beyond its bytes:
 *      what is borrowed, shared or in a file ends with them, so it has no room to append.
 *   3. The spare chain is not in the list and has no bytes. It is where appended bytes go when the
 *      last chain is full.
 *   4. Bytes below start, and the place of the bytes, are those of the buffer only if
 *      `references` is 1: other buffers may read a shared chain.
 */
#ifndef GS_COMPAT_LIBEVENT_BUFFER_H
#define GS_COMPAT_LIBEVENT_BUFFER_H

#include "compat/libevent/event/lock.h"

#include <event2/buffer.h>
#include <event2/buffer_compat.h>
#include <event2/event_struct.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* No buffer is longer, so that each position is an ev_ssize_t. */
#define GS_EV_BUFFER_MAX ((size_t)EV_SSIZE_MAX)

enum gs_ev_chain_kind {
    GS_EV_CHAIN_OWN,      /* memory behind the header */
    GS_EV_CHAIN_BORROWED, /* of evbuffer_add_reference */
    GS_EV_CHAIN_SHARED,   /* of a chain of another buffer */
    GS_EV_CHAIN_LOADED,   /* of a file segment that is in memory */
    GS_EV_CHAIN_FILE,     /* of a file segment; memory is NULL */
};

struct gs_ev_chain {
    struct gs_ev_chain *next;
    unsigned char *memory;
    size_t capacity, start, length;
    enum gs_ev_chain_kind kind;
    atomic_uint references; /* the buffer's own, and those of shared chains */
};

/* A chain whose memory is not its own. */
struct gs_ev_outside_chain {
    struct gs_ev_chain chain;
    union {
        struct {
            evbuffer_ref_cleanup_cb cleanup;
            void *argument;
        } borrowed;
        struct gs_ev_chain *shared;
        struct {
            struct evbuffer_file_segment *segment;
            off_t offset; /* within the segment, of memory[0] */
        } file;
    } origin;
};

/* What contains the buffer, and stays valid while a callback of the buffer is deferred. */
struct gs_ev_buffer_parent {
    void (*hold)(void *object);
    void (*release)(void *object);
};

/* The callback is called at once even if the others are deferred. */
#define GS_EV_BUFFER_CB_NODEFER 2

struct evbuffer_cb_entry {
    struct evbuffer_cb_entry *next;
    union {
        evbuffer_cb_func changed;
        evbuffer_cb resized; /* of evbuffer_setcb */
    } call;
    void *argument;
    uint32_t flags;
    bool is_resized, is_removed;
};

struct evbuffer {
    struct gs_ev_chain *first, *last, *spare;
    size_t length;
    size_t added, removed; /* since the last callbacks */
    struct evbuffer_cb_entry *callbacks;
    void *lock;
    bool owns_lock, is_front_frozen, is_back_frozen, is_deferred;
    bool has_files;          /* there may be chains of GS_EV_CHAIN_FILE */
    bool has_removed;        /* callbacks to be freed once no walk is under way */
    unsigned walks;          /* of `callbacks`, nested */
    unsigned references;     /* of the program, and of a deferred callback; under the lock */
    uint64_t flags;          /* EVBUFFER_FLAG_... */
    struct event_base *base; /* which calls deferred callbacks */
    struct event_callback deferred;
    const struct gs_ev_buffer_parent *parent;
    void *parent_object;
};

/* ---- For bufferevents ---- */

/* parent: NULL: none. */
void gs_ev_buffer_set_parent(struct evbuffer *buffer, const struct gs_ev_buffer_parent *parent,
                             void *object);

/* A reference keeps the buffer after evbuffer_free. */
void gs_ev_buffer_hold_and_lock(struct evbuffer *buffer);
void gs_ev_buffer_release_and_unlock(struct evbuffer *buffer);

/* Call the callbacks, or schedule them, if bytes were added or removed. With the lock held. */
void gs_ev_buffer_changed_always(struct evbuffer *buffer);
static inline void gs_ev_buffer_changed(struct evbuffer *buffer)
{
    if (buffer->callbacks)
        gs_ev_buffer_changed_always(buffer);
    else
        buffer->added = buffer->removed = 0;
}

/* Free what the calling thread keeps for evbuffer_read. */
void gs_ev_buffer_shutdown(void);

/* ---- Chains ---- */

/* These return NULL if memory is missing or the size out of range. The first has at least this
 * capacity, the second just this, and the third is empty, for one of the other kinds. */
struct gs_ev_chain *gs_ev_chain_new(size_t capacity);
struct gs_ev_chain *gs_ev_chain_new_exact(size_t capacity);
struct gs_ev_outside_chain *gs_ev_chain_new_outside(enum gs_ev_chain_kind kind);

/* Release the reference of the buffer. */
void gs_ev_chain_free(struct gs_ev_chain *chain);

static inline unsigned char *gs_ev_chain_bytes(const struct gs_ev_chain *chain)
{
    return chain->memory + chain->start;
}

/* How many bytes can be appended, and where. */
static inline size_t gs_ev_chain_room(const struct gs_ev_chain *chain)
{
    return chain->capacity - chain->start - chain->length;
}

static inline unsigned char *gs_ev_chain_end(const struct gs_ev_chain *chain)
{
    return chain->memory + chain->start + chain->length;
}

/* Whether the bytes may be moved within the memory, and others written before them. */
static inline bool gs_ev_chain_is_exclusive(const struct gs_ev_chain *chain)
{
    return chain->kind == GS_EV_CHAIN_OWN && atomic_load(&chain->references) == 1;
}

/* Move few bytes to the front of their memory if that makes room for n behind them. Returns whether
 * it did. */
bool gs_ev_chain_realign(struct gs_ev_chain *chain, size_t n);

/* ---- Lists of chains; none of these calls callbacks ---- */

/* Append a chain with bytes, or one without, which becomes the spare chain. Takes it. */
void gs_ev_buffer_append(struct evbuffer *buffer, struct gs_ev_chain *chain);

/* Remove the first n bytes, n <= length, which is not 0. */
void gs_ev_buffer_cut_chains(struct evbuffer *buffer, size_t n);
static inline void gs_ev_buffer_cut(struct evbuffer *buffer, size_t n)
{
    struct gs_ev_chain *first = buffer->first;
    if (n >= first->length) {
        gs_ev_buffer_cut_chains(buffer, n);
        return;
    }
    first->start += n;
    first->length -= n;
    buffer->length -= n;
    buffer->removed += n;
}

/* Make the last chain, or the spare one, have room for n contiguous bytes. Returns the chain, or
 * NULL. */
struct gs_ev_chain *gs_ev_buffer_make_room(struct evbuffer *buffer, size_t n);

/* Count n bytes that were written behind the end of this chain, the last or the spare one. */
void gs_ev_buffer_extend(struct evbuffer *buffer, struct gs_ev_chain *chain, size_t n);

/* Make the spare chain have n bytes of room. Returns 0 or -1. */
int gs_ev_buffer_make_spare(struct evbuffer *buffer, size_t n);

/* Move the list of `from` behind (or before) that of `to`. */
void gs_ev_buffer_splice_back(struct evbuffer *to, struct evbuffer *from);
void gs_ev_buffer_splice_front(struct evbuffer *to, struct evbuffer *from);

/* Bring files into memory, so that each chain has its bytes there. Returns 0 or -1. */
int gs_ev_buffer_load_always(struct evbuffer *buffer);
static inline int gs_ev_buffer_load(struct evbuffer *buffer)
{
    return buffer->has_files ? gs_ev_buffer_load_always(buffer) : 0;
}

/* Assert the invariants. */
void gs_ev_buffer_check(const struct evbuffer *buffer);

/* ---- Locks ---- */

static inline void gs_ev_buffer_lock(struct evbuffer *buffer)
{
    gs_ev_lock(buffer->lock);
}

static inline void gs_ev_buffer_unlock(struct evbuffer *buffer)
{
#ifndef NDEBUG
    gs_ev_buffer_check(buffer);
#endif
    gs_ev_unlock(buffer->lock);
}

/* In one order, so that two threads cannot wait for each other. */
void gs_ev_buffer_lock_both(struct evbuffer *a, struct evbuffer *b);
void gs_ev_buffer_unlock_both(struct evbuffer *a, struct evbuffer *b);

#endif
