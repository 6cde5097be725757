#include "http/chunked.h"
#include "tests/test.h"

/* Decode text in pieces of at most `piece` bytes. Returns the number of bytes consumed, or the
 * error. */
static ssize_t decode(struct gs_http_chunked *chunked, const char *text, size_t n, size_t piece,
                      bool *ret_done)
{
    size_t consumed = 0;
    *ret_done = false;
    while (consumed < n && !*ret_done) {
        size_t offered = n - consumed < piece ? n - consumed : piece;
        ssize_t result = gs_http_chunked_decode(chunked, text + consumed, offered, ret_done);
        if (result < 0 || ((size_t)result < offered && !*ret_done))
            return result < 0 ? result : -EIO;
        consumed += (size_t)result;
    }
    return (ssize_t)consumed;
}

/* Checks that the body decodes to the first n bytes of the text. */
static void check_pieces(const char *text, size_t n, size_t piece, size_t total)
{
    struct gs_http_chunked chunked;
    bool done;
    gs_http_chunked_init(&chunked);
    CHECK_EQ(decode(&chunked, text, strlen(text), piece, &done), n);
    CHECK(done);
    CHECK_EQ(chunked.total, total);
}

static void check_split(const char *text, size_t n, size_t split, size_t total)
{
    struct gs_http_chunked chunked;
    bool done;
    gs_http_chunked_init(&chunked);
    CHECK_EQ(gs_http_chunked_decode(&chunked, text, split, &done), split);
    CHECK_EQ(done, split == n);
    CHECK_EQ(gs_http_chunked_decode(&chunked, text + split, strlen(text) - split, &done),
             n - split);
    CHECK(done);
    CHECK_EQ(chunked.total, total);
}

/* Checks the body, followed by the next request, in two pieces split at every position, and in
 * pieces of every size. */
static void check_body(const char *body, size_t total)
{
    char text[4096];
    size_t n = strlen(body);
    snprintf(text, sizeof text, "%sGET / HTTP/1.1\r\n", body);
    for (size_t piece = 1; piece <= strlen(text); piece++)
        check_pieces(text, n, piece, total);
    for (size_t split = 0; split <= n; split++)
        check_split(text, n, split, total);
}

static void check_refused_in_pieces(const char *text, size_t n, size_t piece)
{
    struct gs_http_chunked chunked;
    bool done = false;
    gs_http_chunked_init(&chunked);
    CHECK_EQ(decode(&chunked, text, n - 1, piece, &done), n - 1);
    CHECK(!done);
    CHECK_EQ(gs_http_chunked_decode(&chunked, text + n - 1, 1, &done), -EPROTO);
    CHECK(!done);
    CHECK_EQ(gs_http_chunked_decode(&chunked, "0\r\n\r\n", 5, &done), -EPROTO);
}

/* Checks that the text is refused at its last byte and not before, for any split. */
static void check_refused(const char *text, size_t n)
{
    for (size_t piece = 1; piece <= n; piece++)
        check_refused_in_pieces(text, n, piece);
}

#define REFUSED(text) check_refused("" text, sizeof(text) - 1)

TEST(state_is_small)
{
    CHECK(sizeof(struct gs_http_chunked) <= 24);
}

TEST(body_ends_at_its_last_byte_for_any_split)
{
    check_body("0\r\n\r\n", 0);
    check_body("5\r\nhello\r\n0\r\n\r\n", 5);
    check_body("4\r\nWiki\r\n5\r\npedia\r\nE\r\n in\r\n\r\nchunks.\r\n0\r\n\r\n", 23);
    check_body("1\r\n\r\r\n1\r\n\n\r\n000\r\n\r\n", 2);
}

TEST(sizes_are_hexadecimal_in_either_case)
{
    check_body("A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", 20);
    check_body("0000000000000001\r\nx\r\n0000000000000000\r\n\r\n", 1);
    check_body("1f\r\n0123456789012345678901234567890\r\n0\r\n\r\n", 31);
}

