/* Any bytes, cut anywhere, with any time between, and whatever else can happen to a connection: it
 * never wants nothing, its answers are framed as they say, and nothing leaks. If the first byte is
 * even, the rest is a session, whose answers are the same in whatever pieces it comes; if it is
 * odd, the rest says what happens. */
#include "tests/http/drive.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct drive drive;

static void stop(void)
{
    drive_stop(&drive);
}

static void start(void)
{
    static char large[70000];
    struct gs_http_options options;
    if (drive.service)
        return;
    gs_http_options_default(&options);
    options.body_most = 5000;
    options.requests_most = 50;
    drive_start(&drive, &options);
    drive_write(&drive, "f", "a small file");
    drive_write_bytes(&drive, "l", large, sizeof large);
    drive_folder(&drive, "d");
    drive_folder(&drive, "e");
    drive_write(&drive, "e/index.html", "index");
    assert(symlink("/etc/passwd", drive_path(&drive, "out")) == 0);
    atexit(stop);
}

static void reset(void)
{
    drive_reopen(&drive);
    drive_forget(&drive);
    drive.split = 0;
    drive.take = 0;
    drive.keep_output = drive.hold_loads = false;
    drive.logged_count = 0;
}

/* ---- The same session in several pieces ---- */

static char *run_session(const char *bytes, size_t n, size_t split, size_t *ret_n)
{
    reset();
    drive.split = split;
    drive.take = split;
    drive_say_bytes(&drive, bytes, n);
    drive_end(&drive);
    assert(gs_http_conn_wants(&drive.conn) == GS_HTTP_CLOSE);
    char *output = malloc(drive.output_n + 1);
    assert(output);
    memcpy(output, drive.output, drive.output_n);
    *ret_n = drive.output_n;
    return output;
}

static void check_session(const char *bytes, size_t n)
{
    size_t whole_n, pieces_n;
    free(run_session(bytes, n, 0, &whole_n)); /* for the cache */
    char *whole = run_session(bytes, n, 0, &whole_n);
    for (size_t split = 1; split < 8; split += 3) {
        char *pieces = run_session(bytes, n, split, &pieces_n);
        assert(pieces_n == whole_n && !memcmp(pieces, whole, whole_n));
        free(pieces);
    }
    free(whole);
}

/* ---- Anything that can happen ---- */

struct script {
    const uint8_t *at, *end;
    struct gs_http_load *taken; /* from the connection */
};

static unsigned next_byte(struct script *script)
{
    return script->at < script->end ? *script->at++ : 0;
}

static void receive(struct script *script, size_t n)
{
    if (n > (size_t)(script->end - script->at))
        n = (size_t)(script->end - script->at);
    if (gs_http_conn_wants(&drive.conn) & GS_HTTP_READ && n)
        gs_http_conn_receive(&drive.conn, (const char *)script->at, n, drive.now_ns);
    script->at += n;
}

static void load(struct script *script, unsigned how)
{
    if (!script->taken && gs_http_conn_wants(&drive.conn) & GS_HTTP_LOAD) {
        script->taken = gs_http_conn_take_load(&drive.conn);
    } else if (script->taken) {
        struct gs_http_file_op op;
        if (how & 1)
            gs_http_load_run(script->taken);
        while (gs_http_load_next(script->taken, &op)) /* each operation fails */
            gs_http_load_result(script->taken, -(int)(1 + how % 40));
        gs_http_conn_loaded(&drive.conn, script->taken, drive.now_ns);
        script->taken = NULL;
    }
}

static void step(struct script *script)
{
    unsigned what = next_byte(script), how = next_byte(script);
    switch (what % 12) {
    case 0:
        drive_take(&drive, how);
        break;
    case 1:
        drive_take(&drive, how * UINT64_C(1000));
        break;
    case 2:
        load(script, how);
        break;
    case 3:
        drive.now_ns += how * GS_SECOND / 4;
        if (gs_http_conn_deadline(&drive.conn) <= drive.now_ns)
            gs_http_conn_expire(&drive.conn, how * UINT64_C(64), drive.now_ns);
        break;
    case 4:
        if (gs_http_conn_wants(&drive.conn) & GS_HTTP_SHUTDOWN)
            gs_http_conn_shut_down(&drive.conn, drive.now_ns);
        break;
    case 5:
        if (how > 200)
            gs_http_conn_drain(&drive.conn, drive.now_ns);
        break;
    case 6:
        if (how > 250)
            gs_http_conn_abort(&drive.conn);
        else if (how > 220 && gs_http_conn_wants(&drive.conn) & GS_HTTP_READ)
            gs_http_conn_receive_end(&drive.conn, drive.now_ns);
        break;
    default:
        receive(script, what < 128 ? how : how * 16);
    }
}

static void check_state(const struct script *script)
{
    unsigned wants = gs_http_conn_wants(&drive.conn);
    assert(wants || script->taken);
    assert(!(wants & GS_HTTP_CLOSE) || wants == GS_HTTP_CLOSE);
    assert(!(wants & GS_HTTP_LOAD) || !script->taken);
    if (gs_http_conn_is_idle(&drive.conn))
        assert(!drive.conn.tail && !drive.conn.output && !drive.conn.load);
    struct gs_http_piece piece;
    if (wants & GS_HTTP_WRITE)
        assert(gs_http_conn_output(&drive.conn, &piece, 1) == 1 && piece.n);
}

static void check_script(const uint8_t *data, size_t size)
{
    struct script script = {.at = data, .end = data + size};
    reset();
    while (script.at < script.end && !(gs_http_conn_wants(&drive.conn) & GS_HTTP_CLOSE)) {
        step(&script);
        check_state(&script);
    }
    if (script.taken)
        load(&script, 1);
    /* Left alone, it ends. */
    for (int i = 0; i < 500 && !(gs_http_conn_wants(&drive.conn) & GS_HTTP_CLOSE); i++)
        drive_pass(&drive, 100 * GS_SECOND);
    assert(gs_http_conn_wants(&drive.conn) == GS_HTTP_CLOSE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    start();
    if (!size)
        return 0;
    if (data[0] % 2)
        check_script(data + 1, size - 1);
    else
        check_session((const char *)data + 1, size - 1);
    return 0;
}
