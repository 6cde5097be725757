/* Most of a session of libnghttp2 is the block of 16 KiB in which it builds a frame. What is built
 * there is copied into the output before the call ends: so all sessions of a service or worker,
 * which run one at a time, have the same block. It is the only large one that is allocated while a
 * session starts. */
#include "http2/session.h"

#include <malloc.h>
#include <stdlib.h>

#define BLOCK_MIN ((size_t)16384)

static void *block_of(const struct gs_http2_session *session)
{
    return session->block ? *session->block : NULL;
}

static void *take_block(struct gs_http2_session *session, size_t n)
{
    void **block = session->block;
    if (!*block)
        *block = malloc(n);
    else if (malloc_usable_size(*block) < n)
        return NULL;
    session->has_block = *block != NULL;
    return *block;
}

static bool is_block(const struct gs_http2_session *session, const void *memory)
{
    return memory && session->has_block && memory == block_of(session);
}

void *gs_http2_realloc(struct gs_http2_session *session, void *memory, size_t n)
{
    size_t before = memory ? malloc_usable_size(memory) : 0;
    void *moved = realloc(memory, n);
    if (moved)
        session->allocated += malloc_usable_size(moved) - before;
    return moved;
}

void gs_http2_release(struct gs_http2_session *session, void *memory)
{
    session->allocated -= memory ? malloc_usable_size(memory) : 0;
    free(memory);
}

static void *allocate(size_t n, void *data)
{
    struct gs_http2_session *session = data;
    if (n >= BLOCK_MIN && session->is_starting && !session->has_block)
        return take_block(session, n);
    return gs_http2_realloc(session, NULL, n ? n : 1);
}

static void release(void *memory, void *data)
{
    struct gs_http2_session *session = data;
    if (is_block(session, memory))
        session->has_block = false;
    else
        gs_http2_release(session, memory);
}

static void *allocate_zeroed(size_t count, size_t n, void *data)
{
    void *memory = count && n > SIZE_MAX / count ? NULL : allocate(count * n, data);
    if (memory)
        memset(memory, 0, count * n);
    return memory;
}

static void *reallocate(void *memory, size_t n, void *data)
{
    struct gs_http2_session *session = data;
    if (!memory)
        return allocate(n, data);
    if (!is_block(session, memory))
        return gs_http2_realloc(session, memory, n ? n : 1);
    void *moved = gs_http2_realloc(session, NULL, n);
    if (moved) {
        size_t size = malloc_usable_size(memory);
        memcpy(moved, memory, n < size ? n : size);
        session->has_block = false;
    }
    return moved;
}

void gs_http2_memory_init(struct gs_http2_session *session)
{
    session->memory = (nghttp2_mem){
        .mem_user_data = session,
        .malloc = allocate,
        .free = release,
        .calloc = allocate_zeroed,
        .realloc = reallocate,
    };
}
