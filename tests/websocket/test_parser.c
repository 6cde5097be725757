/* What comes out of the parser does not depend on how the bytes are split, and frames that are not
 * allowed are refused with the right code. */
#include "tests/test.h"
#include "websocket/parser.h"

#include <gossamer/websocket.h>

struct stream {
    size_t n;
    char bytes[4096];
};

static const uint8_t mask[4] = {0x11, 0xa2, 0x00, 0xff};

/* first: the first byte of the header. */
static void add_frame(struct stream *stream, unsigned first, const char *payload, size_t n)
{
    struct gs_websocket_frame frame = {.opcode = first & 15,
                                       .is_last = first & 0x80,
                                       .is_compressed = first & 0x40,
                                       .is_masked = true,
                                       .length = n};
    memcpy(frame.mask, mask, sizeof mask);
    stream->n += gs_websocket_frame_put(stream->bytes + stream->n, &frame);
    memcpy(stream->bytes + stream->n, payload, n);
    gs_websocket_mask(stream->bytes + stream->n, n, mask, 0);
    stream->n += n;
}

static struct gs_websocket_parser new_parser(void)
{
    return (struct gs_websocket_parser){
        .is_server = true, .may_compress = true, .max_message = 1000};
}

/* What has happened, as text; pieces of a message are joined. */
struct record {
    size_t n;
    char text[8192];
};

static void note(struct record *record, enum gs_websocket_event event,
                 const struct gs_websocket_parser *parser, const struct gs_websocket_piece *piece)
{
    static const char *const names[] = {"", "[begin]", "", "[ping]", "[pong]", "[close]", "[fail]"};
    size_t room = sizeof record->text - record->n;
    int n = snprintf(record->text + record->n, room, "%s", names[event]);
    record->n += (size_t)n;
    if (event != GS_WEBSOCKET_BEGIN && event != GS_WEBSOCKET_FAILED) {
        memcpy(record->text + record->n, piece->bytes, piece->n);
        record->n += piece->n;
    }
    if (event >= GS_WEBSOCKET_CLOSE)
        record->n += (size_t)sprintf(record->text + record->n, "%u", parser->code);
    if (event == GS_WEBSOCKET_DATA && piece->is_last)
        record->n += (size_t)sprintf(record->text + record->n, "[end]");
}

static bool feed(struct gs_websocket_parser *parser, const char *bytes, size_t n, size_t max,
                 struct record *record)
{
    char *copy = malloc(n ? n : 1); /* its end is guarded by the address sanitizer */
    struct gs_websocket_input input = {copy, n};
    struct gs_websocket_piece piece;
    enum gs_websocket_event event;
    CHECK(copy);
    memcpy(copy, bytes, n);
    while ((event = gs_websocket_parser_next(parser, &input, max, &piece)) != GS_WEBSOCKET_MORE) {
        note(record, event, parser, &piece);
        if (event == GS_WEBSOCKET_FAILED || event == GS_WEBSOCKET_CLOSE)
            break;
    }
    free(copy);
    return event == GS_WEBSOCKET_MORE;
}

static void make_traffic(struct stream *stream)
{
    char text[300];
    memset(text, 'x', sizeof text);
    stream->n = 0;
    add_frame(stream, 0x81, "h\xc3\xa4llo", 6);
    add_frame(stream, 0x02, "\0\1\2", 3);
    add_frame(stream, 0x89, "ping", 4);
    add_frame(stream, 0x00, "", 0);
    add_frame(stream, 0x8a, "", 0);
    add_frame(stream, 0x80, text, sizeof text);
    add_frame(stream, 0xc1, "\xff\xfe", 2); /* compressed: no UTF-8 yet */
    add_frame(stream, 0x01, "\xe2\x82", 2);
    add_frame(stream, 0x80, "\xac", 1);
    add_frame(stream, 0x81, "", 0);
    add_frame(stream, 0x88,
              "\x03\xe8"
              "bye",
              5);
}

TEST(events_do_not_depend_on_where_the_bytes_are_cut)
{
    struct stream stream;
    struct record whole = {0};
    make_traffic(&stream);
    struct gs_websocket_parser parser = new_parser();
    CHECK(!feed(&parser, stream.bytes, stream.n, SIZE_MAX, &whole));
    CHECK(whole.n > 300);
    CHECK(!memcmp(whole.text, "[begin]h\xc3\xa4llo[end][begin]", 25));
    CHECK(!memcmp(whole.text + whole.n - 14, "[close]bye1000", 14));
    for (size_t cut = 0; cut <= stream.n; cut++) {
        struct record record = {0};
        parser = new_parser();
        if (feed(&parser, stream.bytes, cut, 1 + cut % 7, &record))
            feed(&parser, stream.bytes + cut, stream.n - cut, SIZE_MAX, &record);
        CHECK_EQ(record.n, whole.n);
        CHECK(!memcmp(record.text, whole.text, whole.n));
    }
    struct record record = {0};
    parser = new_parser();
    for (size_t i = 0; i < stream.n; i++)
        feed(&parser, stream.bytes + i, 1, SIZE_MAX, &record);
    CHECK_EQ(record.n, whole.n);
    CHECK(!memcmp(record.text, whole.text, whole.n));
}

struct hostile {
    const char *bytes;
    size_t n;
    unsigned code;
};
#define HOSTILE(code_, bytes_) {bytes_, sizeof(bytes_) - 1, code_}

