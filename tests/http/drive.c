#include "tests/http/drive.h"

#include "http/response_parser.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define INPUT_SIZE ((size_t)1 << 20)
#define OUTPUT_SIZE ((size_t)16 << 20)
#define GUARD_SIZE 65536

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);              \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static unsigned count_descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void copy_text(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text ? text : "-");
}

static void record(const struct gs_http_conn *conn, const struct gs_http_log_entry *entry,
                   void *data)
{
    struct drive *drive = data;
    (void)conn;
    if (!entry) {
        drive->lost_entries++;
        return;
    }
    if (drive->logged_count++ >= sizeof drive->logged / sizeof *drive->logged)
        return;
    struct drive_log_entry *logged = &drive->logged[drive->logged_count - 1];
    logged->status = entry->status;
    logged->body_bytes = entry->body_bytes;
    logged->received = entry->received;
    copy_text(logged->request_line, sizeof logged->request_line, entry->request_line);
    copy_text(logged->referer, sizeof logged->referer, entry->referer);
    copy_text(logged->user_agent, sizeof logged->user_agent, entry->user_agent);
}

static void open_connection(struct drive *drive)
{
    gs_http_conn_init(&drive->conn, drive->service, drive->now_ns);
    drive->is_open = true;
    drive->is_shut_down = false;
}

static char *map(size_t n)
{
    void *memory =
        mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    return memory;
}

