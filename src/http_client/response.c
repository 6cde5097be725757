#include "http_client/response.h"

#include "http_client/client.h"
#include "http_client/error.h"

#include <errno.h>
#include <gossamer/thread.h>
#include <limits.h>
#include <stdlib.h>
#include <strings.h>

static struct gs_http_client_reading *reading_of(struct gs_http_response *response)
{
    return gs_container_of(response, struct gs_http_client_reading, response);
}

/* ---- The head ---- */

const char *gs_http_client_find(const struct gs_http_field *fields, unsigned count,
                                const char *name)
{
    for (unsigned i = 0; i < count; i++)
        if (!strcasecmp(fields[i].name, name))
            return fields[i].value;
    return NULL;
}

const char *gs_http_response_field(const struct gs_http_response *response, const char *name)
{
    return gs_http_client_find(response->fields, response->field_count, name);
}

int gs_http_client_respond(const struct gs_http_client *client,
                           struct gs_http_client_stream *stream,
                           const struct gs_http_client_answer *answer, char *url,
                           struct gs_http_client_reading **ret_reading)
{
    struct gs_http_client_reading *reading = calloc(1, sizeof *reading);
    if (!reading)
        return -ENOMEM;
    reading->client = client;
    reading->stream = stream;
    reading->head = answer->memory;
    reading->url = url;
    reading->response = (struct gs_http_response){.status = answer->status,
                                                  .url = url,
                                                  .fields = answer->fields,
                                                  .field_count = answer->field_count,
                                                  .content_length = answer->content_length};
    *ret_reading = reading;
    return 0;
}

/* ---- The body ---- */

static ssize_t read_plain(struct gs_http_client_reading *reading, void *bytes, size_t n,
                          uint64_t deadline_ns)
{
    struct gs_http_client_stream *stream = reading->stream;
    const char *available;
    ssize_t result = stream->operations->peek(stream, deadline_ns, &available);
    if (result <= 0)
        return result;
    n = (size_t)result < n ? (size_t)result : n;
    memcpy(bytes, available, n);
    stream->operations->consume(stream, n);
    return (ssize_t)n;
}

struct decoding {
    struct gs_http_client_reading *reading;
    struct gs_http_text input;
    char *out;
    size_t room;
    ssize_t result;
};

/* On the worker's stack. */
static void *decode(void *argument)
{
    struct decoding *decoding = argument;
    struct gs_http_client_reading *reading = decoding->reading;
    decoding->result = 0;
    if (!reading->decoder)
        decoding->result = gs_http_client_decoder_new(reading->coding, &reading->decoder);
    if (!decoding->result)
        decoding->result = gs_http_client_decode(reading->decoder, &decoding->input, decoding->out,
                                                 decoding->room);
    return NULL;
}

/* Returns 0 at the proper end of the body. A body of no bytes is none, in any coding. */
static int end_decoding(struct gs_http_client_reading *reading)
{
    if (!reading->decoder || gs_http_client_decoder_is_complete(reading->decoder))
        return 0;
    return gs_http_client_fail(-EPROTO, "%s: the body ends within its coding (%s)", reading->url,
                               reading->coding);
}

static ssize_t finish_step(struct gs_http_client_reading *reading, const struct decoding *decoding)
{
    uint64_t max = reading->client->options.max_decoded;
    if (decoding->result == -EPROTO)
        return gs_http_client_fail(-EPROTO, "%s: the body is not valid %s", reading->url,
                                   reading->coding);
    if (decoding->result < 0)
        return decoding->result;
    reading->is_full = decoding->result && (size_t)decoding->result == decoding->room;
    reading->decoded += (uint64_t)decoding->result;
    if (reading->decoded > max)
        return gs_http_client_fail(-EFBIG,
                                   "%s: the decoded body is longer than %llu bytes (raise "
                                   "max_decoded if that is right)",
                                   reading->url, (unsigned long long)max);
    return decoding->result;
}

static ssize_t read_decoded(struct gs_http_client_reading *reading, void *bytes, size_t n,
                            uint64_t deadline_ns)
{
    struct gs_http_client_stream *stream = reading->stream;
    /* A decoder fills at most UINT_MAX bytes at a time: more room would never be full. */
    struct decoding decoding = {
        .reading = reading, .out = bytes, .room = n < UINT_MAX ? n : UINT_MAX};
    for (;;) {
        const char *available = "";
        ssize_t result = 0;
        if (!reading->is_full)
            result = stream->operations->peek(stream, deadline_ns, &available);
        if (result < 0)
            return result;
        if (!result && !reading->is_full)
            return end_decoding(reading);
        decoding.input = (struct gs_http_text){available, (size_t)result};
        gs_thread_call_on_worker_stack(decode, &decoding);
        if (result)
            stream->operations->consume(stream, (size_t)result - decoding.input.n);
        result = finish_step(reading, &decoding);
        if (result)
            return result;
    }
}

ssize_t gs_http_response_read(struct gs_http_response *response, void *bytes, size_t n,
                              uint64_t deadline_ns)
{
    struct gs_http_client_reading *reading = reading_of(response);
    if (!n)
        return 0;
    gs_http_client_error_clear();
    ssize_t result = reading->coding ? read_decoded(reading, bytes, n, deadline_ns)
                                     : read_plain(reading, bytes, n, deadline_ns);
    return result < 0 ? gs_http_client_fail_plainly((int)result, reading->url) : result;
}

/* Returns 0, or -ENOMEM. */
static int grow(char **body, size_t *size, size_t max)
{
    size_t more = *size ? 2 * *size : 4096;
    more = more < max + 1 ? more : max + 1;
    char *grown = realloc(*body, more + 1);
    if (!grown)
        return -ENOMEM;
    *body = grown;
    *size = more;
    return 0;
}

/* One byte more than max is asked for, so that a longer body is noticed. */
ssize_t gs_http_response_read_all(struct gs_http_response *response, size_t max,
                                  uint64_t deadline_ns, char **ret_body)
{
    char *body = NULL;
    size_t n = 0, size = 0;
    ssize_t result = 1;
    max = max < SSIZE_MAX / 4 ? max : SSIZE_MAX / 4;
    while (result > 0 && n <= max) {
        if (n == size && grow(&body, &size, max)) {
            result = -ENOMEM;
            break;
        }
        result = gs_http_response_read(response, body + n, size - n, deadline_ns);
        n += result > 0 ? (size_t)result : 0;
    }
    if (n > max)
        result = gs_http_client_fail(-EMSGSIZE, "%s: the body is longer than %zu bytes",
                                     response->url, max);
    if (result < 0) {
        free(body);
        return result;
    }
    body[n] = '\0';
    *ret_body = body;
    return (ssize_t)n;
}

/* ---- The end ---- */

static void *free_decoder(void *decoder)
{
    gs_http_client_decoder_free(decoder);
    return NULL;
}

void gs_http_response_free(struct gs_http_response *response)
{
    if (!response)
        return;
    struct gs_http_client_reading *reading = reading_of(response);
    reading->stream->operations->release(reading->stream);
    if (reading->decoder)
        gs_thread_call_on_worker_stack(free_decoder, reading->decoder);
    free(reading->head);
    free(reading->url);
    free(reading);
}
