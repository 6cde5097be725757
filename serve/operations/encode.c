#include "serve/operations/encode.h"

#include <errno.h>
#include <stdlib.h>

#ifdef GS_ENCODE_BROTLI
#include <brotli/encode.h>
#endif
#ifdef GS_ENCODE_ZSTD
#include <zstd.h>
#endif
#ifdef GS_ENCODE_GZIP
#include <libdeflate.h>
#endif

/* Each body is compressed once, and sent often. From these levels on, time grows faster than what
 * it saves. The windows are those that browsers accept: of zstd at most 8 MiB (RFC 9659). */
#define BROTLI_QUALITY 5
#define ZSTD_LEVEL 9
#define GZIP_LEVEL 9

/* How a coding compresses into out, of max bytes: it returns the length, or 0 if memory is
 * exhausted. */
struct encoder {
    size_t (*bound)(size_t n);
    size_t (*encode)(const char *bytes, size_t n, char *out, size_t max);
};

#ifdef GS_ENCODE_BROTLI
static size_t encode_brotli(const char *bytes, size_t n, char *out, size_t max)
{
    size_t coded_n = max;
    return BrotliEncoderCompress(BROTLI_QUALITY, BROTLI_DEFAULT_WINDOW, BROTLI_MODE_GENERIC, n,
                                 (const uint8_t *)bytes, &coded_n, (uint8_t *)out)
               ? coded_n
               : 0;
}
#endif

#ifdef GS_ENCODE_ZSTD
static size_t encode_zstd(const char *bytes, size_t n, char *out, size_t max)
{
    size_t coded_n = ZSTD_compress(out, max, bytes, n, ZSTD_LEVEL);
    return ZSTD_isError(coded_n) ? 0 : coded_n;
}
#endif

#ifdef GS_ENCODE_GZIP
static size_t bound_gzip(size_t n)
{
    return libdeflate_gzip_compress_bound(NULL, n);
}

static size_t encode_gzip(const char *bytes, size_t n, char *out, size_t max)
{
    struct libdeflate_compressor *compressor = libdeflate_alloc_compressor(GZIP_LEVEL);
    size_t coded_n = compressor ? libdeflate_gzip_compress(compressor, bytes, n, out, max) : 0;
    libdeflate_free_compressor(compressor);
    return coded_n;
}
#endif

static const struct encoder encoders[GS_HTTP_CODINGS] = {
#ifdef GS_ENCODE_BROTLI
    [GS_HTTP_IN_BR] = {BrotliEncoderMaxCompressedSize, encode_brotli},
#endif
#ifdef GS_ENCODE_ZSTD
    [GS_HTTP_IN_ZSTD] = {ZSTD_compressBound, encode_zstd},
#endif
#ifdef GS_ENCODE_GZIP
    [GS_HTTP_IN_GZIP] = {bound_gzip, encode_gzip},
#endif
};

unsigned serve_encodings(void)
{
    unsigned set = 0;
    for (unsigned coding = 1; coding < GS_HTTP_CODINGS; coding++)
        if (encoders[coding].encode)
            set |= GS_HTTP_CODING_BIT(coding);
    return set;
}

int serve_encode(enum gs_http_coding coding, const char *bytes, size_t n,
                 struct gs_http_coded **ret_coded)
{
    size_t max = encoders[coding].bound(n);
    struct gs_http_coded *coded = malloc(sizeof *coded + max);
    if (!coded)
        return -ENOMEM;
    size_t coded_n = encoders[coding].encode(bytes, n, coded->bytes, max);
    if (!coded_n || coded_n > n - n / 10) {
        free(coded);
        return coded_n ? -ENODATA : -ENOMEM;
    }
    struct gs_http_coded *shrunk = realloc(coded, sizeof *coded + coded_n);
    *ret_coded = shrunk ? shrunk : coded;
    (*ret_coded)->references = 1;
    (*ret_coded)->n = coded_n;
    return 0;
}
