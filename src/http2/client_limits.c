/* The budget of frames without use that a server may send. Each frame takes from it, except for
 * DATA that has bytes, which flow control bounds. It is refilled with time, by each response, and
 * by what is sent: a server may open its windows often. */
#include "http2/client.h"

#define BURST 1000
#define REFILL_A_SECOND 33
#define WORK_OF_A_FRAME 4
#define BYTES_OF_A_UNIT 512
#define HEADER_N 9

static void add(struct gs_http2_client *client, uint64_t n)
{
    client->budget = n < BURST - client->budget ? client->budget + (unsigned)n : BURST;
}

void gs_http2_client_limits_init(struct gs_http2_client *client)
{
    client->budget = BURST;
    client->refilled_ns = client->now_ns;
}

void gs_http2_client_note_work(struct gs_http2_client *client, uint64_t n)
{
    add(client, WORK_OF_A_FRAME + n / BYTES_OF_A_UNIT);
}

static void refill(struct gs_http2_client *client)
{
    const uint64_t unit_ns = GS_SECOND / REFILL_A_SECOND;
    if (client->now_ns < client->refilled_ns + unit_ns)
        return;
    uint64_t n = (client->now_ns - client->refilled_ns) / unit_ns;
    add(client, n);
    client->refilled_ns += n * unit_ns;
}

static void on_header(struct gs_http2_client *client)
{
    const uint8_t *header = client->header;
    client->payload_left = (uint32_t)header[0] << 16 | (uint32_t)header[1] << 8 | header[2];
    if (header[3] == NGHTTP2_DATA && client->payload_left)
        return;
    client->continuations = header[3] == NGHTTP2_CONTINUATION ? client->continuations + 1 : 0;
    if (client->budget && client->continuations <= GS_HTTP2_CLIENT_CONTINUATIONS_MAX)
        client->budget--;
    else
        client->is_abused = true;
}

bool gs_http2_client_look_at(struct gs_http2_client *client, const uint8_t *bytes, size_t n)
{
    const uint8_t *end = bytes + n;
    refill(client);
    while (bytes < end) {
        size_t left = (size_t)(end - bytes);
        size_t part = client->payload_left < left ? client->payload_left : left;
        client->payload_left -= (uint32_t)part;
        bytes += part;
        while (bytes < end && client->header_n < HEADER_N)
            client->header[client->header_n++] = *bytes++;
        if (client->header_n < HEADER_N)
            break;
        client->header_n = 0;
        on_header(client);
    }
    return !client->is_abused;
}
