/* Bodies in the content codings that the library was built with. */
#ifndef GS_TESTS_HTTP_CLIENT_ENCODE_H
#define GS_TESTS_HTTP_CLIENT_ENCODE_H

#include "tests/test.h"

#ifdef GS_HTTP_GZIP
#include <zlib.h>

static inline size_t encode_gzip(const char *bytes, size_t n, char *out, size_t room)
{
    z_stream stream = {.next_in = (unsigned char *)bytes,
                       .avail_in = (unsigned)n,
                       .next_out = (unsigned char *)out,
                       .avail_out = (unsigned)room};
    bool is_well = deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, 0) == Z_OK &&
                   deflate(&stream, Z_FINISH) == Z_STREAM_END;
    if (!is_well)
        abort();
    deflateEnd(&stream);
    return room - stream.avail_out;
}
#endif

#ifdef GS_HTTP_BROTLI
#include <brotli/encode.h>

static inline size_t encode_brotli(const char *bytes, size_t n, char *out, size_t room)
{
    if (!BrotliEncoderCompress(5, BROTLI_DEFAULT_WINDOW, BROTLI_MODE_GENERIC, n,
                               (const uint8_t *)bytes, &room, (uint8_t *)out))
        abort();
    return room;
}
#endif

#ifdef GS_HTTP_ZSTD
#include <zstd.h>

static inline size_t encode_zstd(const char *bytes, size_t n, char *out, size_t room)
{
    size_t result = ZSTD_compress(out, room, bytes, n, 3);
    if (ZSTD_isError(result))
        abort();
    return result;
}
#endif

static const struct encoding {
    const char *name;
    size_t (*encode)(const char *bytes, size_t n, char *out, size_t room);
} encodings[] = {
#ifdef GS_HTTP_GZIP
    {"gzip", encode_gzip}, {"X-GZip", encode_gzip},
#endif
#ifdef GS_HTTP_BROTLI
    {"br", encode_brotli},
#endif
#ifdef GS_HTTP_ZSTD
    {"zstd", encode_zstd},
#endif
    {NULL, NULL}, /* the end */
};

#endif
