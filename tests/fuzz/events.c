#include "tests/fuzz/events.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

static struct drive *started;

static void stop(void)
{
    drive_stop(started);
}

void events_start(struct drive *drive)
{
    struct gs_http_options options;
    for (size_t i = 0; i < sizeof contents; i++)
        contents[i] = (char)('a' + i % 26);
    gs_http_options_default(&options);
    options.max_body = 5000;
    options.max_requests = 50;
    options.max_cached_file = CACHED_FILE_MAX;
    drive_start(drive, &options);
    drive->run_op = carry_out;
    changed = true;
    started = drive;
    atexit(stop);
}

void events_reset(struct drive *drive)
{
    drive_reopen(drive);
    drive_discard_output(drive);
    drive->input_chunk = 0;
    drive->output_chunk = 0;
    drive->keep_output = drive->hold_loads = false;
    drive->logged_count = 0;
}

void events_restore_files(struct drive *drive)
{
    if (!changed)
        return;
    memcpy(files, files_at_first, sizeof files);
    drive->now_ns += GS_SECOND;
    changed = false;
}

/* ---- Events ---- */

unsigned events_next_byte(struct events *events)
{
    return events->at < events->end ? *events->at++ : 0;
}

void events_receive(struct events *events, size_t n)
{
    struct drive *drive = events->drive;
    if (n > (size_t)(events->end - events->at))
        n = (size_t)(events->end - events->at);
    if (gs_http_conn_wants(&drive->conn) & GS_HTTP_READ && n)
        gs_http_conn_receive(&drive->conn, (const char *)events->at, n, drive->now_ns);
    events->at += n;
}

/* Run up to four operations, after which all fail; if `how` is odd, none fails. */
static void run_load(struct gs_http_load *load, unsigned how)
{
    struct gs_http_file_op op;
    unsigned good = how & 1 ? UINT_MAX : how / 40 % 5;
    for (unsigned i = 0; gs_http_load_next(load, &op); i++)
        gs_http_load_set_result(load, i < good ? carry_out(&op) : -(int)(1 + how % 40));
}

static void load(struct events *events, unsigned how)
{
    struct drive *drive = events->drive;
    if (!events->taken && gs_http_conn_wants(&drive->conn) & GS_HTTP_LOAD) {
        events->taken = gs_http_conn_take_load(&drive->conn);
    } else if (events->taken) {
        run_load(events->taken, how);
        gs_http_conn_loaded(&drive->conn, events->taken, drive->now_ns);
        events->taken = NULL;
    }
}

static void expire(struct drive *drive, unsigned how)
{
    drive->now_ns += how * GS_SECOND / 4;
    if (gs_http_conn_deadline(&drive->conn) <= drive->now_ns)
        gs_http_conn_expire(&drive->conn, how * UINT64_C(64), drive->now_ns);
}

void events_step(struct events *events, unsigned kind)
{
    struct drive *drive = events->drive;
    unsigned how = events_next_byte(events), wants = gs_http_conn_wants(&drive->conn);
    switch (kind) {
    case 0:
        drive_take_output(drive, how);
        break;
    case 1:
        drive_take_output(drive, how * UINT64_C(1000));
        break;
    case 2:
        load(events, how);
        break;
    case 3:
        expire(drive, how);
        break;
    case 4:
        if (wants & GS_HTTP_SHUTDOWN)
            gs_http_conn_shut_down(&drive->conn, drive->now_ns);
        break;
    case 5:
        if (how > 200)
            gs_http_conn_drain(&drive->conn, drive->now_ns);
        else
            change(how);
        break;
    default:
        if (how > 250)
            gs_http_conn_abort(&drive->conn);
        else if (how > 220 && wants & GS_HTTP_READ)
            gs_http_conn_receive_eof(&drive->conn, drive->now_ns);
    }
}

void events_check(const struct events *events)
{
    const struct gs_http_conn *conn = &events->drive->conn;
    unsigned wants = gs_http_conn_wants(conn);
    assert(wants || events->taken);
    assert(!(wants & GS_HTTP_CLOSE) || wants == GS_HTTP_CLOSE);
    assert(!(wants & GS_HTTP_LOAD) || !events->taken);
    struct gs_http_piece piece;
    if (wants & GS_HTTP_WRITE)
        assert(gs_http_conn_output(conn, &piece, 1) == 1 && piece.n);
}

void events_finish(struct events *events)
{
    struct drive *drive = events->drive;
    if (events->taken)
        load(events, 1);
    for (int i = 0; i < 500 && !(gs_http_conn_wants(&drive->conn) & GS_HTTP_CLOSE); i++)
        drive_advance_time(drive, 100 * GS_SECOND);
    assert(gs_http_conn_wants(&drive->conn) == GS_HTTP_CLOSE);
}
