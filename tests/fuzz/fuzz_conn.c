/* Any bytes, cut anywhere, with any time between, and whatever else can happen to a connection: it
 * never wants nothing, its answers are framed as they say, and nothing leaks. If the first byte is
 * even, the rest is a session, whose answers are the same in whatever pieces it comes; if it is
 * odd, the rest says what happens. */
#include "tests/http/drive.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct drive drive;

/* ---- What is served ---- */

#define FILE_FD_FIRST 1000000 /* no descriptor of ours: closing it does nothing */
#define FILE_SIZE_MOST 5000
#define CACHED_FILE_MOST 3000

struct file {
    const char *path;
    mode_t mode;
    int err; /* that opening it gives */
    unsigned size, version;
};

/* As they are at the beginning of an input: copied to `files`. */
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
static bool changed; /* some file, by this input or the one before */
static char contents[FILE_SIZE_MOST];

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
    file->size = how * 19; /* at most FILE_SIZE_MOST */
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
    options.body_most = 5000;
    options.requests_most = 50;
    options.cached_file_most = CACHED_FILE_MOST;
    drive_start(&drive, &options);
    drive.carry_out = carry_out;
    changed = true;
    atexit(stop);
}

/* As it was before the first input: time only goes on for the cache to forget what was changed. */
static void reset(void)
{
    drive_reopen(&drive);
    drive_forget(&drive);
    drive.split = 0;
    drive.take = 0;
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
    drive.split = split;
    drive.take = split * 41;
    drive_say_bytes(&drive, bytes, n);
    drive_end(&drive);
    assert(gs_http_conn_wants(&drive.conn) == GS_HTTP_CLOSE);
    char *output = malloc(drive.output_n + 1);
    assert(output);
    memcpy(output, drive.output, drive.output_n);
    *ret_n = drive.output_n;
    return output;
}

/* The answers in the output are framed as they say, one for each request in the log; of those that
 * were refused before they could be read, whether they were to HEAD is not known. */
static void check_answers(void)
{
    unsigned logged = drive.logged_count;
    assert(logged <= sizeof drive.logged / sizeof *drive.logged);
    drive.read = 0;
    for (unsigned i = 0; i < logged; i++) {
        const char *line = drive.logged[i].request_line;
        struct drive_answer answer;
        bool whole = drive_next(&drive, !strncmp(line, "HEAD ", 5), &answer) ||
                     (!strcmp(line, "-") && drive_next(&drive, true, &answer));
        assert(whole && answer.status == drive.logged[i].status);
        assert(answer.keep_alive || i + 1 == logged);
    }
    const char *rest = drive.output + drive.read;
    assert(!*rest || !strcmp(rest, "HTTP/1.1 100 Continue\r\n\r\n")); /* its body did not come */
}

static void check_session(const char *bytes, size_t n)
{
    size_t whole_n, pieces_n;
    restore_files();
    free(run_session(bytes, n, 0, &whole_n)); /* for the cache */
    char *whole = run_session(bytes, n, 0, &whole_n);
    check_answers();
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

/* Up to four operations are carried out, then each fails; if how is odd, none does. */
static void run_load(struct gs_http_load *load, unsigned how)
{
    struct gs_http_file_op op;
    unsigned good = how & 1 ? UINT_MAX : how / 40 % 5;
    for (unsigned i = 0; gs_http_load_next(load, &op); i++)
        gs_http_load_result(load, i < good ? carry_out(&op) : -(int)(1 + how % 40));
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
        else
            change(how);
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
    restore_files();
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
