/* Fuzzes a client's connection of HTTP/2, whose server sends what the input says. If the first byte
 * is even, the rest is what the server sends, whole and in pieces, in answer to three requests; if
 * it is odd, it encodes a sequence of frames and of what the user does meanwhile. Each request ends
 * once, and memory is bounded. */
#include "tests/http2/engine.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUESTS 3

static struct engine engine;

static void frame(uint8_t type, uint8_t flags, int32_t id, const void *payload, size_t n)
{
    const struct engine_frame received = {type, flags, id, payload, n};
    engine_frame(&engine, &received);
}

struct outcome {
    unsigned status;
    int err;
    size_t body_n;
};

/* ---- Invariants ---- */

static void check(void)
{
    uint32_t count = 0;
    GS_LIST_FOREACH (link, &engine.client.streams) {
        const struct gs_http2_client_stream *stream =
            gs_container_of(link, struct gs_http2_client_stream, link);
        const struct engine_call *call = gs_container_of(stream, struct engine_call, stream);
        assert(!call->ends && stream->field_bytes <= engine.client.max_header + (64u << 10));
        assert(stream->has_head == (call->heads == 1));
        count++;
    }
    assert(count == engine.client.count);
}

static void start(void)
{
    engine.client.max_header = 500; /* short inputs exceed these limits */
    engine.client.max_fields = 20;
    engine.client.window = 300;
    engine.drive.now_ns = DRIVE_START_NS;
    assert(!engine_open(&engine));
    frame(NGHTTP2_SETTINGS, 0, 0, NULL, 0);
}

static void finish(void)
{
    check();
    (void)engine_discard(&engine, 0);
    engine_close(&engine);
    for (unsigned i = 0; i < engine.count; i++)
        assert(engine.calls[i].ends == 1);
}

/* ---- The same bytes in several pieces ---- */

static void run_session(const uint8_t *bytes, size_t n, size_t chunk, struct outcome *ret_outcomes)
{
    engine.chunk = chunk;
    start();
    engine_get(&engine, "GET", "/");
    engine_get(&engine, "HEAD", "/");
    engine_next(&engine)->body_left = 1000;
    engine_get(&engine, "POST", "/");
    (void)engine_discard(&engine, 0);
    engine_receive(&engine, bytes, n);
    finish();
    for (size_t i = 0; i < REQUESTS; i++) {
        const struct engine_call *call = &engine.calls[i];
        ret_outcomes[i] = (struct outcome){call->stream.status, call->err, call->body_n};
    }
}

static void check_session(const uint8_t *bytes, size_t n)
{
    struct outcome whole[REQUESTS], pieces[REQUESTS];
    run_session(bytes, n, 0, whole);
    for (size_t chunk = 1; chunk < 8; chunk += 3) {
        run_session(bytes, n, chunk, pieces);
        for (size_t i = 0; i < REQUESTS; i++) {
            assert(!whole[i].err == !pieces[i].err); /* of two errors either may be first */
            assert(whole[i].err ||
                   (whole[i].status == pieces[i].status && whole[i].body_n == pieces[i].body_n));
        }
    }
}

/* ---- Sequences ---- */

struct script {
    const uint8_t *at, *end;
};

static unsigned next_byte(struct script *script)
{
    return script->at < script->end ? *script->at++ : 0;
}

static void receive_frame(struct script *script)
{
    static const uint8_t types[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16};
    uint8_t type = types[next_byte(script) % sizeof types];
    uint8_t flags = (uint8_t)next_byte(script);
    int32_t id = (int32_t)next_byte(script) % 16;
    size_t n = next_byte(script), left = (size_t)(script->end - script->at);
    n = n < left ? n : left;
    frame(type, flags, id, script->at, n);
    script->at += n;
}

static void make_request(struct script *script)
{
    struct engine_call *call = engine_next(&engine);
    unsigned how = next_byte(script);
    call->is_slow = how & 1;
    call->is_held = how & 2;
    call->body_left = how & 4 ? 50 : 0;
    call->field_err = how & 8 ? -ENOMEM : 0;
    call->body_err = how & 16 ? -ENOSPC : 0;
    (void)!engine_request(&engine, how & 32 ? "HEAD" : "GET", "/", "A: b\r\n");
}

/* What the user does with one of its requests. */
static void use(struct script *script, unsigned what)
{
    struct engine_call *call = &engine.calls[next_byte(script) % 8];
    if (!gs_list_is_linked(&call->stream.link))
        return;
    if (what == 2) {
        assert(!gs_http2_client_cancel(&engine.client, &call->stream));
        call->ends++;
    } else if (what == 3) {
        assert(!gs_http2_client_consume(&engine.client, &call->stream, next_byte(script)));
    } else {
        call->is_held = false;
        assert(!gs_http2_client_resume(&engine.client, &call->stream));
    }
}

static void check_script(struct script *script)
{
    engine.chunk = 0;
    start();
    while (script->at < script->end) {
        unsigned what = next_byte(script) % 10;
        if (what == 0 && engine.count < 8)
            make_request(script);
        else if (what == 1)
            (void)engine_discard(&engine, 0);
        else if (what >= 2 && what <= 4)
            use(script, what);
        else if (what == 5)
            engine.drive.now_ns += GS_SECOND;
        else if (what == 6 && next_byte(script) == 1)
            gs_http2_client_close(&engine.client);
        else
            receive_frame(script);
        check();
    }
    finish();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script script = {data + 1, data + size};
    if (!size)
        return 0;
    if (data[0] % 2)
        check_script(&script);
    else
        check_session(data + 1, size - 1);
    return 0;
}
