/* Most of a session of libnghttp2 is memory that an idle one does not use. Since a service, or a
 * worker of gs_http_serve, runs one session at a time, its sessions have it at the same addresses:
 *
 *   - the block of 16 KiB in which a frame is built. What is built there is copied into the output
 *     before the call ends. It is the only large one that is allocated while a session starts.
 *   - the desk, of a service only: the table of the streams, 4 KiB, and those of the fields that
 *     either side refers to, 1 KiB each. They are almost empty while there are no streams. The desk
 *     has the contents of the session that ran last, its owner. When another one runs, the lines of
 *     the desk that are not zero are copied to memory of the owner's.
 *   - spare memory, also at the desk: what was freed is used again, since each stream allocates the
 *     same sizes, and the C library takes longer for that.
 *
 * Each owner has a reserve for that from the beginning, in case memory is exhausted then. A session
 * that finds none for its reserve ends. */
#include "base/sanitized.h"
#include "http2/session.h"

#include <assert.h>
#include <malloc.h>
#include <stdlib.h>

#define BLOCK_MIN ((size_t)16384)
#define TABLE_N ((size_t)4096)
#define FIELDS_N ((size_t)1024)
#define LINE_N sizeof(struct line)
#define LINES ((TABLE_N + 2 * FIELDS_N) / LINE_N)

/* Spare memory of 24, 40, 56 bytes and so on, as the C library rounds sizes. With the address
 * sanitizer there is none, so that it finds what is used after it was freed. */
#define SPARE_CLASSES 32
#define SPARE_BYTES_MAX (GS_ASAN ? 0 : (size_t)16384) /* of a service, about */
#define SPARE_STEP 16
#define SPARE_MORE 8 /* bytes above a multiple of the step */

struct spare {
    struct spare *next;
};

typedef uint64_t vector __attribute__((vector_size(16)));

struct line {
    vector vectors[8];
};

struct gs_http2_desk {
    struct gs_http2_session *owner; /* NULL: all lines are zero */
    struct spare *spares[SPARE_CLASSES];
    size_t spare_bytes;
    struct line lines[LINES];
};

struct gs_http2_packed {
    uint64_t map; /* a bit for each line that is not zero; these follow */
    struct line lines[];
};

_Static_assert(LINES <= 64, "a bit for each line");

/* ---- The desk ---- */

enum { TABLE = 1, FIELDS = 2, OTHER_FIELDS = 4 }; /* its parts */

static struct gs_http2_desk *desk_of(const struct gs_http2_session *session)
{
    return session->desk ? *session->desk : NULL;
}

static bool is_zero(const struct line *line)
{
    const vector *at = line->vectors;
    vector sum = at[0] | at[1] | at[2] | at[3] | at[4] | at[5] | at[6] | at[7];
    return !(sum[0] | sum[1]);
}

static uint64_t used_lines(const struct gs_http2_desk *desk)
{
    uint64_t map = 0;
    for (unsigned i = 0; i < LINES; i++)
        if (!is_zero(&desk->lines[i]))
            map |= UINT64_C(1) << i;
    return map;
}

static void pack(struct gs_http2_desk *desk, uint64_t map, struct gs_http2_packed *packed)
{
    struct line *at = packed->lines;
    packed->map = map;
    for (; map; map &= map - 1) {
        struct line *line = &desk->lines[__builtin_ctzll(map)];
        *at++ = *line;
        *line = (struct line){0};
    }
}

static void unpack(struct gs_http2_desk *desk, const struct gs_http2_packed *packed)
{
    const struct line *at = packed->lines;
    for (uint64_t map = packed->map; map; map &= map - 1)
        desk->lines[__builtin_ctzll(map)] = *at++;
}

static size_t packed_size(uint64_t map)
{
    return sizeof(struct gs_http2_packed) + (size_t)__builtin_popcountll(map) * LINE_N;
}

/* Returns the owner's reserve, unless that was needed; NULL, too, if there is no owner. */
static void *put_away(struct gs_http2_desk *desk)
{
    struct gs_http2_session *owner = desk->owner;
    if (!owner)
        return NULL;
    uint64_t map = used_lines(desk);
    void *reserve = owner->reserve;
    owner->reserve = NULL;
    desk->owner = NULL;
    if (!map)
        return reserve;
    owner->packed = malloc(packed_size(map));
    if (!owner->packed) {
        owner->packed = reserve;
        reserve = NULL;
    }
    pack(desk, map, owner->packed);
    return reserve;
}

bool gs_http2_take_desk(struct gs_http2_session *session)
{
    struct gs_http2_desk *desk = desk_of(session);
    if (!session->parts || desk->owner == session)
        return true;
    session->reserve = put_away(desk);
    if (!session->reserve)
        session->reserve = malloc(packed_size(UINT64_MAX));
    if (session->packed)
        unpack(desk, session->packed);
    free(session->packed);
    session->packed = NULL;
    desk->owner = session;
    return session->reserve;
}

static char *part_at(const struct gs_http2_desk *desk, unsigned part)
{
    return (char *)desk->lines + (part == TABLE ? 0 : TABLE_N + (part == FIELDS ? 0 : FIELDS_N));
}

