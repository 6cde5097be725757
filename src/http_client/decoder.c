#include "http_client/decoder.h"

#include "http/text.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef GS_HTTP_GZIP
#include <zlib.h>
#define ACCEPT_GZIP "gzip"
#else
#define ACCEPT_GZIP ""
#endif
#ifdef GS_HTTP_BROTLI
#include <brotli/decode.h>
#define ACCEPT_BROTLI "br"
#else
#define ACCEPT_BROTLI ""
#endif
#ifdef GS_HTTP_ZSTD
#include <zstd.h>
#define ACCEPT_ZSTD "zstd"
#else
#define ACCEPT_ZSTD ""
#endif

/* Empty elements of a list are allowed, but not sent by polite clients. */
#if defined(GS_HTTP_GZIP) && (defined(GS_HTTP_BROTLI) || defined(GS_HTTP_ZSTD))
#define COMMA_1 ", "
#else
#define COMMA_1 ""
#endif
#if defined(GS_HTTP_BROTLI) && defined(GS_HTTP_ZSTD)
#define COMMA_2 ", "
#else
#define COMMA_2 ""
#endif
const char gs_http_client_codings[] = ACCEPT_GZIP COMMA_1 ACCEPT_BROTLI COMMA_2 ACCEPT_ZSTD;

/* What a coding does. `decode` is given at most UINT_MAX bytes and room, and sets
 * is_complete. */
struct coding {
    const char *name;
    int (*init)(struct gs_http_client_decoder *decoder);
    ssize_t (*decode)(struct gs_http_client_decoder *decoder, struct gs_http_text *input, char *out,
                      size_t room);
    void (*done)(struct gs_http_client_decoder *decoder);
};

struct gs_http_client_decoder {
    const struct coding *coding;
    bool is_complete; /* at the end of a member or frame */
    union {
        char unused;
#ifdef GS_HTTP_GZIP
        z_stream gzip;
#endif
#ifdef GS_HTTP_BROTLI
        BrotliDecoderState *brotli;
#endif
#ifdef GS_HTTP_ZSTD
        ZSTD_DStream *zstd;
#endif
    };
};

static void advance(struct gs_http_text *input, size_t n)
{
    input->bytes += n;
    input->n -= n;
}

/* ---- gzip (RFC 1952): one or more members ---- */

#ifdef GS_HTTP_GZIP
static int gzip_init(struct gs_http_client_decoder *decoder)
{
    return inflateInit2(&decoder->gzip, 16 + MAX_WBITS) == Z_OK ? 0 : -ENOMEM;
}

static ssize_t gzip_decode(struct gs_http_client_decoder *decoder, struct gs_http_text *input,
                           char *out, size_t room)
{
    z_stream *stream = &decoder->gzip;
    if (decoder->is_complete && input->n && inflateReset(stream) != Z_OK)
        return -EPROTO;
    decoder->is_complete &= !input->n;
    stream->next_in = (unsigned char *)input->bytes;
    stream->avail_in = (unsigned)input->n;
    stream->next_out = (unsigned char *)out;
    stream->avail_out = (unsigned)room;
    int result = decoder->is_complete ? Z_BUF_ERROR : inflate(stream, Z_NO_FLUSH);
    advance(input, input->n - stream->avail_in);
    decoder->is_complete |= result == Z_STREAM_END;
    if (result == Z_MEM_ERROR)
        return -ENOMEM;
    bool is_well = result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR;
    return is_well ? (ssize_t)(room - stream->avail_out) : -EPROTO;
}

static void gzip_done(struct gs_http_client_decoder *decoder)
{
    inflateEnd(&decoder->gzip);
}
#endif

/* ---- br (RFC 7932) ---- */

#ifdef GS_HTTP_BROTLI
static int brotli_init(struct gs_http_client_decoder *decoder)
{
    decoder->brotli = BrotliDecoderCreateInstance(NULL, NULL, NULL);
    return decoder->brotli ? 0 : -ENOMEM;
}

static bool is_brotli_memory(BrotliDecoderErrorCode code)
{
    return code <= BROTLI_DECODER_ERROR_ALLOC_CONTEXT_MODES &&
           code >= BROTLI_DECODER_ERROR_ALLOC_BLOCK_TYPE_TREES;
}

