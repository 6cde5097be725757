/* Operations on three buffers, chosen by bytes, beside a model: an array of bytes for each. What
 * differs ends the program. Used with random bytes, and by a fuzzer. */
#ifndef GS_TESTS_LIBEVENT_MODEL_H
#define GS_TESTS_LIBEVENT_MODEL_H

#include <event2/buffer.h>
#include <event2/util.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MODEL_BUFFERS 3
#define MODEL_MAX 65536 /* a longer buffer is emptied */
#define MODEL_SOURCE 5000

struct model {
    struct evbuffer *buffer;
    unsigned char bytes[2 * MODEL_MAX + MODEL_SOURCE];
    size_t length;
    bool front_frozen, back_frozen, has_foreign;
};

static struct {
    const unsigned char *at, *end; /* the bytes that choose */
    struct model models[MODEL_BUFFERS];
    unsigned char source[MODEL_SOURCE]; /* what is added */
    int file, sockets[2];               /* the file has the bytes of the source */
    uint64_t digest;                    /* of all results */
} model;

#define MODEL_EXPECT(condition)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);              \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* ---- Choices ---- */

static size_t choose(size_t count)
{
    size_t value = 0;
    for (size_t reach = 1; reach < count && model.at < model.end; reach *= 256)
        value = value * 256 + *model.at++;
    return value % count;
}

static size_t choose_size(void)
{
    static const size_t limits[] = {8, 64, 1100, MODEL_SOURCE};
    return choose(limits[choose(4)] + 1);
}

static const unsigned char *choose_source(size_t n)
{
    return model.source + choose(MODEL_SOURCE - n + 1);
}

static struct model *choose_model(void)
{
    return &model.models[choose(MODEL_BUFFERS)];
}

static long long result(long long value)
{
    model.digest = (model.digest ^ (uint64_t)value) * 1099511628211u;
    return value;
}

/* ---- The model ---- */

static void insert(struct model *m, size_t position, const unsigned char *bytes, size_t n)
{
    memmove(m->bytes + position + n, m->bytes + position, m->length - position);
    memmove(m->bytes + position, bytes, n);
    m->length += n;
}

