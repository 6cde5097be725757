#include "serve/log/access_log.h"

#include "serve/log/error_log.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Between two reports of lost lines. */
#define REPORT_NS (60 * GS_SECOND)

/* How long the last lines wait for room. */
#define FINISH_NS (GS_SECOND / 2)

_Static_assert(SERVE_LOG_BUFFER >= 2 * SERVE_LOG_LINE_MAX,
               "space for a line behind the rest of another");

static int open_file(const char *file)
{
    struct open_how how = {.flags = O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC,
                           .mode = 0644};
    return gs_sys_openat2(AT_FDCWD, file, &how);
}

/* O_NONBLOCK belongs to what was opened, which others may have, too: so a pipe or a terminal is
 * opened again. If that is impossible, writes to it may block. */
static int open_stdout(void)
{
    struct open_how how = {.flags = O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY};
    struct stat status;
    if (gs_sys_fstat(STDOUT_FILENO, &status) ||
        (!S_ISFIFO(status.st_mode) && !S_ISCHR(status.st_mode)))
        return STDOUT_FILENO;
    int fd = gs_sys_openat2(AT_FDCWD, "/proc/self/fd/1", &how);
    return fd < 0 ? STDOUT_FILENO : fd;
}

int serve_access_log_open(const char *file)
{
    return strcmp(file, "-") ? open_file(file) : open_stdout();
}

int serve_access_log_reopen(const char *file, int fd)
{
    if (!strcmp(file, "-"))
        return 0;
    int opened = open_file(file);
    if (opened < 0)
        return opened;
    int err = gs_sys_dup3(opened, fd, O_CLOEXEC);
    gs_sys_close(opened);
    return err < 0 ? err : 0;
}

bool serve_access_log_reopen_or_warn(const char *file, int fd)
{
    int err = serve_access_log_reopen(file, fd);
    if (err)
        serve_warn("can't reopen the access log %s: %s", file,
                   err == -ENXIO ? "nobody reads this pipe" : strerror(-err));
    return !err;
}

void serve_log_lose(struct serve_log_writer *writer, uint64_t lines, int err)
{
    struct serve_log_losses *losses = writer->losses;
    if (!losses || !lines)
        return;
    uint64_t sum = atomic_fetch_add(&losses->lines, lines) + lines;
    uint64_t now_ns = gs_clock_now(), due_ns = atomic_load(&losses->report_ns);
    if (now_ns >= due_ns &&
        atomic_compare_exchange_strong(&losses->report_ns, &due_ns, now_ns + REPORT_NS))
        serve_warn("the access log can't be written, lines are lost (%llu until now): %s",
                   (unsigned long long)sum,
                   err == -EAGAIN    ? "its reader is too slow"
                   : err == -EBADMSG ? "its pipe contains what is no line"
                                     : strerror(-err));
}

void serve_log_on_first_line(struct serve_log_writer *writer, void (*on_first_line)(void *data),
                             void *data)
{
    writer->on_first_line = on_first_line;
    writer->data = data;
}

void serve_log_write(struct serve_log_writer *writer, const struct serve_log_line *line)
{
    if (sizeof writer->buffer - writer->used < SERVE_LOG_LINE_MAX)
        (void)serve_log_flush(writer);
    if (!line->entry || sizeof writer->buffer - writer->used < SERVE_LOG_LINE_MAX) {
        serve_log_lose(writer, 1, line->entry ? -EAGAIN : -ENOMEM);
        return;
    }
    if (!writer->is_notified && writer->on_first_line) {
        writer->is_notified = true;
        writer->on_first_line(writer->data);
    }
    writer->used += serve_log_put_line(writer->buffer + writer->used, &writer->format, line);
}

static uint64_t count_lines(const char *bytes, size_t n)
{
    uint64_t lines = 0;
    for (size_t i = 0; i < n; i++)
        lines += bytes[i] == '\n';
    return lines;
}

/* Remove the last n bytes that were written to a regular file, if nobody else has written to it
 * since. Returns whether it had only whole lines then. */