static void drop_part(struct gs_http2_session *session, unsigned part)
{
    struct gs_http2_desk *desk = desk_of(session);
    assert(desk->owner == session);
    memset(part_at(desk, part), 0, part == TABLE ? TABLE_N : FIELDS_N);
    session->parts &= (uint8_t)~part;
    if (session->parts)
        return;
    desk->owner = NULL;
    free(session->reserve);
    session->reserve = NULL;
}

static void *take_part(struct gs_http2_session *session, unsigned part)
{
    if (!*session->desk)
        *session->desk = calloc(1, sizeof **session->desk);
    if (!*session->desk)
        return NULL;
    session->parts |= (uint8_t)part;
    if (gs_http2_take_desk(session))
        return part_at(*session->desk, part);
    drop_part(session, part);
    return NULL;
}

/* The part that is at this address; 0: none. */
static unsigned part_of(const struct gs_http2_session *session, const void *memory)
{
    const struct gs_http2_desk *desk = desk_of(session);
    if (!session->parts || (uintptr_t)memory - (uintptr_t)desk >= sizeof *desk)
        return 0;
    unsigned part = TABLE;
    while (memory != part_at(desk, part))
        part *= 2;
    return part;
}

/* ---- The block ---- */

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
    return memory && session->has_block && memory == *session->block;
}

/* ---- Spare memory ---- */

static size_t spare_size(size_t class)
{
    return class * SPARE_STEP + SPARE_MORE;
}

/* Returns n bytes or more, or NULL: there is none. */
static void *take_spare(struct gs_http2_session *session, size_t n)
{
    struct gs_http2_desk *desk = desk_of(session);
    size_t class = n > spare_size(1) ? (n - SPARE_MORE + SPARE_STEP - 1) / SPARE_STEP : 1;
    if (!desk || class >= SPARE_CLASSES || !desk->spares[class])
        return NULL;
    struct spare *spare = desk->spares[class];
    desk->spares[class] = spare->next;
    desk->spare_bytes -= spare_size(class);
    session->allocated += spare_size(class);
    return spare;
}

/* Returns false if it is to be freed. size: all that may be used of it. */
static bool keep_spare(struct gs_http2_session *session, void *memory, size_t size)
{
    struct gs_http2_desk *desk = desk_of(session);
    size_t class = size / SPARE_STEP;
    if (!desk || size != spare_size(class) || !class || class >= SPARE_CLASSES ||
        desk->spare_bytes >= SPARE_BYTES_MAX)
        return false;
    struct spare *spare = memory;
    spare->next = desk->spares[class];
    desk->spares[class] = spare;
    desk->spare_bytes += size;
    return true;
}

void gs_http2_free_spares(struct gs_http2_desk *desk)
{
    for (size_t i = 0; desk && i < SPARE_CLASSES; i++)
        while (desk->spares[i]) {
            struct spare *spare = desk->spares[i];
            desk->spares[i] = spare->next;
            desk->spare_bytes -= spare_size(i);
            free(spare);
        }
}

void gs_http2_free_shared(void *block, struct gs_http2_desk *desk)
{
    gs_http2_free_spares(desk);
    free(block);
    free(desk);
}

/* ---- Memory of the session's own ---- */

void *gs_http2_realloc(struct gs_http2_session *session, void *memory, size_t n)
{
    void *spare = memory ? NULL : take_spare(session, n);
    if (spare)
        return spare;
    size_t before = memory ? malloc_usable_size(memory) : 0;
    void *moved = realloc(memory, n);
    if (moved)
        session->allocated += malloc_usable_size(moved) - before;
    return moved;
}

void gs_http2_release(struct gs_http2_session *session, void *memory)
{
    size_t size = memory ? malloc_usable_size(memory) : 0;
    session->allocated -= size;
    if (!keep_spare(session, memory, size))
        free(memory);
}

/* ---- For libnghttp2, which does not change the size of a part of the desk ---- */

static bool lacks_part(const struct gs_http2_session *session, unsigned part)
{
    return session->desk && session->is_starting && !(session->parts & part);
}

static void *allocate(size_t n, void *data)
{
    struct gs_http2_session *session = data;
    if (n >= BLOCK_MIN && session->is_starting && !session->has_block)
        return take_block(session, n);
    if (n == FIELDS_N && lacks_part(session, OTHER_FIELDS))
        return take_part(session, session->parts & FIELDS ? OTHER_FIELDS : FIELDS);
    return gs_http2_realloc(session, NULL, n ? n : 1);
}

static void release(void *memory, void *data)
{
    struct gs_http2_session *session = data;
    unsigned part = part_of(session, memory);
    if (is_block(session, memory))
        session->has_block = false;
    else if (part)
        drop_part(session, part);
    else
        gs_http2_release(session, memory);
}

static void *allocate_zeroed(size_t count, size_t n, void *data)
{
    struct gs_http2_session *session = data;
    if (count > 1 && count * n == TABLE_N && lacks_part(session, TABLE))
        return take_part(session, TABLE);
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
