#include "http/output.h"

#include <stdlib.h>
#include <string.h>

struct gs_http_output *gs_http_output_new(uint32_t max_segments, uint32_t size)
{
    struct gs_http_output *output = malloc(offsetof(struct gs_http_output, segments) +
                                           max_segments * sizeof *output->segments + size);
    if (!output)
        return NULL;
    output->max_segments = max_segments;
    output->size = size;
    gs_http_output_init(output);
    return output;
}

void gs_http_output_init(struct gs_http_output *output)
{
    output->first = output->count = output->used = 0;
    output->position = output->end = 0;
    output->started_ns = output->responses = 0;
    output->log_records = NULL;
    output->last_log_record = &output->log_records;
}

void gs_http_output_done(struct gs_http_output *output)
{
    gs_http_output_release(output, output->count);
}

char *gs_http_output_extend(struct gs_http_output *output, size_t n)
{
    assert(output->size - output->used >= n);
    char *bytes = (char *)(output->segments + output->max_segments) + output->used;
    struct gs_http_segment *last =
        output->count > output->first ? &output->segments[output->count - 1] : NULL;
    if (last && last->piece.bytes && last->piece.bytes + last->piece.n == bytes) {
        last->piece.n += n;
    } else {
        assert(output->count < output->max_segments);
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
    assert(output->count < output->max_segments);
    output->segments[output->count++] = (struct gs_http_segment){
        .page = gs_http_page_ref(page),
        .piece = {.bytes = page->body ? page->body + offset : NULL,
                  .n = n,
                  .offset = offset,
                  .fd = page->fd,
                  .page = page},
    };
    output->end += n;
}

void gs_http_output_put_page(struct gs_http_output *output, struct gs_http_page *page,
                             bool with_body)
{
    uint64_t n = page->head.n + (with_body ? (uint64_t)page->stat.st_size : 0);
    assert(output->count < output->max_segments);
    output->segments[output->count++] = (struct gs_http_segment){
        .page = gs_http_page_ref(page),
        .piece = {.bytes = page->head.bytes, .n = n, .fd = -1},
    };
    output->end += n;
}

/* Sending one segment costs less than sending two. */
#define COPY_MAX 2048

uint64_t gs_http_output_copied(const struct gs_http_segment *segment, uint64_t n)
{
    return !segment->page || (segment->piece.bytes && n <= COPY_MAX) ? n : 0;
}

void gs_http_output_move(struct gs_http_output *to, struct gs_http_output *from, uint64_t n)
{
    const struct gs_http_segment *first = &from->segments[from->first];
    if (gs_http_output_copied(first, n)) {
        gs_http_output_put(to, (struct gs_http_text){first->piece.bytes, (size_t)n});
    } else {
        assert(to->count < to->max_segments);
        to->segments[to->count] = *first;
        to->segments[to->count].piece.n = n;
        gs_http_page_ref(first->page);
        to->count++;
        to->end += n;
    }
    gs_http_output_advance(from, n);
}

static bool has_pages_only(const struct gs_http_output *output)
{
    for (uint32_t i = output->first; i < output->count; i++)
        if (!output->segments[i].page)
            return false;
    return true;
}

struct gs_http_output *gs_http_output_compact(struct gs_http_output *output)
{
    uint32_t left = output->count - output->first;
    struct gs_http_output *rest = NULL;
    if (output->size && has_pages_only(output))
        rest = gs_http_output_new(left, 0);
    if (!rest)
        return NULL;
    memcpy(rest->segments, output->segments + output->first, left * sizeof *rest->segments);
    rest->count = left;
    rest->position = output->position;
    rest->end = output->end;
    rest->started_ns = output->started_ns;
    rest->responses = output->responses;
    if (output->log_records) {
        rest->log_records = output->log_records;
        rest->last_log_record = output->last_log_record;
    }
    gs_http_output_init(output);
    return rest;
}
