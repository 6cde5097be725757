/* Most of a session of libnghttp2 is memory that an idle one does not use. Since a service runs one
 * session at a time, its sessions have it at the same addresses:
 *
 *   - the block of 16 KiB in which a frame is built. What is built there is copied into the output
 *     before the call ends. It is the only large one that is allocated while a session starts.
 *   - the table of the streams, 4 KiB, which consists of zeros while there are none. It contains
 *     that of the session that ran last, its owner. When another one runs, it is copied to memory
 *     of its owner's, unless it is zero.
 *
 * Each owner has the memory for its table from the beginning, so that only a session without
 * streams can fail to become one. */
#include "http2/session.h"

#include <malloc.h>
#include <stdlib.h>

#define BLOCK_MIN ((size_t)16384)
#define TABLE_N ((size_t)4096)

struct gs_http2_table {
    struct gs_http2_session *owner; /* NULL: the table is zero */
    char bytes[TABLE_N];
};

/* ---- The table of streams ---- */

static struct gs_http2_table *table_of(const struct gs_http2_session *session)
{
    return session->conn->service->http2_table;
}

static bool is_zero(const struct gs_http2_table *table)
{
    return !table->bytes[0] && !memcmp(table->bytes, table->bytes + 1, TABLE_N - 1);
}

/* Returns memory for a table, if the owner needs it no more. */
static void *put_away(struct gs_http2_table *table)
{
    struct gs_http2_session *owner = table->owner;
    void *memory = NULL;
    if (!owner)
        return NULL;
    table->owner = NULL;
    if (is_zero(table)) {
        memory = owner->table;
        owner->table = NULL;
    } else {
        memcpy(owner->table, table->bytes, TABLE_N);
        memset(table->bytes, 0, TABLE_N);
    }
    return memory;
}

bool gs_http2_take_table(struct gs_http2_session *session)
{
    struct gs_http2_table *table = table_of(session);
    if (!session->has_table || table->owner == session)
        return true;
    void *memory = put_away(table);
    if (session->table) {
        free(memory);
        memcpy(table->bytes, session->table, TABLE_N);
    } else {
        session->table = memory ? memory : malloc(TABLE_N);
        if (!session->table)
            return false;
    }
    table->owner = session;
    return true;
}

static void *start_table(struct gs_http2_session *session)
{
    struct gs_http_service *service = session->conn->service;
    if (!service->http2_table)
        service->http2_table = calloc(1, sizeof *service->http2_table);
    session->has_table = service->http2_table != NULL;
    if (session->has_table && gs_http2_take_table(session))
        return service->http2_table->bytes;
    session->has_table = false;
    return NULL;
}

static void end_table(struct gs_http2_session *session)
{
    struct gs_http2_table *table = table_of(session);
    if (table->owner == session) {
        memset(table->bytes, 0, TABLE_N);
        table->owner = NULL;
    }
    free(session->table);
    session->table = NULL;
    session->has_table = false;
}

/* ---- The block ---- */

static void *take_block(struct gs_http2_session *session, size_t n)
{
    struct gs_http_service *service = session->conn->service;
    if (!service->http2_block)
        service->http2_block = malloc(n);
    else if (malloc_usable_size(service->http2_block) < n)
        return NULL;
    session->has_block = service->http2_block != NULL;
    return service->http2_block;
}

static bool is_block(const struct gs_http2_session *session, const void *memory)
{
    return memory && session->has_block && memory == session->conn->service->http2_block;
}

/* ---- Memory of the session's own ---- */

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

/* ---- For libnghttp2, which does not change the size of the table ---- */

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
    else if (session->has_table && memory == table_of(session)->bytes)
        end_table(session);
    else
        gs_http2_release(session, memory);
}

static void *allocate_zeroed(size_t count, size_t n, void *data)
{
    struct gs_http2_session *session = data;
    if (session->is_starting && !session->has_table && count > 1 && count * n == TABLE_N)
        return start_table(session);
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