static void cut(struct model *m, size_t n)
{
    memmove(m->bytes, m->bytes + n, m->length - n);
    m->length -= n;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- Operations ---- */

static void do_add(struct model *m)
{
    size_t n = choose_size();
    const unsigned char *bytes = choose_source(n);
    int got = (int)result(evbuffer_add(m->buffer, bytes, n));
    MODEL_EXPECT(got == (m->back_frozen ? -1 : 0));
    if (!got)
        insert(m, m->length, bytes, n);
}

static void do_prepend(struct model *m)
{
    size_t n = choose_size();
    const unsigned char *bytes = choose_source(n);
    int got = (int)result(evbuffer_prepend(m->buffer, bytes, n));
    MODEL_EXPECT(got == (m->front_frozen && n ? -1 : 0));
    if (!got)
        insert(m, 0, bytes, n);
}

static void do_reference(struct model *m)
{
    size_t n = choose_size();
    const unsigned char *bytes = choose_source(n);
    int got = (int)result(evbuffer_add_reference(m->buffer, bytes, n, NULL, NULL));
    MODEL_EXPECT(got == (m->back_frozen ? -1 : 0));
    if (!got)
        insert(m, m->length, bytes, n);
}

static void do_printf(struct model *m)
{
    int width = (int)choose_size() + 1;
    int got = (int)result(evbuffer_add_printf(m->buffer, "%*d", width, 7));
    MODEL_EXPECT(got == (m->back_frozen ? -1 : width));
    if (got < 0)
        return;
    memset(m->bytes + m->length, ' ', (size_t)width);
    m->length += (size_t)width;
    m->bytes[m->length - 1] = '7';
}

static void do_iovec(struct model *m)
{
    struct evbuffer_iovec extents[3];
    size_t total = 0, count = choose(4);
    for (size_t i = 0; i < count; i++) {
        extents[i].iov_len = choose_size();
        extents[i].iov_base = (void *)(uintptr_t)choose_source(extents[i].iov_len);
        total += extents[i].iov_len;
    }
    size_t got = (size_t)result((long long)evbuffer_add_iovec(m->buffer, extents, (int)count));
    MODEL_EXPECT(got == (m->back_frozen ? 0 : total));
    for (size_t i = 0; i < count && got; i++)
        insert(m, m->length, extents[i].iov_base, extents[i].iov_len);
}

static void do_reserve(struct model *m)
{
    struct evbuffer_iovec extents[2];
    size_t n = choose_size() + 1, kept = choose(n + 1);
    int count = evbuffer_reserve_space(m->buffer, (ev_ssize_t)n, extents, 1 + (int)choose(2));
    MODEL_EXPECT((count < 0) == m->back_frozen);
    const unsigned char *bytes = choose_source(n);
    size_t room = 0, rest = kept;
    for (int i = 0; i < count; i++) {
        size_t piece = smaller(rest, extents[i].iov_len);
        room += extents[i].iov_len;
        memcpy(extents[i].iov_base, bytes + (kept - rest), piece);
        extents[i].iov_len = piece;
        rest -= piece;
    }
    if (count < 0)
        return;
    MODEL_EXPECT(room >= n);
    MODEL_EXPECT(!result(evbuffer_commit_space(m->buffer, extents, count)));
    insert(m, m->length, bytes, kept);
}

static void do_expand(struct model *m)
{
    MODEL_EXPECT(!result(evbuffer_expand(m->buffer, choose_size())));
}

static void do_drain(struct model *m)
{
    size_t n = choose_size();
    int got = (int)result(evbuffer_drain(m->buffer, n));
    MODEL_EXPECT(got == (m->front_frozen && m->length ? -1 : 0));
    if (!got)
        cut(m, smaller(n, m->length));
}

static void do_remove(struct model *m)
{
    unsigned char out[MODEL_SOURCE];
    size_t n = choose_size(), expected = smaller(n, m->length);
    int got = (int)result(evbuffer_remove(m->buffer, out, n));
    if (m->front_frozen && expected) {
        MODEL_EXPECT(got == -1);
        return;
    }
    MODEL_EXPECT(got == (int)expected && !memcmp(out, m->bytes, expected));
    cut(m, expected);
}

static void do_copyout(struct model *m)
{
    unsigned char out[MODEL_SOURCE];
    struct evbuffer_ptr position;
    size_t n = choose_size(), from = choose(m->length + 1);
    size_t expected = smaller(n, m->length - from);
    MODEL_EXPECT(!evbuffer_ptr_set(m->buffer, &position, from, EVBUFFER_PTR_SET));
    ev_ssize_t got = (ev_ssize_t)result(evbuffer_copyout_from(m->buffer, &position, out, n));
    if (m->front_frozen && expected) {
        MODEL_EXPECT(got == -1);
        return;
    }
    MODEL_EXPECT(got == (ev_ssize_t)expected && !memcmp(out, m->bytes + from, expected));
}

static void do_pullup(struct model *m)
{
    size_t n = choose(m->length + 2);
    const unsigned char *bytes = evbuffer_pullup(m->buffer, (ev_ssize_t)n);
    MODEL_EXPECT(result(bytes != NULL) == (n > 0 && n <= m->length));
    MODEL_EXPECT(!bytes || !memcmp(bytes, m->bytes, n));
}

static void do_peek(struct model *m)
{
    struct evbuffer_iovec extents[16];
    struct evbuffer_ptr position;
    size_t from = choose(m->length + 1), n = choose(m->length + 1), seen = 0;
    MODEL_EXPECT(!evbuffer_ptr_set(m->buffer, &position, from, EVBUFFER_PTR_SET));
    int count = evbuffer_peek(m->buffer, (ev_ssize_t)n, &position, extents, 16);
    for (int i = 0; i < count && i < 16; i++) {
        MODEL_EXPECT(extents[i].iov_len <= m->length - from - seen);
        MODEL_EXPECT(!memcmp(extents[i].iov_base, m->bytes + from + seen, extents[i].iov_len));
        seen += extents[i].iov_len;
    }
    MODEL_EXPECT(count > 16 || seen >= smaller(n, m->length - from));
}

/* ---- Between buffers ---- */

static void do_add_buffer(struct model *m)
{
    struct model *from = choose_model();
    int got = (int)result(evbuffer_add_buffer(m->buffer, from->buffer));
    bool is_refused = from->length && from != m && (m->back_frozen || from->front_frozen);
    MODEL_EXPECT(got == (is_refused ? -1 : 0));
    if (got || from == m)
        return;
    insert(m, m->length, from->bytes, from->length);
    m->has_foreign |= from->has_foreign;
    cut(from, from->length);
}

static void do_prepend_buffer(struct model *m)
{
    struct model *from = choose_model();
    int got = (int)result(evbuffer_prepend_buffer(m->buffer, from->buffer));
    bool is_refused = from->length && from != m && (m->front_frozen || from->front_frozen);
    MODEL_EXPECT(got == (is_refused ? -1 : 0));
    if (got || from == m)
        return;
    insert(m, 0, from->bytes, from->length);
    m->has_foreign |= from->has_foreign;
    cut(from, from->length);
}

static void do_remove_buffer(struct model *m)
{
    struct model *from = choose_model();
    size_t n = choose_size(), expected = smaller(n, from->length);
    int got = (int)result(evbuffer_remove_buffer(from->buffer, m->buffer, n));
    if (!n || from == m) {
        MODEL_EXPECT(got == 0);
    } else if (m->back_frozen || from->front_frozen) {
        MODEL_EXPECT(got == -1);
    } else {
        MODEL_EXPECT(got == (int)expected);
        insert(m, m->length, from->bytes, expected);
        m->has_foreign |= from->has_foreign;
        cut(from, expected);
    }
}

/* Whether it is refused depends on the chains, of which the model does not know all. */
static void do_share(struct model *m)
{
    struct model *from = choose_model();
    int got = evbuffer_add_buffer_reference(m->buffer, from->buffer);
    if (!from->length) {
        MODEL_EXPECT(!got);
    } else if (m->back_frozen || from == m) {
        MODEL_EXPECT(got == -1);
    } else if (!got) {
        insert(m, m->length, from->bytes, from->length);
        m->has_foreign = true;
    } else {
        MODEL_EXPECT(from->has_foreign);
    }
}

/* ---- Searching ---- */

static void do_search(struct model *m)
{
    struct evbuffer_ptr start, end;
    size_t from = choose(m->length + 1), n = 1 + choose(choose(2) ? 4 : 200);
    size_t to = from + choose(m->length - from + 1);
    const unsigned char *what = choose_source(n);
    if (m->length > n && choose(2))
        what = m->bytes + choose(m->length - n);
    MODEL_EXPECT(!evbuffer_ptr_set(m->buffer, &start, from, EVBUFFER_PTR_SET));
    MODEL_EXPECT(!evbuffer_ptr_set(m->buffer, &end, to, EVBUFFER_PTR_SET));
    const unsigned char *hit = memmem(m->bytes + from, m->length - from, what, n);
    ev_ssize_t expected = hit ? hit - m->bytes : -1;
    struct evbuffer_ptr found = evbuffer_search(m->buffer, (const char *)what, n, &start);
    MODEL_EXPECT(result(found.pos) == expected);
    if (hit && expected + (ev_ssize_t)n > (ev_ssize_t)to)
        expected = -1;
    found = evbuffer_search_range(m->buffer, (const char *)what, n, &start, &end);
    MODEL_EXPECT(result(found.pos) == expected);
}

/* Returns where a line ends from a position on, -1: nowhere, and how long the end is. */
static ev_ssize_t find_eol(const struct model *m, size_t from, int style, size_t *ret_length)
{
    *ret_length = 0;
    for (size_t i = from; i < m->length; i++) {
        const unsigned char *at = m->bytes + i;
        bool has_next = i + 1 < m->length;
        bool is_crlf = has_next && at[0] == '\r' && at[1] == '\n';
        if (style == EVBUFFER_EOL_ANY) {
            while (i + *ret_length < m->length &&
                   (at[*ret_length] == '\r' || at[*ret_length] == '\n'))
                ++*ret_length;
        } else if (style == EVBUFFER_EOL_CRLF || style == EVBUFFER_EOL_CRLF_STRICT) {
            *ret_length = is_crlf ? 2 : style == EVBUFFER_EOL_CRLF && at[0] == '\n';
        } else {
            *ret_length = at[0] == (style == EVBUFFER_EOL_LF ? '\n' : '\0');
        }
        if (*ret_length)
            return (ev_ssize_t)i;
    }
    return -1;
}

static void do_search_eol(struct model *m)
{
    struct evbuffer_ptr start;
    size_t from = choose(m->length + 1), length, expected_length;
    int style = (int)choose(5);
    MODEL_EXPECT(!evbuffer_ptr_set(m->buffer, &start, from, EVBUFFER_PTR_SET));
    ev_ssize_t expected = find_eol(m, from, style, &expected_length);
    struct evbuffer_ptr found =
        evbuffer_search_eol(m->buffer, &start, &length, (enum evbuffer_eol_style)style);
    MODEL_EXPECT(result(found.pos) == expected && length == expected_length);
}

static void do_readln(struct model *m)
{
    size_t length, expected_length;
    int style = (int)choose(5);
    ev_ssize_t expected = m->front_frozen ? -1 : find_eol(m, 0, style, &expected_length);
    char *line = evbuffer_readln(m->buffer, &length, (enum evbuffer_eol_style)style);
    MODEL_EXPECT(result(line != NULL) == (expected >= 0));
    if (!line)
        return;
    MODEL_EXPECT(length == (size_t)expected && !memcmp(line, m->bytes, length));
    cut(m, length + expected_length);
    free(line);
}

/* ---- Descriptors and files ---- */

static void do_transfer(struct model *m)
{
    struct model *to = choose_model();
    size_t n = 1 + choose(4096), expected = smaller(n, m->length);
    if (m->front_frozen || to->back_frozen || !m->length)
        return;
    int got = evbuffer_write_atmost(m->buffer, model.sockets[0], (ev_ssize_t)n);
    MODEL_EXPECT(got > 0 && (size_t)got <= expected);
    unsigned char moved[4096];
    memcpy(moved, m->bytes, (size_t)got);
    cut(m, (size_t)got);
    MODEL_EXPECT(evbuffer_read(to->buffer, model.sockets[1], -1) == got);
    insert(to, to->length, moved, (size_t)got);
}

static void do_file(struct model *m)
{
    static const unsigned flags[] = {0, EVBUF_FS_DISABLE_SENDFILE, EVBUF_FS_DISABLE_MMAP,
                                     EVBUF_FS_DISABLE_MMAP | EVBUF_FS_DISABLE_SENDFILE};
    size_t n = choose_size(), skipped = choose(n + 1);
    size_t offset = (size_t)(choose_source(n) - model.source);
    if (skipped == n)
        return;
    struct evbuffer_file_segment *segment =
        evbuffer_file_segment_new(model.file, (ev_off_t)offset, (ev_off_t)n, flags[choose(4)]);
    MODEL_EXPECT(segment != NULL);
    if (!m->back_frozen) {
        MODEL_EXPECT(!evbuffer_add_file_segment(m->buffer, segment, (ev_off_t)skipped, -1));
        insert(m, m->length, model.source + offset + skipped, n - skipped);
        m->has_foreign = true;
    }
    evbuffer_file_segment_free(segment);
}

static void do_freeze(struct model *m)
{
    int at_front = (int)choose(2);
    bool *is_frozen = at_front ? &m->front_frozen : &m->back_frozen;
    *is_frozen = !*is_frozen;
    MODEL_EXPECT(!(*is_frozen ? evbuffer_freeze : evbuffer_unfreeze)(m->buffer, at_front));
}

static void do_renew(struct model *m)
{
    evbuffer_free(m->buffer);
    *m = (struct model){.buffer = evbuffer_new()};
    evbuffer_set_flags(m->buffer, choose(2) ? EVBUFFER_FLAG_DRAINS_TO_FD : 0);
}

/* ---- All of them ---- */

static void (*const model_operations[])(struct model *m) = {
    do_add,     do_prepend,    do_reference,  do_printf,         do_iovec,
    do_reserve, do_expand,     do_drain,      do_remove,         do_copyout,
    do_pullup,  do_peek,       do_add_buffer, do_prepend_buffer, do_remove_buffer,
    do_search,  do_search_eol, do_readln,     do_drain,          do_add,
    do_freeze,  do_transfer,   do_file,       do_renew,          do_share,
};

static void model_check(const struct model *m)
{
    static unsigned char out[sizeof m->bytes];
    MODEL_EXPECT(evbuffer_get_length(m->buffer) == m->length);
    if (m->front_frozen)
        return;
    MODEL_EXPECT(evbuffer_copyout(m->buffer, out, sizeof out) == (ev_ssize_t)m->length);
    MODEL_EXPECT(!memcmp(out, m->bytes, m->length));
}

/* Returns a digest of the results. operations: how many of the table are used. */
static uint64_t model_run(const unsigned char *bytes, size_t n, size_t operations)
{
    model.at = n ? bytes : model.source;
    model.end = model.at + n;
    model.digest = 0;
    for (size_t i = 0; i < MODEL_SOURCE; i++)
        model.source[i] = (unsigned char)"ab\n\r\nabc\0aab\r"[(i * i / 7 + i) % 14];
    for (int i = 0; i < MODEL_BUFFERS; i++)
        model.models[i] = (struct model){.buffer = evbuffer_new()};
    while (model.at < model.end) {
        struct model *m = choose_model();
        model_operations[choose(operations)](m);
        for (int i = 0; i < MODEL_BUFFERS; i++) {
            m = &model.models[i];
            MODEL_EXPECT(evbuffer_get_length(m->buffer) == m->length);
            if (m->length > MODEL_MAX)
                do_renew(m);
        }
    }
    for (int i = 0; i < MODEL_BUFFERS; i++) {
        model_check(&model.models[i]);
        evbuffer_free(model.models[i].buffer);
    }
    return model.digest;
}

static void model_open(void)
{
    MODEL_EXPECT(!evutil_socketpair(AF_UNIX, SOCK_STREAM, 0, model.sockets));
    model.file = memfd_create("model", MFD_CLOEXEC);
    model_run(NULL, 0, 1); /* fills the source */
    MODEL_EXPECT(write(model.file, model.source, MODEL_SOURCE) == MODEL_SOURCE);
}

#endif
