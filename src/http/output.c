#include "http/output.h"

#include <assert.h>
#include <string.h>

void gs_http_output_init(struct gs_http_output *output)
{
    output->first = output->count = output->used = 0;
    output->position = output->end = 0;
    output->logged = NULL;
    output->last_logged = &output->logged;
}

static void release_segments(struct gs_http_output *output, uint32_t end)
{
    for (; output->first < end; output->first++)
        gs_http_page_unref(output->segments[output->first].page);
}

void gs_http_output_done(struct gs_http_output *output)
{
    release_segments(output, output->count);
}

char *gs_http_output_extend(struct gs_http_output *output, size_t n)
{
    assert(sizeof output->buffer - output->used >= n);
    char *bytes = output->buffer + output->used;
    struct gs_http_segment *last =
        output->count > output->first ? &output->segments[output->count - 1] : NULL;
    if (last && last->piece.bytes && last->piece.bytes + last->piece.n == bytes) {
        last->piece.n += n;
    } else {
        assert(output->count < GS_HTTP_OUTPUT_SEGMENTS);
        output->segments[output->count++] =
            (struct gs_http_segment){.piece = {.bytes = bytes, .n = n, .fd = -1}};
    }
    output->used += (uint32_t)n;
    output->end += n;
    return bytes;
}

void gs_http_output_put(struct gs_http_output *output, struct gs_http_text text)
{
    memcpy(gs_http_output_extend(output, text.n), text.bytes, text.n);
}

void gs_http_output_put_body(struct gs_http_output *output, struct gs_http_page *page,
                             uint64_t offset, uint64_t n)
{
    if (!n)
        return;
    assert(output->count < GS_HTTP_OUTPUT_SEGMENTS);
    output->segments[output->count++] = (struct gs_http_segment){
        .page = gs_http_page_ref(page),
        .piece = {.bytes = page->body ? page->body + offset : NULL,
                  .n = n,
                  .offset = offset,
                  .fd = page->fd},
    };
    output->end += n;
}

void gs_http_output_put_page(struct gs_http_output *output, struct gs_http_page *page)
{
    uint64_t n = page->head.n + (uint64_t)page->stat.st_size;
    assert(output->count < GS_HTTP_OUTPUT_SEGMENTS);
    output->segments[output->count++] = (struct gs_http_segment){
        .page = gs_http_page_ref(page),
        .piece = {.bytes = page->head.bytes, .n = n, .fd = -1},
    };
    output->end += n;
}

void gs_http_output_advance(struct gs_http_output *output, uint64_t n)
{
    assert(n <= output->end - output->position);
    output->position += n;
    while (n) {
        struct gs_http_piece *piece = &output->segments[output->first].piece;
        if (n < piece->n) {
            if (piece->bytes)
                piece->bytes += n;
            piece->offset += n;
            piece->n -= n;
            return;
        }
        n -= piece->n;
        release_segments(output, output->first + 1);
    }
}
