#include "serve/access_log.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The longest that one text of a line becomes, with its escapes, and a line of three such texts. */
#define TEXT_MOST 4096
#define LINE_MOST (3 * TEXT_MOST + 256)

_Static_assert(SERVE_LOG_BUFFER >= 2 * LINE_MOST, "room for a line behind the rest of another");

static int open_file(const char *file)
{
    struct open_how how = {.flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, .mode = 0644};
    return gs_sys_openat2(AT_FDCWD, file, &how);
}

int serve_access_log_open(const char *file)
{
    return strcmp(file, "-") ? open_file(file) : STDOUT_FILENO;
}

int serve_access_log_reopen(const char *file, int fd)
{
    if (fd == STDOUT_FILENO)
        return 0;
    int opened = open_file(file);
    if (opened < 0)
        return opened;
    int err = gs_sys_dup3(opened, fd, O_CLOEXEC);
    gs_sys_close(opened);
    return err < 0 ? err : 0;
}

/* Quotes, back slashes and whatever is not printable ASCII become \xHH. */
static size_t put_text(char *out, const char *text)
{
    size_t n = 0;
    if (!text)
        text = "-";
    for (; *text && n + 4 < TEXT_MOST; text++) {
        unsigned char c = (unsigned char)*text;
        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\')
            out[n++] = (char)c;
        else
            n += (size_t)sprintf(out + n, "\\x%02X", c);
    }
    return n;
}

void serve_log_on_begun(struct serve_log_writer *writer, void (*on_begun)(void *data), void *data)
{
    writer->on_begun = on_begun;
    writer->data = data;
}

void serve_log_write(struct serve_log_writer *writer, const char *host,
                     const struct gs_http_log_entry *entry)
{
    if (sizeof writer->buffer - writer->used < LINE_MOST)
        serve_log_flush(writer);
    if (!writer->is_told && writer->on_begun) {
        writer->is_told = true;
        writer->on_begun(writer->data);
    }
    char date[40];
    struct tm local;
    time_t received = (time_t)entry->received;
    localtime_r(&received, &local);
    strftime(date, sizeof date, "%d/%b/%Y:%H:%M:%S %z", &local);
    char *start = writer->buffer + writer->used;
    char *at = start + sprintf(start, "%s - - [%s] \"", host, date);
    at += put_text(at, entry->request_line);
    at += sprintf(at, "\" %u %llu \"", entry->status, (unsigned long long)entry->body_bytes);
    at += put_text(at, entry->referer);
    at = stpcpy(at, "\" \"");
    at += put_text(at, entry->user_agent);
    at = stpcpy(at, "\"\n");
    writer->used += (size_t)(at - start);
}

/* Give up what is behind the bytes that are done, but for the rest of a line. */
static void drop(struct serve_log_writer *writer, size_t done)
{
    const char *rest = writer->buffer + done;
    if (done)
        writer->begun = rest[-1] != '\n';
    const char *end = writer->begun ? memchr(rest, '\n', writer->used - done) : NULL;
    writer->used = end ? (size_t)(end + 1 - rest) : 0;
    memmove(writer->buffer, rest, writer->used);
}

static void complain(struct serve_log_writer *writer, int err)
{
    bool is_said = writer->failed;
    if (writer->has_failed)
        is_said |= atomic_exchange(writer->has_failed, true);
    if (!is_said)
        fprintf(stderr, "gossamer serve: the access log can't be written, lines are lost: %s\n",
                strerror(-err));
    writer->failed = true;
}

void serve_log_flush(struct serve_log_writer *writer)
{
    size_t done = 0;
    writer->is_told = false;
    while (done < writer->used) {
        ssize_t n = gs_sys_write(writer->fd, writer->buffer + done, writer->used - done);
        if (n == -EINTR)
            continue;
        if (n < 0) {
            complain(writer, (int)n);
            drop(writer, done);
            return;
        }
        writer->failed = false;
        if (writer->has_failed && atomic_load(writer->has_failed))
            atomic_store(writer->has_failed, false);
        done += (size_t)n;
    }
    writer->begun = false;
    writer->used = 0;
}
