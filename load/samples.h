/* The timestamps of a request, the durations computed from them, and the buffer of samples that
 * --drop may exclude.
 *
 *    scheduled  free  start                    sent     first byte     end
 *        |       |      |                       |           |           |
 *        |       | send |                       |           |           |
 *        |       |-delay|------- connect -------|-----------|           |
 *        |                                      |------- service -------|
 *        |------------------------ response ----------------------------|
 *
 * A request that is scheduled while all connections are busy is queued until one is free. The
 * response time includes that wait, as a user who arrived then would have waited as long. The send
 * delay is the time between the moment when the request is scheduled and a connection is free, and
 * the moment when the client starts to process it: it is caused by this program. A closed loop has
 * no schedule: the response time is the service time. */
#ifndef GS_LOAD_SAMPLES_H
#define GS_LOAD_SAMPLES_H

#include <gossamer/api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOAD_NO_TIME UINT64_MAX

struct load_timestamps {
    uint64_t scheduled_ns, free_ns; /* LOAD_NO_TIME in a closed loop */
    uint64_t start_ns, sent_ns;
    uint64_t first_byte_ns, end_ns; /* LOAD_NO_TIME until received */
};

/* The durations of one request, and when it ended. */
struct load_sample {
    uint64_t end_ns;
    uint64_t response_ns;   /* scheduled to last byte; in a closed loop equal to service_ns */
    uint64_t service_ns;    /* sent to last byte */
    uint64_t first_byte_ns; /* sent to first byte */
    uint64_t connect_ns;    /* LOAD_NO_TIME unless this was the first response on its connection */
    uint64_t handshake_ns;  /* the part of connect_ns that is TLS; LOAD_NO_TIME without */
    uint64_t send_delay_ns; /* LOAD_NO_TIME in a closed loop */
};

/* connect_ns: duration, or LOAD_NO_TIME. Durations whose end was not received are meaningless. */
struct load_sample gs_load_timestamps_sample(const struct load_timestamps *times,
                                             uint64_t connect_ns);

/* Whether the request had to wait for a connection. */
static inline bool gs_load_timestamps_is_queued(const struct load_timestamps *times)
{
    return times->scheduled_ns < times->free_ns;
}

/* ---- Samples that --drop may exclude ---- */

/* --drop excludes the first and the last K responses of the whole run from the histograms: while
 * clients start and stop, the load is not the one to be measured.
 *
 * Each worker buffers its first K samples, and its last K in a ring; a sample that leaves the ring
 * is recorded. The first K of the run are among those buffered, and so are the last K: once all
 * workers have ended, the buffered samples are sorted by time, and those in the middle are
 * recorded.
 *
 * Invariants:
 * 1. first_count < capacity implies that the ring is empty.
 * 2. A sample is in exactly one place: first, ring or the histograms. */
struct load_sample_buffer {
    size_t capacity; /* K; 0: nothing is buffered */
    struct load_sample *first, *ring;
    size_t first_count, ring_count, ring_next;
};

/* Returns 0 or -ENOMEM. */
GS_MUST_CHECK int gs_load_sample_buffer_init(struct load_sample_buffer *buffer, size_t capacity);
void gs_load_sample_buffer_done(struct load_sample_buffer *buffer);

/* Add a sample. Returns whether another one left the buffer for it, which is stored in
 * *ret_evicted and must be recorded. */
bool gs_load_sample_buffer_push(struct load_sample_buffer *buffer, const struct load_sample *sample,
                                struct load_sample *ret_evicted);

/* Append all buffered samples to `all`, which has space for 2 * capacity more. Returns their
 * number. */
size_t gs_load_sample_buffer_copy(const struct load_sample_buffer *buffer, struct load_sample *all);

/* Sort by end time. */
void gs_load_samples_sort(struct load_sample *all, size_t count);

#endif
