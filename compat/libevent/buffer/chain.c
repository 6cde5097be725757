/* Chains, and lists of them. */
#include "compat/libevent/buffer/buffer.h"
#include "compat/libevent/buffer/segment.h"
#include "compat/libevent/event/memory.h"

#include <assert.h>
#include <string.h>

/* With its header, a chain has at least the first size, and up to the second a power of 2: small
 * blocks are recycled well by allocators. Of a large one, which is for bytes of known number, only
 * the pages with bytes shall be touched: it is rounded up to the third. */
#define MIN_CHAIN ((size_t)1024)
#define MAX_POWER_OF_2 ((size_t)8192)
#define LARGE_UNIT ((size_t)16)

/* A buffer that grows has chains of twice the size of the last one, up to this. */
#define MAX_GROWN_CHAIN ((size_t)8192)

/* No more bytes than this are moved to the front of their chain to make room behind them. */
#define MAX_REALIGNED ((size_t)2048)

static size_t round_size(size_t size)
{
    if (size <= MIN_CHAIN)
        return MIN_CHAIN;
    if (size > MAX_POWER_OF_2)
        return (size + LARGE_UNIT - 1) & ~(LARGE_UNIT - 1);
    size_t rounded = 2 * MIN_CHAIN;
    while (rounded < size)
        rounded *= 2;
    return rounded;
}

/* Of this size with its header. */
static struct gs_ev_chain *new_chain(size_t size)
{
    struct gs_ev_chain *chain = gs_ev_malloc(size);
    if (!chain)
        return NULL;
    chain->next = NULL;
    chain->memory = (unsigned char *)(chain + 1);
    chain->capacity = size - sizeof *chain;
    chain->start = chain->length = 0;
    chain->kind = GS_EV_CHAIN_OWN;
    atomic_init(&chain->references, 1);
    return chain;
}

struct gs_ev_chain *gs_ev_chain_new(size_t capacity)
{
    if (capacity > GS_EV_BUFFER_MAX - sizeof(struct gs_ev_chain) - LARGE_UNIT)
        return NULL;
    return new_chain(round_size(capacity + sizeof(struct gs_ev_chain)));
}

struct gs_ev_chain *gs_ev_chain_new_exact(size_t capacity)
{
    if (capacity > GS_EV_BUFFER_MAX - sizeof(struct gs_ev_chain))
        return NULL;
    return new_chain(capacity + sizeof(struct gs_ev_chain));
}

struct gs_ev_outside_chain *gs_ev_chain_new_outside(enum gs_ev_chain_kind kind)
{
    struct gs_ev_outside_chain *outside = gs_ev_calloc(1, sizeof *outside);
    if (!outside)
        return NULL;
    outside->chain.kind = kind;
    atomic_init(&outside->chain.references, 1);
    return outside;
}

/* Returns whether this was the last reference. Acquire and release: the last owner frees what the
 * others have read. A single owner needs no write: nobody else could take a reference. */
static inline bool release(struct gs_ev_chain *chain)
{
    return atomic_load_explicit(&chain->references, memory_order_acquire) == 1 ||
           atomic_fetch_sub(&chain->references, 1) == 1;
}

void gs_ev_chain_free(struct gs_ev_chain *chain)
{
    while (chain && release(chain)) {
        if (chain->kind == GS_EV_CHAIN_OWN) {
            gs_ev_free(chain);
            return;
        }
        struct gs_ev_outside_chain *outside = (struct gs_ev_outside_chain *)chain;
        struct gs_ev_chain *shared = NULL;
        if (chain->kind == GS_EV_CHAIN_BORROWED && outside->origin.borrowed.cleanup)
            outside->origin.borrowed.cleanup(chain->memory, chain->capacity,
                                             outside->origin.borrowed.argument);
        else if (chain->kind == GS_EV_CHAIN_SHARED)
            shared = outside->origin.shared;
        else if (chain->kind == GS_EV_CHAIN_LOADED || chain->kind == GS_EV_CHAIN_FILE)
            evbuffer_file_segment_free(outside->origin.file.segment);
        gs_ev_free(chain);
        chain = shared;
    }
}

static void set_spare(struct evbuffer *buffer, struct gs_ev_chain *chain)
{
    struct gs_ev_chain *old = buffer->spare;
    buffer->spare = chain;
    if (old)
        gs_ev_chain_free(old);
}

void gs_ev_buffer_append(struct evbuffer *buffer, struct gs_ev_chain *chain)
{
    chain->next = NULL;
    if (!chain->length) {
        set_spare(buffer, chain);
        return;
    }
    if (buffer->spare && buffer->spare->kind != GS_EV_CHAIN_OWN)
        set_spare(buffer, NULL);
    if (buffer->last)
        buffer->last->next = chain;
    else
        buffer->first = chain;
    buffer->last = chain;
    buffer->length += chain->length;
    buffer->added += chain->length;
    buffer->has_files |= chain->kind == GS_EV_CHAIN_FILE;
}

static inline void cut_all(struct evbuffer *buffer)
{
    struct gs_ev_chain *chain = buffer->first;
    buffer->removed += buffer->length;
    buffer->first = buffer->last = NULL;
    buffer->length = 0;
    buffer->has_files = false;
    while (chain) {
        struct gs_ev_chain *next = chain->next;
        gs_ev_chain_free(chain);
        chain = next;
    }
    if (buffer->spare)
        set_spare(buffer, NULL);
}