TEST(extensions_are_skipped)
{
    check_body("1;a\r\nx\r\n0;b\r\n\r\n", 1);
    check_body("1;a=b\r\nx\r\n0\r\n\r\n", 1);
    check_body("1;a=b;c;d=\"e\"\r\nx\r\n0\r\n\r\n", 1);
    check_body("1 ; a = b\t;\tc\r\nx\r\n0\r\n\r\n", 1);
    check_body("1;a=\"q;= :\\\"\\\\,\x80\"\r\nx\r\n0\r\n\r\n", 1);
    check_body("1;a=\"\" ;b\r\nx\r\n0\r\n\r\n", 1);
    check_body("1;chunk-signature=0af9\r\nx\r\n0\r\n\r\n", 1);
}

TEST(trailer_fields_are_skipped)
{
    check_body("0\r\nA: b\r\n\r\n", 0);
    check_body("0\r\nA:\r\nDigest: sha-256=\"a;b\\\" \x80\t\r\nc:d:e\r\n\r\n", 0);
}

TEST(nothing_is_consumed_after_the_end)
{
    struct gs_http_chunked chunked;
    bool done = false;
    gs_http_chunked_init(&chunked);
    CHECK_EQ(gs_http_chunked_decode(&chunked, "0\r\n\r\n5\r\n", 8, &done), 5);
    CHECK(done);
    done = false;
    CHECK_EQ(gs_http_chunked_decode(&chunked, "5\r\n", 3, &done), 0);
    CHECK(done);
}

TEST(empty_input_is_accepted)
{
    struct gs_http_chunked chunked;
    bool done = true;
    gs_http_chunked_init(&chunked);
    CHECK_EQ(gs_http_chunked_decode(&chunked, NULL, 0, &done), 0);
    CHECK(!done);
}

TEST(bad_sizes_are_refused)
{
    REFUSED("\r");
    REFUSED("\n");
    REFUSED(" ");
    REFUSED("\t");
    REFUSED("-");
    REFUSED("+");
    REFUSED("g");
    REFUSED("0x");
    REFUSED("1_");
    REFUSED("1.");
    REFUSED("1,");
    REFUSED("1\"");
    REFUSED(";");
    REFUSED("\0");
    REFUSED("1\0");
    REFUSED("5\xb5");
    REFUSED("5 \r");
    REFUSED("5 5");
}

TEST(sizes_above_the_limit_are_refused)
{
    REFUSED("8000000000000000");
    REFUSED("ffffffffffffffff");
    REFUSED("10000000000000000");
    REFUSED("00000000000000000");
    REFUSED("1\r\nx\r\n7fffffffffffffff");
}

TEST(largest_size_is_accepted)
{
    struct gs_http_chunked chunked;
    bool done;
    gs_http_chunked_init(&chunked);
    CHECK_EQ(gs_http_chunked_decode(&chunked, "7fffffffffffffff\r\nabc", 21, &done), 21);
    CHECK_EQ(chunked.left, INT64_MAX - 3);
    CHECK_EQ(chunked.total, 3);
}

TEST(number_of_digits_is_counted_for_each_chunk)
{
    check_body("0000000000000001\r\nx\r\n0000000000000001\r\ny\r\n0000000000000000\r\n\r\n", 2);
}

TEST(line_ends_must_be_both_cr_and_lf)
{
    REFUSED("1\n");
    REFUSED("1\rx");
    REFUSED("1\r\r");
    REFUSED("1\r\nx\n");
    REFUSED("1\r\nx\r0");
    REFUSED("1\r\nxy");
    REFUSED("1\r\nx\r\n0\n");
    REFUSED("0\r\n\n");
    REFUSED("0\r\n\rA");
    REFUSED("0\r\nA: b\n");
    REFUSED("0\r\nA: b\rc");
    REFUSED("1;a\n");
    REFUSED("1;a\rb");
    REFUSED("1;a=\"\n");
    REFUSED("1;a=\"\r");
}

