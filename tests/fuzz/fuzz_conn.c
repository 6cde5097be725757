/* Fuzzes a connection with any input, any splits, any delays and all other events: the connection
 * always waits for some operation, its responses are framed as announced, and nothing leaks. If the
 * first byte is even, the rest is a session, which must get the same responses for any split; if it
 * is odd, the rest encodes a sequence of events. */
#include "tests/http/drive.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct drive drive;

/* ---- Files ---- */

#define FILE_FD_FIRST 1000000 /* no open descriptor has this number, so closing it has no effect */
#define FILE_SIZE_MAX 5000
#define CACHED_FILE_MAX 3000

struct file {
    const char *path;
    mode_t mode;
    int err; /* the error of opening the file */
    unsigned size, version;
};

/* The initial state for each input, copied to `files`. */
static const struct file files_at_first[] = {
    {"f", S_IFREG | 0644, 0, 12, 0},   {"m", S_IFREG | 0644, 0, 2500, 0}, /* not copied */
    {"l", S_IFREG | 0644, 0, 4000, 0},                                    /* not cached */
    {"z", S_IFREG | 0644, 0, 0, 0},    {"e/index.html", S_IFREG | 0644, 0, 5, 0},
    {"d/", S_IFDIR | 0755, 0, 0, 0},   {"d", S_IFDIR | 0755, 0, 0, 0},
    {".", S_IFDIR | 0755, 0, 0, 0},    {"p", S_IFIFO | 0644, 0, 0, 0},
    {"out", 0, -EXDEV, 0, 0},          {"g", 0, -EAGAIN, 0, 0},
    {"f/", 0, -ENOTDIR, 0, 0},
};
#define FILE_COUNT (sizeof files_at_first / sizeof *files_at_first)

static struct file files[FILE_COUNT];
static bool changed; /* this input or the previous one has changed a file */
static char contents[FILE_SIZE_MAX];

static int64_t open_file(const char *path)
{
    for (size_t i = 0; i < FILE_COUNT; i++)
        if (!strcmp(files[i].path, path))
            return files[i].err ? files[i].err : FILE_FD_FIRST + (int)i;
    return strncmp(path, "f/", 2) ? -ENOENT : -ENOTDIR;
}

static int64_t carry_out(const struct gs_http_file_op *op)
{
    if (op->kind == GS_HTTP_FILE_OPEN)
        return open_file(op->path);
    size_t i = (size_t)(op->fd - FILE_FD_FIRST);
    assert(i < FILE_COUNT);
    struct file *file = &files[i];
    if (op->kind == GS_HTTP_FILE_STAT) {
        *op->stat = (struct stat){.st_ino = i, .st_mode = file->mode, .st_size = file->size};
        op->stat->st_mtim.tv_sec = DRIVE_MODIFIED_S + file->version;
    }
    if (op->kind != GS_HTTP_FILE_READ)
        return 0;
    if (op->offset >= file->size)
        return 0;
    size_t left = file->size - (size_t)op->offset;
    size_t n = op->n < left ? op->n : left;
    memcpy(op->bytes, contents + op->offset, n);
    return (int64_t)n;
}

static void change(unsigned how)
{
    struct file *file = &files[how % 5];
    file->version++;
    file->size = how * 19; /* at most FILE_SIZE_MAX */
    changed = true;
}

static void stop(void)
{
    drive_stop(&drive);
}

static void start(void)
{
    struct gs_http_options options;
    if (drive.service)
        return;
    for (size_t i = 0; i < sizeof contents; i++)
        contents[i] = (char)('a' + i % 26);
    gs_http_options_default(&options);
    options.max_body = 5000;
    options.max_requests = 50;
    options.max_cached_file = CACHED_FILE_MAX;
    drive_start(&drive, &options);
    drive.run_op = carry_out;
    changed = true;
    atexit(stop);
}

/* Restore the initial state; time advances only to make changed pages stale. */
static void reset(void)
{
    drive_reopen(&drive);
    drive_discard_output(&drive);
    drive.input_chunk = 0;
    drive.output_chunk = 0;
    drive.keep_output = drive.hold_loads = false;
    drive.logged_count = 0;
}

static void restore_files(void)
{
    if (!changed)
        return;
    memcpy(files, files_at_first, sizeof files);
    drive.now_ns += GS_SECOND;
    changed = false;
}

/* ---- The same session in several pieces ---- */

