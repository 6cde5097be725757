/* Messages are the same after compression, small bombs are stopped, and there may be no memory. */
#include "tests/http_server/allocations.h"
#include "tests/test.h"
#include "websocket/deflate.h"

#define SIZE (300u << 10)

static char message[SIZE];

static void fill(void)
{
    uint32_t seed = 1;
    for (unsigned i = 0; i < SIZE; i++) {
        seed = seed * 1664525 + 1013904223;
        message[i] = (char)(i % 3 ? 'a' : seed >> 24);
    }
}

/* Returns as gs_websocket_code when it is done. */
static int code(struct gs_websocket_coding *coding)
{
    int err;
    while ((err = gs_websocket_code(coding)) > 0)
        CHECK(coding->zlib);
    CHECK(!coding->zlib && !coding->output == (err != 0));
    return err;
}

static int compress(const char *bytes, size_t n, unsigned level, unsigned bits,
                    struct gs_http_text *ret_compressed)
{
    struct gs_websocket_coding coding = {.input = {bytes, n}, .level = level, .bits = bits};
    int err = code(&coding);
    if (!err)
        *ret_compressed = (struct gs_http_text){coding.output, coding.n};
    return err;
}

static int decompress(struct gs_http_text compressed, size_t max, char **ret_message, size_t *ret_n)
{
    struct gs_websocket_coding coding = {.input = compressed, .max = max};
    int err = code(&coding);
    if (!err) {
        *ret_message = coding.output;
        *ret_n = coding.n;
    }
    return err;
}

static void need_zlib(void)
{
    if (!gs_websocket_has_deflate())
        SKIP("built without zlib");
}

TEST(message_is_the_same_after_compression)
{
    need_zlib();
    fill();
    for (unsigned bits = 9; bits <= 15; bits += 3) {
        for (size_t n = 0; n <= SIZE; n = n < 4 ? n + 1 : n * 5) {
            struct gs_http_text compressed;
            char *back;
            size_t back_n;
            CHECK_EQ(compress(message, n, 1 + (unsigned)n % 9, bits, &compressed), 0);
            CHECK_EQ(decompress(compressed, n, &back, &back_n), 0);
            CHECK_EQ(back_n, n);
            CHECK(!memcmp(back, message, n) && !back[n]);
            free(back);
            if (n)
                CHECK_EQ(decompress(compressed, n - 1, &back, &back_n), -EMSGSIZE);
            free((char *)compressed.bytes);
        }
    }
}

TEST(bomb_is_stopped_at_the_limit)
{
    need_zlib();
    struct gs_http_text compressed;
    char *back, *zeros = calloc(1, 64 << 20);
    size_t back_n;
    CHECK(zeros);
    CHECK_EQ(compress(zeros, 64 << 20, 9, 15, &compressed), 0);
    free(zeros);
    CHECK(compressed.n < 100000);
    CHECK_EQ(decompress(compressed, 1 << 20, &back, &back_n), -EMSGSIZE);
    free((char *)compressed.bytes);
}

/* Neither a large input nor a large output is coded in one call. */
TEST(large_messages_are_coded_in_parts)
{
    need_zlib();
    fill();
    struct gs_websocket_coding coding = {.input = {message, SIZE}, .level = 1, .bits = 15};
    size_t before;
    int calls = 0, result;
    do {
        before = coding.input.n;
        result = gs_websocket_code(&coding);
        CHECK(before - coding.input.n <= GS_WEBSOCKET_PART_MAX);
        calls++;
    } while (result > 0);
    CHECK_EQ(result, 0);
    CHECK_EQ(calls, 5);
    struct gs_websocket_coding back = {.input = {coding.output, coding.n}, .max = SIZE};
    calls = 0;
    do {
        before = back.n;
        result = gs_websocket_code(&back);
        CHECK(back.n - before <= GS_WEBSOCKET_PART_MAX);
        calls++;
    } while (result > 0);
    CHECK_EQ(result, 0);
    CHECK(calls >= 5);
    CHECK(back.n == SIZE && !memcmp(back.output, message, SIZE));
    free(coding.output);
    free(back.output);
}

/* RFC 7692, 7.2.3: examples. */
TEST(examples_of_the_standard_are_understood)
{
    need_zlib();
    static const struct {
        const char *bytes;
        size_t n;
        const char *message;
    } all[] = {
        {"\xf2\x48\xcd\xc9\xc9\x07\x00", 7, "Hello"},
        {"\xf2\x00\x11\x00\x00", 5, NULL}, /* refers to a message before */
        {"\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00", 11, "Hello"},
        {"\xf3\x48\xcd\xc9\xc9\x07\x00\x00", 8, "Hello"},
        {"\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00", 13, "Hello"},
        {"\x00", 1, ""},
        {"\x06", 1, NULL},
        {"\xff\xff\xff\xff", 4, NULL},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char *back;
        size_t n;
        struct gs_http_text compressed = {all[i].bytes, all[i].n};
        int err = decompress(compressed, 100, &back, &n);
        CHECK_EQ(err, all[i].message ? 0 : -EPROTO);
        if (err)
            continue;
        CHECK(!strcmp(back, all[i].message));
        free(back);
    }
}

/* Returns whether it has worked; without memory it must not. */
static bool try_both(void)
{
    struct gs_http_text compressed = {0};
    char *back = NULL;
    size_t n;
    int err = compress(message, 5000, 6, 11, &compressed);
    CHECK(!err || err == -ENOMEM);
    if (!err) {
        err = decompress(compressed, 5000, &back, &n);
        CHECK(!err || err == -ENOMEM);
    }
    free((char *)compressed.bytes);
    free(back);
    return !err;
}

TEST(each_allocation_may_fail)
{
    need_zlib();
    fill();
    bool is_done = false;
    for (long n = 0; !is_done; n++) {
        CHECK(n < 100);
        failures = 0;
        allowed = n;
        bool has_worked = try_both();
        allowed = -1;
        CHECK(has_worked || failures);
        is_done = !failures;
    }
    CHECK(try_both());
}
