#include "load/samples.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* An end that was not received gives a meaningless duration, but never one that wraps around. */
static uint64_t duration(uint64_t start_ns, uint64_t end_ns)
{
    return end_ns > start_ns ? end_ns - start_ns : 0;
}

struct load_sample gs_load_timestamps_sample(const struct load_timestamps *times,
                                             uint64_t connect_ns)
{
    struct load_sample sample = {.end_ns = times->end_ns,
                                 .service_ns = duration(times->sent_ns, times->end_ns),
                                 .first_byte_ns = duration(times->sent_ns, times->first_byte_ns),
                                 .connect_ns = connect_ns,
                                 .handshake_ns = LOAD_NO_TIME,
                                 .send_delay_ns = LOAD_NO_TIME};
    sample.response_ns = sample.service_ns;
    if (times->scheduled_ns == LOAD_NO_TIME)
        return sample;
    uint64_t earliest_ns =
        gs_load_timestamps_is_queued(times) ? times->free_ns : times->scheduled_ns;
    sample.response_ns = duration(times->scheduled_ns, times->end_ns);
    sample.send_delay_ns = duration(earliest_ns, times->start_ns);
    return sample;
}

/* ---- Buffer ---- */

int gs_load_sample_buffer_init(struct load_sample_buffer *buffer, size_t capacity)
{
    *buffer = (struct load_sample_buffer){.capacity = capacity};
    if (!capacity)
        return 0;
    buffer->first = calloc(2 * capacity, sizeof *buffer->first);
    if (!buffer->first)
        return -ENOMEM;
    buffer->ring = buffer->first + capacity;
    return 0;
}

void gs_load_sample_buffer_done(struct load_sample_buffer *buffer)
{
    free(buffer->first);
    *buffer = (struct load_sample_buffer){0};
}

bool gs_load_sample_buffer_push(struct load_sample_buffer *buffer, const struct load_sample *sample,
                                struct load_sample *ret_evicted)
{
    if (buffer->first_count < buffer->capacity) {
        buffer->first[buffer->first_count++] = *sample;
        return false;
    }
    bool is_full = buffer->ring_count == buffer->capacity;
    if (is_full)
        *ret_evicted = buffer->ring[buffer->ring_next];
    else
        buffer->ring_count++;
    buffer->ring[buffer->ring_next] = *sample;
    buffer->ring_next = buffer->ring_next + 1 == buffer->capacity ? 0 : buffer->ring_next + 1;
    return is_full;
}

size_t gs_load_sample_buffer_copy(const struct load_sample_buffer *buffer, struct load_sample *all)
{
    if (!buffer->capacity)
        return 0;
    memcpy(all, buffer->first, buffer->first_count * sizeof *all);
    memcpy(all + buffer->first_count, buffer->ring, buffer->ring_count * sizeof *all);
    return buffer->first_count + buffer->ring_count;
}

static int by_end(const void *a, const void *b)
{
    const struct load_sample *left = a, *right = b;
    return left->end_ns < right->end_ns ? -1 : left->end_ns > right->end_ns;
}

void gs_load_samples_sort(struct load_sample *all, size_t count)
{
    qsort(all, count, sizeof *all, by_end);
}