void gs_ev_buffer_cut_chains(struct evbuffer *buffer, size_t n)
{
    if (n == buffer->length) {
        cut_all(buffer);
        return;
    }
    buffer->length -= n;
    buffer->removed += n;
    struct gs_ev_chain *chain = buffer->first;
    while (n >= chain->length) {
        n -= chain->length;
        buffer->first = chain->next;
        gs_ev_chain_free(chain);
        chain = buffer->first;
    }
    chain->start += n;
    chain->length -= n;
}

bool gs_ev_chain_realign(struct gs_ev_chain *chain, size_t n)
{
    if (!chain->start || chain->length >= chain->capacity / 2 || chain->length > MAX_REALIGNED ||
        chain->capacity - chain->length < n || !gs_ev_chain_is_exclusive(chain))
        return false;
    memmove(chain->memory, gs_ev_chain_bytes(chain), chain->length);
    chain->start = 0;
    return true;
}

struct gs_ev_chain *gs_ev_buffer_make_room(struct evbuffer *buffer, size_t n)
{
    struct gs_ev_chain *last = buffer->last;
    if (!n) /* a chain of a file has no address for any */
        n = 1;
    if (last && (gs_ev_chain_room(last) >= n || gs_ev_chain_realign(last, n)))
        return last;
    return gs_ev_buffer_make_spare(buffer, n) ? NULL : buffer->spare;
}

int gs_ev_buffer_make_spare(struct evbuffer *buffer, size_t n)
{
    /* A spare chain that is not the buffer's own was borrowed with no bytes. */
    if (buffer->spare && buffer->spare->kind == GS_EV_CHAIN_OWN && buffer->spare->capacity >= n)
        return 0;
    size_t grown = buffer->last && buffer->last->kind == GS_EV_CHAIN_OWN
                       ? buffer->last->capacity + sizeof *buffer->last
                       : 0;
    if (grown <= MAX_GROWN_CHAIN / 2)
        grown *= 2;
    else
        grown = MAX_GROWN_CHAIN;
    if (grown < n + sizeof *buffer->last)
        grown = n + sizeof *buffer->last;
    struct gs_ev_chain *chain =
        n <= GS_EV_BUFFER_MAX / 2 ? gs_ev_chain_new(grown - sizeof *chain) : NULL;
    if (!chain)
        return -1;
    set_spare(buffer, chain);
    return 0;
}

void gs_ev_buffer_extend(struct evbuffer *buffer, struct gs_ev_chain *chain, size_t n)
{
    if (chain == buffer->last) {
        chain->length += n;
        buffer->length += n;
        buffer->added += n;
    } else if (n) {
        buffer->spare = NULL;
        chain->length = n;
        gs_ev_buffer_append(buffer, chain);
    }
}

/* Take the list of `from`, which keeps its spare chain. */
static void forget(struct evbuffer *from)
{
    from->removed += from->length;
    from->first = from->last = NULL;
    from->length = 0;
    from->has_files = false;
}

void gs_ev_buffer_splice_back(struct evbuffer *to, struct evbuffer *from)
{
    if (to->last)
        to->last->next = from->first;
    else
        to->first = from->first;
    to->last = from->last;
    to->length += from->length;
    to->added += from->length;
    to->has_files |= from->has_files;
    forget(from);
}

void gs_ev_buffer_splice_front(struct evbuffer *to, struct evbuffer *from)
{
    from->last->next = to->first;
    to->first = from->first;
    if (!to->last)
        to->last = from->last;
    to->length += from->length;
    to->added += from->length;
    to->has_files |= from->has_files;
    forget(from);
}

int gs_ev_buffer_load_always(struct evbuffer *buffer)
{
    for (struct gs_ev_chain *chain = buffer->first; chain; chain = chain->next) {
        if (chain->kind != GS_EV_CHAIN_FILE)
            continue;
        struct gs_ev_outside_chain *outside = (struct gs_ev_outside_chain *)chain;
        const unsigned char *contents = gs_ev_segment_load(outside->origin.file.segment);
        if (!contents)
            return -1;
        chain->memory = (unsigned char *)(uintptr_t)contents + outside->origin.file.offset;
        chain->kind = GS_EV_CHAIN_LOADED;
    }
    buffer->has_files = false;
    return 0;
}

/* Long lists are not walked: each operation checks. */
#define MAX_CHECKED_CHAINS 64

void gs_ev_buffer_check(const struct evbuffer *buffer)
{
    size_t length = 0;
    int count = 0;
    const struct gs_ev_chain *chain = buffer->first;
    for (; chain && count < MAX_CHECKED_CHAINS; chain = chain->next, count++) {
        assert(chain->length); /* 1 */
        length += chain->length;
        assert(chain->start + chain->length <= chain->capacity); /* 2 */
        assert(chain->kind == GS_EV_CHAIN_OWN || !gs_ev_chain_room(chain));
        assert((chain->memory == NULL) == (chain->kind == GS_EV_CHAIN_FILE));
        assert(chain->next || chain == buffer->last);
        assert(chain->kind != GS_EV_CHAIN_FILE || buffer->has_files);
        assert(atomic_load(&chain->references) >= 1); /* 4 */
    }
    assert(chain || length == buffer->length);
    assert((buffer->first == NULL) == (buffer->last == NULL));
    assert(!buffer->spare || (!buffer->spare->length && !buffer->spare->next)); /* 3 */
    (void)length;
}