TEST(bad_extensions_are_refused)
{
    REFUSED("1;\r");
    REFUSED("1;;");
    REFUSED("1;=");
    REFUSED("1;a=\r");
    REFUSED("1;a=;");
    REFUSED("1;a b");
    REFUSED("1;a \r");
    REFUSED("1;a=b \r");
    REFUSED("1;a=b c");
    REFUSED("1;a=\"b\"c");
    REFUSED("1;a\"");
    REFUSED("1;a:");
    REFUSED("1;a\0");
    REFUSED("1;a=\"\x01");
    REFUSED("1;a=\"\\\x7f");
    REFUSED("1;\x80");
}

TEST(bad_trailer_fields_are_refused)
{
    REFUSED("0\r\n ");
    REFUSED("0\r\n\t");
    REFUSED("0\r\n:");
    REFUSED("0\r\nA ");
    REFUSED("0\r\nA\r");
    REFUSED("0\r\nA: b\r\n ");
    REFUSED("0\r\nA: \0");
    REFUSED("0\r\nA: \x7f");
    REFUSED("0\r\nA\x80");
    REFUSED("0\r\n\"");
}

/* Returns how many bytes of filler between begin and end are accepted before -EPROTO. */
static size_t room_for(const char *begin, const char *filler)
{
    struct gs_http_chunked chunked;
    bool done;
    gs_http_chunked_init(&chunked);
    CHECK_EQ(gs_http_chunked_decode(&chunked, begin, strlen(begin), &done), strlen(begin));
    size_t taken = 0;
    for (; taken < 100000; taken++)
        if (gs_http_chunked_decode(&chunked, filler + taken % strlen(filler), 1, &done) < 0)
            break;
    return taken;
}

TEST(total_length_of_extensions_is_limited)
{
    CHECK_EQ(room_for("1;", "a") + 1, GS_HTTP_CHUNK_EXTENSIONS_MAX);
    CHECK_EQ(room_for("1;a=\"", "a") + 4, GS_HTTP_CHUNK_EXTENSIONS_MAX);
    CHECK_EQ(room_for("1", " "), GS_HTTP_CHUNK_EXTENSIONS_MAX);
    CHECK_EQ(room_for("1;a", ";b"), GS_HTTP_CHUNK_EXTENSIONS_MAX - 2);
    CHECK_EQ(room_for("", "1;abc=\"d\"\r\nx\r\n") / 14, GS_HTTP_CHUNK_EXTENSIONS_MAX / 8);
}

TEST(total_length_of_trailer_fields_is_limited)
{
    CHECK_EQ(room_for("0\r\n", "a"), GS_HTTP_CHUNK_TRAILER_MAX);
    CHECK_EQ(room_for("0\r\nA:", " "), GS_HTTP_CHUNK_TRAILER_MAX - 2);
    CHECK_EQ(room_for("0\r\n", "A: b\r\n"), GS_HTTP_CHUNK_TRAILER_MAX);
}

TEST(chunks_without_extensions_are_not_limited)
{
    CHECK_EQ(room_for("", "0000000000000001\r\nx\r\n"), 100000);
}

/* The input may be split anywhere; the data is the same. */
TEST(data_is_found_however_the_input_is_split)
{
    static const char text[] = "5;a=b\r\nhello\r\n00c\r\n, user-level\r\n0\r\nA: b\r\n\r\nGET";
    const char *expected = "hello, user-level";
    for (size_t step = 1; step < sizeof text; step++) {
        struct gs_http_chunked chunked;
        char found[64] = "";
        size_t at = 0;
        bool done = false;
        gs_http_chunked_init(&chunked);
        while (!done && at < sizeof text - 1) {
            struct gs_http_text data;
            size_t left = sizeof text - 1 - at;
            ssize_t n =
                gs_http_chunked_next(&chunked, text + at, step < left ? step : left, &data, &done);
            CHECK(n > 0);
            CHECK(data.n <= (size_t)n);
            strncat(found, data.bytes, data.n);
            at += (size_t)n;
        }
        CHECK(done);
        CHECK_STR(found, expected);
        CHECK_STR(text + at, "GET");
    }
}