static ssize_t brotli_decode(struct gs_http_client_decoder *decoder, struct gs_http_text *input,
                             char *out, size_t room)
{
    const uint8_t *next_in = (const uint8_t *)input->bytes;
    uint8_t *next_out = (uint8_t *)out;
    size_t available_in = input->n, available_out = room;
    if (decoder->is_complete)
        return input->n ? -EPROTO : 0;
    BrotliDecoderResult result = BrotliDecoderDecompressStream(
        decoder->brotli, &available_in, &next_in, &available_out, &next_out, NULL);
    advance(input, input->n - available_in);
    decoder->is_complete = result == BROTLI_DECODER_RESULT_SUCCESS;
    if (result != BROTLI_DECODER_RESULT_ERROR)
        return (ssize_t)(room - available_out);
    return is_brotli_memory(BrotliDecoderGetErrorCode(decoder->brotli)) ? -ENOMEM : -EPROTO;
}

static void brotli_done(struct gs_http_client_decoder *decoder)
{
    BrotliDecoderDestroyInstance(decoder->brotli);
}
#endif

/* ---- zstd (RFC 8878): one or more frames; the window is limited as by RFC 9659 ---- */

#ifdef GS_HTTP_ZSTD
#define ZSTD_WINDOW_LOG 23

static int zstd_init(struct gs_http_client_decoder *decoder)
{
    decoder->zstd = ZSTD_createDStream();
    if (!decoder->zstd)
        return -ENOMEM;
    ZSTD_DCtx_setParameter(decoder->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG);
    return 0;
}

static ssize_t zstd_decode(struct gs_http_client_decoder *decoder, struct gs_http_text *input,
                           char *out, size_t room)
{
    ZSTD_inBuffer in = {input->bytes, input->n, 0};
    ZSTD_outBuffer output = {out, room, 0};
    if (decoder->is_complete && !input->n)
        return 0;
    size_t result = ZSTD_decompressStream(decoder->zstd, &output, &in);
    advance(input, in.pos);
    decoder->is_complete = !result;
    if (!ZSTD_isError(result))
        return (ssize_t)output.pos;
    /* The number of the error is no part of zstd's stable interface before 1.6; its name is. */
    return strstr(ZSTD_getErrorName(result), "memory : not enough") ? -ENOMEM : -EPROTO;
}

static void zstd_done(struct gs_http_client_decoder *decoder)
{
    ZSTD_freeDStream(decoder->zstd);
}
#endif

/* ---- The codings ---- */

static const struct coding codings[] = {
#ifdef GS_HTTP_GZIP
    {"gzip", gzip_init, gzip_decode, gzip_done},
    {"x-gzip", gzip_init, gzip_decode, gzip_done},
#endif
#ifdef GS_HTTP_BROTLI
    {"br", brotli_init, brotli_decode, brotli_done},
#endif
#ifdef GS_HTTP_ZSTD
    {"zstd", zstd_init, zstd_decode, zstd_done},
#endif
    {NULL, NULL, NULL, NULL},
};

/* Returns NULL if it is unknown. */
static const struct coding *find(const char *name)
{
    struct gs_http_text text = {name, strlen(name)};
    for (const struct coding *coding = codings; coding->name; coding++)
        if (gs_http_text_is_nocase(text, coding->name))
            return coding;
    return NULL;
}

bool gs_http_client_can_decode(const char *coding)
{
    return find(coding);
}

int gs_http_client_decoder_new(const char *coding, struct gs_http_client_decoder **ret_decoder)
{
    struct gs_http_client_decoder *decoder = calloc(1, sizeof *decoder);
    if (!decoder)
        return -ENOMEM;
    decoder->coding = find(coding);
    int err = decoder->coding->init(decoder);
    if (err) {
        free(decoder);
        return err;
    }
    *ret_decoder = decoder;
    return 0;
}

void gs_http_client_decoder_free(struct gs_http_client_decoder *decoder)
{
    if (!decoder)
        return;
    decoder->coding->done(decoder);
    free(decoder);
}

bool gs_http_client_decoder_is_complete(const struct gs_http_client_decoder *decoder)
{
    return decoder->is_complete;
}

ssize_t gs_http_client_decode(struct gs_http_client_decoder *decoder, struct gs_http_text *input,
                              char *out, size_t room)
{
    struct gs_http_text part = {input->bytes, input->n < UINT_MAX ? input->n : UINT_MAX};
    size_t before = part.n;
    ssize_t result =
        decoder->coding->decode(decoder, &part, out, room < UINT_MAX ? room : UINT_MAX);
    advance(input, before - part.n);
    return result;
}