TEST(frames_that_are_not_allowed_are_refused)
{
    static const struct hostile all[] = {
        HOSTILE(1002, "\x81\x05"),               /* not masked */
        HOSTILE(1002, "\x91\x80\0\0\0\0"),       /* a reserved bit */
        HOSTILE(1002, "\xa1\x80\0\0\0\0"),       /* another one */
        HOSTILE(1002, "\xc9\x80\0\0\0\0"),       /* a compressed ping */
        HOSTILE(1002, "\x83\x80\0\0\0\0"),       /* unknown opcodes */
        HOSTILE(1002, "\x8b\x80\0\0\0\0"),       /* */
        HOSTILE(1002, "\x09\x80\0\0\0\0"),       /* a fragment of a ping */
        HOSTILE(1002, "\x89\xfe\0\x7e\0\0\0\0"), /* a ping of 126 bytes */
        HOSTILE(1002, "\x89\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0"), /* of very many */
        HOSTILE(1002, "\x80\x80\0\0\0\0"),                                 /* continues nothing */
        HOSTILE(1002, "\x01\x80\0\0\0\0\x81\x80\0\0\0\0"),                 /* two beginnings */
        HOSTILE(1002, "\x01\x80\0\0\0\0\xc0\x80\0\0\0\0"),     /* compressed from its middle */
        HOSTILE(1002, "\x81\xfe\0\x7d\0\0\0\0"),               /* lengths in a longer form */
        HOSTILE(1002, "\x81\xff\0\0\0\0\0\0\xff\xff\0\0\0\0"), /* */
        HOSTILE(1002, "\x81\xff\x80\0\0\0\0\0\0\0\0\0\0\0"),   /* negative */
        HOSTILE(1009, "\x81\xfe\x03\xe9\0\0\0\0"),             /* 1001 bytes */
        HOSTILE(1009, "\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0"), /* very many */
        HOSTILE(1009, "\x02\x81\0\0\0\0.\x80\xfe\x03\xe8\0\0\0\0"),        /* 1 and 1000 */
        HOSTILE(1007, "\x81\x81\0\0\0\0\x80"),                             /* no UTF-8 */
        HOSTILE(1007, "\x81\x81\0\0\0\0\xc3"),                             /* half a character */
        HOSTILE(1002, "\x88\x81\0\0\0\0x"),                                /* half a code */
        HOSTILE(1002, "\x88\x82\0\0\0\0\0\0"),         /* codes that are not sent */
        HOSTILE(1002, "\x88\x82\0\0\0\0\x03\xed"),     /* */
        HOSTILE(1007, "\x88\x83\0\0\0\0\x03\xe8\xff"), /* a reason that is no text */
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (unsigned by_bytes = 0; by_bytes < 2; by_bytes++) {
            struct gs_websocket_parser parser = new_parser();
            struct record record = {0};
            size_t step = by_bytes ? 1 : all[i].n;
            for (size_t at = 0; at < all[i].n && !parser.failure; at += step)
                feed(&parser, all[i].bytes + at, step, SIZE_MAX, &record);
            CHECK(parser.failure);
            CHECK_EQ(parser.code, all[i].code);
            CHECK(!feed(&parser, "\x81\x80\0\0\0\0", 6, SIZE_MAX, &record));
        }
    }
}

TEST(client_refuses_masked_frames_and_what_is_compressed_without_agreement)
{
    struct gs_websocket_parser parser = {.max_message = 1000};
    struct record record = {0};
    CHECK(!feed(&parser, "\x81\x81\0\0\0\0x", 7, SIZE_MAX, &record));
    CHECK_EQ(parser.code, 1002);
    parser = (struct gs_websocket_parser){.max_message = 1000};
    CHECK(!feed(&parser, "\xc1\x01x", 3, SIZE_MAX, &record));
    CHECK_EQ(parser.code, 1002);
    parser = (struct gs_websocket_parser){.max_message = 1000};
    record.n = 0;
    CHECK(feed(&parser, "\x81\x01x", 3, SIZE_MAX, &record));
    CHECK_EQ(record.n, 13);
    CHECK(!memcmp(record.text, "[begin]x[end]", 13));
}

TEST(masking_twice_is_nothing_at_any_offset_and_length)
{
    char bytes[64], masked[64];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7);
    for (size_t n = 0; n <= 40; n++) {
        for (unsigned offset = 0; offset < 5; offset++) {
            memcpy(masked, bytes, sizeof bytes);
            gs_websocket_mask(masked + offset, n, mask, offset);
            for (size_t i = 0; i < n; i++)
                CHECK_EQ(masked[offset + i] & 0xff,
                         (bytes[offset + i] ^ mask[(offset + i) % 4]) & 0xff);
            gs_websocket_mask(masked + offset, n, mask, offset);
            CHECK(!memcmp(masked, bytes, sizeof bytes));
        }
    }
}

TEST(header_is_as_short_as_the_length_allows)
{
    static const struct {
        uint64_t length;
        size_t header_n;
    } all[] = {{0, 2}, {125, 2}, {126, 4}, {65535, 4}, {65536, 10}, {INT64_MAX, 10}};
    char header[GS_WEBSOCKET_HEADER_MAX];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct gs_websocket_frame frame = {
            .opcode = GS_WEBSOCKET_OP_BINARY, .is_last = true, .length = all[i].length};
        CHECK_EQ(gs_websocket_frame_put(header, &frame), all[i].header_n);
        frame.is_masked = true;
        CHECK_EQ(gs_websocket_frame_put(header, &frame), all[i].header_n + 4);
    }
}