static char *run_session(const char *bytes, size_t n, size_t split, size_t *ret_n)
{
    reset();
    drive.input_chunk = split;
    drive.output_chunk = split * 41;
    drive_send_bytes(&drive, bytes, n);
    drive_send_eof(&drive);
    assert(gs_http_conn_wants(&drive.conn) == GS_HTTP_CLOSE);
    char *output = malloc(drive.output_n + 1);
    assert(output);
    memcpy(output, drive.output, drive.output_n);
    *ret_n = drive.output_n;
    return output;
}

/* Check that the responses in the output are framed as announced, one for each request in the log;
 * for requests that were refused before they were parsed it is unknown whether they were HEAD. */
static void check_responses(void)
{
    unsigned logged = drive.logged_count;
    assert(logged <= sizeof drive.logged / sizeof *drive.logged);
    drive.parsed = 0;
    for (unsigned i = 0; i < logged; i++) {
        const char *line = drive.logged[i].request_line;
        struct drive_response response;
        bool full = drive_next_response(&drive, !strncmp(line, "HEAD ", 5), &response) ||
                    (!strcmp(line, "-") && drive_next_response(&drive, true, &response));
        assert(full && response.status == drive.logged[i].status);
        assert(response.keep_alive || i + 1 == logged);
    }
    const char *rest = drive.output + drive.parsed;
    assert(!*rest || !strcmp(rest, "HTTP/1.1 100 Continue\r\n\r\n")); /* its body is missing */
}

static void check_session(const char *bytes, size_t n)
{
    size_t full_n, pieces_n;
    restore_files();
    free(run_session(bytes, n, 0, &full_n)); /* this run fills the cache */
    char *full = run_session(bytes, n, 0, &full_n);
    check_responses();
    for (size_t split = 1; split < 8; split += 3) {
        char *pieces = run_session(bytes, n, split, &pieces_n);
        assert(pieces_n == full_n && !memcmp(pieces, full, full_n));
        free(pieces);
    }
    free(full);
}

/* ---- Sequences of events ---- */

struct script {
    const uint8_t *at, *end;
    struct gs_http_load *taken; /* the load that was taken from the connection */
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

/* Run up to four operations, after which all fail; if `how` is odd, none fails. */
static void run_load(struct gs_http_load *load, unsigned how)
{
    struct gs_http_file_op op;
    unsigned good = how & 1 ? UINT_MAX : how / 40 % 5;
    for (unsigned i = 0; gs_http_load_next(load, &op); i++)
        gs_http_load_set_result(load, i < good ? carry_out(&op) : -(int)(1 + how % 40));
}

static void load(struct script *script, unsigned how)
{
    if (!script->taken && gs_http_conn_wants(&drive.conn) & GS_HTTP_LOAD) {
        script->taken = gs_http_conn_take_load(&drive.conn);
    } else if (script->taken) {
        run_load(script->taken, how);
        gs_http_conn_loaded(&drive.conn, script->taken, drive.now_ns);
        script->taken = NULL;
    }
}

static void step(struct script *script)
{
    unsigned what = next_byte(script), how = next_byte(script);
    switch (what % 12) {
    case 0:
        drive_take_output(&drive, how);
        break;
    case 1:
        drive_take_output(&drive, how * UINT64_C(1000));
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
        else
            change(how);
        break;
    case 6:
        if (how > 250)
            gs_http_conn_abort(&drive.conn);
        else if (how > 220 && gs_http_conn_wants(&drive.conn) & GS_HTTP_READ)
            gs_http_conn_receive_eof(&drive.conn, drive.now_ns);
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
        assert(!drive.conn.input && !drive.conn.output && !drive.conn.load);
    struct gs_http_piece piece;
    if (wants & GS_HTTP_WRITE)
        assert(gs_http_conn_output(&drive.conn, &piece, 1) == 1 && piece.n);
}

static void check_script(const uint8_t *data, size_t size)
{
    struct script script = {.at = data, .end = data + size};
    restore_files();
    reset();
    while (script.at < script.end && !(gs_http_conn_wants(&drive.conn) & GS_HTTP_CLOSE)) {
        step(&script);
        check_state(&script);
    }
    if (script.taken)
        load(&script, 1);
    /* Without further input, the connection must close. */
    for (int i = 0; i < 500 && !(gs_http_conn_wants(&drive.conn) & GS_HTTP_CLOSE); i++)
        drive_advance_time(&drive, 100 * GS_SECOND);
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