static bool take_back(const struct serve_log_writer *writer, size_t n)
{
    struct stat status;
    if (gs_sys_fstat(writer->fd, &status) || !S_ISREG(status.st_mode))
        return false;
    off_t end = lseek(writer->fd, 0, SEEK_CUR), whole = end - (off_t)n;
    return end == status.st_size && whole >= 0 && !ftruncate(writer->fd, whole) &&
           lseek(writer->fd, whole, SEEK_SET) == whole;
}

/* Note that `done` bytes were written, and keep the rest. */
static void consume(struct serve_log_writer *writer, size_t done)
{
    const char *end = memrchr(writer->buffer, '\n', done);
    size_t partial = end ? done - (size_t)(end + 1 - writer->buffer) : done;
    if (!done)
        return;
    if (partial && (end || !writer->has_partial_line) && take_back(writer, partial))
        done -= partial, partial = 0;
    writer->has_partial_line = done ? partial > 0 : writer->has_partial_line;
    writer->used -= done;
    memmove(writer->buffer, writer->buffer + done, writer->used);
}

/* Drop all, except for the rest of a line that was written in part. */
static void drop(struct serve_log_writer *writer, int err)
{
    const char *end = writer->has_partial_line ? memchr(writer->buffer, '\n', writer->used) : NULL;
    size_t kept = end ? (size_t)(end + 1 - writer->buffer) : 0;
    serve_log_lose(writer, count_lines(writer->buffer + kept, writer->used - kept), err);
    writer->used = kept;
}

/* To a pipe, whole lines are written by calls that are atomic: so no line of another writer comes
 * into one when the pipe is full. */
static size_t next_part(const struct serve_log_writer *writer, const char *bytes, size_t n)
{
    struct stat status;
    size_t most = PIPE_BUF - writer->is_relayed;
    if (n <= most || gs_sys_fstat(writer->fd, &status) || !S_ISFIFO(status.st_mode))
        return n;
    const char *end = memrchr(bytes, '\n', most);
    return end ? (size_t)(end + 1 - bytes) : n;
}

static ssize_t write_relayed(const struct serve_log_writer *writer, const char *bytes, size_t n)
{
    const struct iovec parts[] = {{(void *)"\n", 1}, {(void *)bytes, n}};
    ssize_t written = gs_sys_writev(writer->fd, parts, 2);
    return written > 0 ? written - 1 : written;
}

/* Only stdout can be a socket. */
static ssize_t write_some(const struct serve_log_writer *writer, const char *bytes, size_t n)
{
    ssize_t written = -ENOTSOCK;
    do {
        if (writer->fd == STDOUT_FILENO)
            written = gs_sys_send(writer->fd, bytes, n, MSG_DONTWAIT);
        if (written == -ENOTSOCK || writer->fd != STDOUT_FILENO)
            written = writer->is_relayed ? write_relayed(writer, bytes, n)
                                         : gs_sys_write(writer->fd, bytes, n);
    } while (written == -EINTR);
    return written;
}

bool serve_log_flush(struct serve_log_writer *writer)
{
    size_t done = 0;
    ssize_t n = 0;
    writer->is_notified = false;
    while (done < writer->used && n >= 0) {
        const char *bytes = writer->buffer + done;
        n = write_some(writer, bytes, next_part(writer, bytes, writer->used - done));
        done += n > 0 ? (size_t)n : 0;
    }
    consume(writer, done);
    if (n < 0 && n != -EAGAIN)
        drop(writer, (int)n);
    return !writer->used;
}

void serve_log_finish(struct serve_log_writer *writer)
{
    struct serve_log_losses *losses = writer->losses;
    struct pollfd poll = {.fd = writer->fd, .events = POLLOUT};
    uint64_t now_ns = gs_clock_now(), end_ns = now_ns + FINISH_NS;
    while (!serve_log_flush(writer) && now_ns < end_ns &&
           !(losses && atomic_load(&losses->has_given_up))) {
        gs_sys_poll(&poll, 1, end_ns - now_ns);
        now_ns = gs_clock_now();
    }
    if (!writer->used)
        return;
    if (losses)
        atomic_store(&losses->has_given_up, true);
    drop(writer, -EAGAIN);
}

void serve_log_report_losses(const struct serve_log_losses *losses)
{
    uint64_t lines = atomic_load(&losses->lines);
    if (lines)
        serve_warn("%llu lines of the access log were lost", (unsigned long long)lines);
}
