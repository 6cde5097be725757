/* A client of a server with a small page, one of two frames, and a large one. */
#ifndef GS_TESTS_HTTP2_FIXTURE_H
#define GS_TESTS_HTTP2_FIXTURE_H

#include "http2/session.h"
#include "tests/http2/client.h"
#include "tests/test.h"

static struct client client;
static char large[1 << 20];

static inline void start(void)
{
    client_start(&client, NULL);
    drive_write(&client.drive, "f", "hello");
    drive_write_bytes(&client.drive, "large", large, sizeof large);
    drive_write_bytes(&client.drive, "middle", large, 30000);
}

static inline const struct gs_http2_session *session_of(void)
{
    return (struct gs_http2_session *)client.drive.conn.http2;
}

static inline const struct client_stream *stream_of(int32_t id)
{
    return &client.streams[id];
}

/* The GOAWAY frames in the output: their number, and the last one's error. The client does not look
 * so far. */
static inline unsigned count_goaways(uint32_t *ret_error)
{
    const uint8_t *at = (const uint8_t *)client.drive.output, *end = at + client.drive.output_n;
    unsigned count = 0;
    for (; end - at >= 9; at += 9 + (at[0] << 16 | at[1] << 8 | at[2])) {
        if (at[3] != NGHTTP2_GOAWAY)
            continue;
        *ret_error = at[9 + 7];
        count++;
    }
    return count;
}

#endif