void drive_start(struct drive *drive, const struct gs_http_options *options)
{
    struct gs_http_options own;
    if (options)
        own = *options;
    else
        gs_http_options_default(&own);
    *drive = (struct drive){.now_ns = DRIVE_START_NS, .root = "/tmp/gossamer-http-XXXXXX"};
    drive->descriptors = count_descriptors();
    REQUIRE(mkdtemp(drive->root));
    drive->root_fd = open(drive->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    REQUIRE(drive->root_fd >= 0);
    drive->output = map(OUTPUT_SIZE);
    /* An inaccessible page follows the input, so that overreads are detected. */
    drive->input = map(INPUT_SIZE + GUARD_SIZE);
    REQUIRE(mprotect(drive->input + INPUT_SIZE, GUARD_SIZE, PROT_NONE) == 0);
    own.log = record;
    own.log_data = drive;
    REQUIRE(gs_http_service_new(&own, drive->root_fd, &drive->counts, &drive->service) == 0);
    gs_http_service_set_wall_clock(drive->service, DRIVE_START_NS,
                                   (uint64_t)DRIVE_WALL_S * GS_SECOND);
    open_connection(drive);
}

static void close_connection(struct drive *drive)
{
    if (drive->is_open)
        gs_http_conn_done(&drive->conn);
    drive->is_open = false;
}

static int remove_one(const char *path, const struct stat *stat, int flag, struct FTW *ftw)
{
    (void)stat, (void)flag, (void)ftw;
    return remove(path);
}

int drive_stop(struct drive *drive)
{
    close_connection(drive);
    gs_http_service_free(drive->service);
    REQUIRE(nftw(drive->root, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0);
    close(drive->root_fd);
    munmap(drive->output, OUTPUT_SIZE);
    munmap(drive->input, INPUT_SIZE + GUARD_SIZE);
    return (int)(count_descriptors() - drive->descriptors);
}

const char *drive_path(const struct drive *drive, const char *name)
{
    static char path[512];
    REQUIRE(snprintf(path, sizeof path, "%s/%s", drive->root, name) < (int)sizeof path);
    return path;
}

void drive_set_mtime(const struct drive *drive, const char *name, int64_t seconds)
{
    struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    REQUIRE(utimensat(AT_FDCWD, drive_path(drive, name), times, 0) == 0);
}

void drive_write_bytes(const struct drive *drive, const char *name, const char *bytes, size_t n)
{
    int fd = open(drive_path(drive, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    REQUIRE(fd >= 0);
    REQUIRE(write(fd, bytes, n) == (ssize_t)n);
    close(fd);
    drive_set_mtime(drive, name, DRIVE_MODIFIED_S);
}

void drive_write(const struct drive *drive, const char *name, const char *text)
{
    drive_write_bytes(drive, name, text, strlen(text));
}

void drive_mkdir(const struct drive *drive, const char *name)
{
    REQUIRE(mkdir(drive_path(drive, name), 0755) == 0);
}

void drive_reopen(struct drive *drive)
{
    close_connection(drive);
    open_connection(drive);
}

/* Receive up to n bytes of a piece. Returns 0 if the file ends before the piece does. */
static uint64_t receive_piece(struct drive *drive, const struct gs_http_piece *piece, uint64_t n)
{
    char *to = drive->output + drive->output_n;
    REQUIRE(n <= OUTPUT_SIZE - drive->output_n - 1);
    if (piece->bytes) {
        memcpy(to, piece->bytes, n);
    } else {
        struct stat stat;
        const struct gs_http_file_op check = {
            .kind = GS_HTTP_FILE_STAT, .fd = piece->fd, .stat = &stat};
        REQUIRE(!(drive->run_op ? drive->run_op(&check) : fstat(piece->fd, &stat)));
        if (!gs_http_piece_is_current(piece, &stat))
            return 0;
        struct gs_http_file_op op = gs_http_piece_read(piece, to, n);
        int64_t got =
            drive->run_op ? drive->run_op(&op) : pread(op.fd, op.bytes, op.n, (off_t)op.offset);
        REQUIRE(got >= 0);
        n = (uint64_t)got;
    }
    drive->output_n += n;
    drive->output[drive->output_n] = '\0';
    return n;
}

uint64_t drive_take_output(struct drive *drive, uint64_t n)
{
    struct gs_http_piece pieces[3];
    uint64_t received = 0;
    while (received < n && gs_http_conn_wants(&drive->conn) & GS_HTTP_WRITE) {
        unsigned count = gs_http_conn_output(&drive->conn, pieces, 3);
        REQUIRE(count > 0 && count <= 3);
        uint64_t sum = 0;
        for (unsigned i = 0; i < count && received + sum < n; i++) {
            uint64_t wanted = pieces[i].n < n - received - sum ? pieces[i].n : n - received - sum;
            uint64_t got = receive_piece(drive, &pieces[i], wanted);
            sum += got;
            if (got < wanted)
                break;
        }
        if (sum)
            gs_http_conn_sent(&drive->conn, sum, drive->now_ns);
        else
            gs_http_conn_break_off(&drive->conn);
        received += sum;
    }
    return received;
}

static void check_wants(const struct drive *drive)
{
    unsigned wants = gs_http_conn_wants(&drive->conn);
    bool is_load_in_progress = drive->conn.load && drive->hold_loads;
    REQUIRE(wants || is_load_in_progress);
    REQUIRE(!(wants & GS_HTTP_CLOSE) || wants == GS_HTTP_CLOSE);
    REQUIRE(!(wants & GS_HTTP_CLOSE) || gs_http_conn_deadline(&drive->conn) == GS_NEVER);
    REQUIRE(!(wants & GS_HTTP_SHUTDOWN) || !drive->is_shut_down);
}

void drive_run_load(const struct drive *drive, struct gs_http_load *load)
{
    struct gs_http_file_op op;
    if (!drive->run_op) {
        gs_http_load_run(load);
        return;
    }
    while (gs_http_load_next(load, &op))
        gs_http_load_set_result(load, drive->run_op(&op));
}

void drive_serve(struct drive *drive)
{
    for (;;) {
        check_wants(drive);
        unsigned wants = gs_http_conn_wants(&drive->conn);
        if (wants & GS_HTTP_WRITE && !drive->keep_output) {
            drive_take_output(drive, drive->output_chunk ? drive->output_chunk : UINT64_MAX);
        } else if (wants & GS_HTTP_LOAD && !drive->hold_loads) {
            struct gs_http_load *load = gs_http_conn_take_load(&drive->conn);
            drive_run_load(drive, load);
            gs_http_conn_loaded(&drive->conn, load, drive->now_ns);
        } else if (wants & GS_HTTP_SHUTDOWN) {
            drive->is_shut_down = true;
            gs_http_conn_shut_down(&drive->conn, drive->now_ns);
        } else {
            return;
        }
    }
}

void drive_send_bytes(struct drive *drive, const char *bytes, size_t n)
{
    drive_serve(drive);
    while (n && gs_http_conn_wants(&drive->conn) & GS_HTTP_READ) {
        size_t piece = drive->input_chunk && drive->input_chunk < n ? drive->input_chunk : n;
        piece = piece < INPUT_SIZE ? piece : INPUT_SIZE;
        char *copy = drive->input + INPUT_SIZE - piece;
        memcpy(copy, bytes, piece);
        gs_http_conn_receive(&drive->conn, copy, piece, drive->now_ns);
        memset(copy, '?', piece);
        bytes += piece;
        n -= piece;
        drive_serve(drive);
    }
}

void drive_send(struct drive *drive, const char *text)
{
    drive_send_bytes(drive, text, strlen(text));
}

void drive_send_eof(struct drive *drive)
{
    drive_serve(drive);
    if (gs_http_conn_wants(&drive->conn) & GS_HTTP_READ)
        gs_http_conn_receive_eof(&drive->conn, drive->now_ns);
    drive_serve(drive);
}

void drive_advance_time(struct drive *drive, uint64_t ns)
{
    drive->now_ns += ns;
    if (gs_http_conn_deadline(&drive->conn) <= drive->now_ns)
        gs_http_conn_expire(&drive->conn, 0, drive->now_ns);
    drive_serve(drive);
}

bool drive_next_response(struct drive *drive, bool is_head, struct drive_response *ret_result)
{
    struct gs_http_response_parser parser;
    const char *at = drive->output + drive->parsed;
    gs_http_response_parser_init(&parser, is_head);
    ssize_t n = gs_http_response_parser_feed(&parser, at, drive->output_n - drive->parsed);
    if (n < 0 || !gs_http_response_parser_is_done(&parser))
        return false;
    drive->parsed += (size_t)n;
    *ret_result = (struct drive_response){
        .status = parser.status,
        .head = at,
        .head_length = (size_t)n - parser.body_bytes,
        .body = at + ((size_t)n - parser.body_bytes),
        .body_length = parser.body_bytes,
        .keep_alive = parser.keep_alive,
    };
    return true;
}

bool drive_has_field(const struct drive_response *response, const char *field)
{
    const char *found = memmem(response->head, response->head_length, field, strlen(field));
    return found && found[-1] == '\n' && !memcmp(found + strlen(field), "\r\n", 2);
}

void drive_discard_output(struct drive *drive)
{
    drive->parsed = drive->output_n = 0;
    drive->output[0] = '\0';
}
