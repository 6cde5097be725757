/* What is compressed is what others decompress. */
#include "serve/operations/encode.h"
#include "tests/test.h"

#include <errno.h>
#include <stdlib.h>

#ifdef GS_HTTP_BROTLI
#include <brotli/decode.h>
#endif
#ifdef GS_HTTP_ZSTD
#include <zstd.h>
#endif
#ifdef GS_HTTP_GZIP
#include <zlib.h>
#endif

#define MAX 300000

static char text[MAX], decoded[MAX];

/* Returns the length; 0: it cannot be decoded here. */
static size_t decode(enum gs_http_coding coding, const struct gs_http_coded *coded)
{
#ifdef GS_HTTP_BROTLI
    size_t n = sizeof decoded;
    if (coding == GS_HTTP_IN_BR &&
        BrotliDecoderDecompress(coded->n, (const uint8_t *)coded->bytes, &n, (uint8_t *)decoded) ==
            BROTLI_DECODER_RESULT_SUCCESS)
        return n;
#endif
#ifdef GS_HTTP_ZSTD
    if (coding == GS_HTTP_IN_ZSTD) {
        size_t all = ZSTD_decompress(decoded, sizeof decoded, coded->bytes, coded->n);
        return ZSTD_isError(all) ? 0 : all;
    }
#endif
#ifdef GS_HTTP_GZIP
    z_stream stream = {.next_in = (Bytef *)coded->bytes,
                       .avail_in = (uInt)coded->n,
                       .next_out = (Bytef *)decoded,
                       .avail_out = sizeof decoded};
    if (coding != GS_HTTP_IN_GZIP || inflateInit2(&stream, 15 + 16) != Z_OK)
        return 0;
    int end = inflate(&stream, Z_FINISH);
    inflateEnd(&stream);
    return end == Z_STREAM_END ? stream.total_out : 0;
#else
    return 0;
#endif
}

TEST(bodies_are_decoded_to_the_same)
{
    static const size_t sizes[] = {256, 1000, 65536, MAX};
    if (!serve_encodings())
        SKIP("no coding can be compressed");
    for (size_t i = 0; i < MAX; i++)
        text[i] = (char)("<p class=\"line\">a line of text</p>\n"[i % 35] + (i % 977 == 0));
    for (unsigned coding = 1; coding < GS_HTTP_CODINGS; coding++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct gs_http_coded *coded;
            if (!(serve_encodings() & GS_HTTP_CODING_BIT(coding)))
                continue;
            CHECK_EQ(serve_encode((enum gs_http_coding)coding, text, sizes[i], &coded), 0);
            CHECK(coded->n < sizes[i] / 2 && coded->references == 1);
            CHECK_EQ(decode((enum gs_http_coding)coding, coded), sizes[i]);
            CHECK(!memcmp(decoded, text, sizes[i]));
            gs_http_coded_unref(coded);
        }
}

TEST(what_saves_less_than_a_tenth_is_dropped)
{
    uint32_t random = 1;
    for (size_t i = 0; i < 10000; i++) {
        random = random * 1664525 + 1013904223;
        text[i] = (char)(random >> 24);
    }
    for (unsigned coding = 1; coding < GS_HTTP_CODINGS; coding++) {
        struct gs_http_coded *coded;
        if (serve_encodings() & GS_HTTP_CODING_BIT(coding))
            CHECK_EQ(serve_encode((enum gs_http_coding)coding, text, 10000, &coded), -ENODATA);
    }
}
