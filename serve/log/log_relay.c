#include "serve/log/log_relay.h"

#include "serve/log/error_log.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* What the pipe holds at most, if the system allows so much. */
#define PIPE_BYTES (1 << 20)

/* Lines are collected for so long. */
#define MOMENT_NS GS_MILLISECOND

/* Between two tries while what the file was replaced by, a pipe, has no room. */
#define RETRY_NS (50 * GS_MILLISECOND)

void serve_log_relay_open(struct serve_log_relay *relay, const char *file, int *fd)
{
    struct stat status;
    int ends[2];
    if (gs_sys_fstat(*fd, &status) ||
        !(S_ISREG(status.st_mode) || S_ISSOCK(status.st_mode) || isatty(*fd)))
        return;
    relay->wake_fd = gs_sys_eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (relay->wake_fd < 0)
        return;
    if (gs_sys_pipe2(ends, O_NONBLOCK | O_CLOEXEC)) {
        gs_sys_close(relay->wake_fd);
        return;
    }
    gs_sys_fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES);
    relay->file = file;
    relay->writer.fd = *fd;
    relay->read_fd = ends[0];
    relay->is_open = relay->is_relaying = true;
    *fd = ends[1];
}

/* ---- The thread ---- */

/* Remove empty lines, and what is longer than a line, from the n bytes. Returns how many are
 * left. */
static size_t keep_lines(struct serve_log_writer *writer, size_t n)
{
    size_t kept = 0;
    for (size_t start = 0, length; start < n; start += length) {
        const char *line = writer->buffer + start;
        length = (size_t)((const char *)memchr(line, '\n', n - start) + 1 - line);
        bool is_rest = !start && writer->has_partial_line;
        if (length == 1 && !is_rest)
            continue;
        if (length > SERVE_LOG_LINE_MAX) {
            serve_log_lose(writer, 1, -EBADMSG);
            continue;
        }
        memmove(writer->buffer + kept, line, length);
        kept += length;
    }
    return kept;
}

/* Only whole lines: a read may have ended within one, whose rest is in the pipe. Without such a
 * rest, what follows the last line is none. */
static bool flush_lines(struct serve_log_relay *relay, bool has_rest)
{
    struct serve_log_writer *writer = &relay->writer;
    char rest[SERVE_LOG_LINE_MAX];
    const char *end = memrchr(writer->buffer, '\n', writer->used);
    size_t whole = end ? (size_t)(end + 1 - writer->buffer) : 0, n = writer->used - whole;
    if (n && (!has_rest || n >= sizeof rest)) {
        serve_log_lose(writer, 1, -EBADMSG);
        relay->is_skipping = true;
        n = 0;
    }
    memcpy(rest, writer->buffer + whole, n);
    writer->used = keep_lines(writer, whole);
    bool is_empty = serve_log_flush(writer);
    memcpy(writer->buffer + writer->used, rest, n);
    writer->used += n;
    return is_empty;
}

/* Skip the rest of what was dropped, in the n bytes that were read. Returns how many are left. */
static size_t take(struct serve_log_relay *relay, size_t n)
{
    char *bytes = relay->writer.buffer + relay->writer.used;
    if (!relay->is_skipping)
        return n;
    const char *end = memchr(bytes, '\n', n);
    size_t skipped = end ? (size_t)(end + 1 - bytes) : n;
    relay->is_skipping = !end;
    memmove(bytes, bytes + skipped, n - skipped);
    return n - skipped;
}

/* Returns whether all that the pipe has was written; otherwise there is no room for it now. */
static bool move_all(struct serve_log_relay *relay)
{
    struct serve_log_writer *writer = &relay->writer;
    ssize_t n;
    do {
        size_t room = sizeof writer->buffer - writer->used;
        n = room ? gs_sys_read(relay->read_fd, writer->buffer + writer->used, room) : -EINTR;
        writer->used += n > 0 ? take(relay, (size_t)n) : 0;
        if (!flush_lines(relay, n > 0 || n == -EINTR))
            return false;
    } while (n > 0 || n == -EINTR);
    return true;
}

/* What was not written at the end is lost. */
static void lose_rest(struct serve_log_relay *relay)
{
    struct serve_log_writer *writer = &relay->writer;
    uint64_t lines = 0;
    ssize_t n;
    while ((n = gs_sys_read(relay->read_fd, writer->buffer, sizeof writer->buffer)) > 0)
        for (ssize_t i = 0; i < n; i++)
            lines += writer->buffer[i] == '\n';
    serve_log_lose(writer, lines, -EAGAIN);
}

static void wait_for_lines(const struct serve_log_relay *relay, uint64_t timeout_ns)
{
    const struct timespec moment = {.tv_nsec = MOMENT_NS};
    struct pollfd polls[] = {{.fd = relay->wake_fd, .events = POLLIN},
                             {.fd = relay->read_fd, .events = POLLIN}};
    uint64_t count;
    if (timeout_ns != GS_NEVER)
        polls[1].fd = -1;
    gs_sys_poll(polls, 2, timeout_ns);
    if (gs_sys_read(relay->wake_fd, &count, sizeof count) < 0)
        nanosleep(&moment, NULL);
}

static void *run(void *data)
{
    struct serve_log_relay *relay = data;
    for (;;) {
        bool is_over = atomic_load(&relay->is_over);
        bool must_reopen = atomic_exchange(&relay->must_reopen, false);
        bool has_written = move_all(relay);
        if (must_reopen)
            serve_access_log_reopen_or_warn(relay->file, relay->writer.fd);
        if (is_over)
            break;
        wait_for_lines(relay, has_written ? GS_NEVER : RETRY_NS);
    }
    serve_log_finish(&relay->writer);
    lose_rest(relay);
    return NULL;
}

/* ---- Start and end ---- */

int serve_log_relay_start(struct serve_log_relay *relay, struct serve_log_losses *losses)
{
    sigset_t all, before;
    if (!relay->is_open)
        return 0;
    relay->writer.losses = losses;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int err = -pthread_create(&relay->thread, NULL, run, relay);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    relay->has_thread = !err;
    return err;
}

static void wake(struct serve_log_relay *relay)
{
    static const uint64_t one = 1;
    gs_sys_write(relay->wake_fd, &one, sizeof one);
}

void serve_log_relay_reopen(struct serve_log_relay *relay)
{
    atomic_store(&relay->must_reopen, true);
    wake(relay);
}

/* Returns false if the thread still waits for the disk; it is nobody's to join then. */
static bool end_thread(struct serve_log_relay *relay)
{
    struct timespec until;
    atomic_store(&relay->is_over, true);
    wake(relay);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    bool has_ended = !pthread_timedjoin_np(relay->thread, NULL, &until);
    if (!has_ended)
        pthread_detach(relay->thread);
    return has_ended;
}

void serve_log_relay_leave(struct serve_log_relay *relay)
{
    relay->has_thread = false;
    if (!relay->is_open)
        return;
    gs_sys_close(relay->read_fd);
    gs_sys_close(relay->wake_fd);
    if (relay->writer.fd > STDERR_FILENO)
        gs_sys_close(relay->writer.fd);
    relay->is_open = false;
}

bool serve_log_relay_stop(struct serve_log_relay *relay)
{
    if (relay->has_thread && !end_thread(relay)) {
        serve_warn("the last lines of the access log are lost: its disk does not answer");
        return false;
    }
    serve_log_relay_leave(relay);
    return true;
}
