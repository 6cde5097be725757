/* Buffered readers and writers. They consist of calls of io.h. */
#include "thread/io/io_call.h"

#include <errno.h>
#include <gossamer/buffered.h>
#include <gossamer/io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_MIN 2u

/* Whether the stream is as it was: the caller may try again. */
static bool is_temporary(ssize_t err)
{
    return err == -ETIMEDOUT || err == -ECANCELED;
}

/* Allocate *buffer unless the caller has provided it. */
static int provide_buffer(char **buffer, size_t size, bool *ret_owns_buffer)
{
    if (size < SIZE_MIN)
        return -EINVAL;
    *ret_owns_buffer = !*buffer;
    if (!*buffer)
        *buffer = malloc(size);
    return *buffer ? 0 : -ENOMEM;
}

/* ---- Readers ---- */

/* A call of the program's begins. Those of io.h that it makes keep to this open file. */
static void begin_read(struct gs_reader *reader)
{
    reader->closes = reader->read ? 0 : gs_descriptor_closes(reader->fd);
}

static ssize_t read_descriptor(struct gs_reader *reader, void *bytes, size_t n,
                               uint64_t deadline_ns)
{
    const struct opened file = {gs_descriptor(reader->fd), reader->fd, reader->closes, true};
    if (!reader->is_no_socket) {
        ssize_t received = gs_opened_recv(&file, bytes, n, 0, deadline_ns);
        if (received != -ENOTSOCK)
            return received;
        reader->is_no_socket = true;
    }
    return gs_opened_read(&file, bytes, n, deadline_ns);
}

int gs_reader_init_with(struct gs_reader *reader, gs_reader_fn *read, void *stream, void *buffer,
                        size_t size)
{
    struct gs_reader initial = {.read = read, .stream = stream, .buffer = buffer, .size = size};
    int err = provide_buffer(&initial.buffer, size, &initial.owns_buffer);
    if (!err)
        *reader = initial;
    return err;
}

int gs_reader_init(struct gs_reader *reader, int fd, void *buffer, size_t size)
{
    int err = gs_reader_init_with(reader, NULL, NULL, buffer, size);
    if (!err)
        reader->fd = fd;
    return err;
}

void gs_reader_done(struct gs_reader *reader)
{
    if (reader->owns_buffer)
        free(reader->buffer);
    *reader = (struct gs_reader){.err = -EBADF};
}

/* Read into memory, once. Returns the number of bytes, 0 at the end, or -errno. */
static ssize_t read_stream(struct gs_reader *reader, void *bytes, size_t n, uint64_t deadline_ns)
{
    if (reader->err || reader->is_at_end)
        return reader->err;
    ssize_t count = reader->read ? reader->read(reader->stream, bytes, n, deadline_ns)
                                 : read_descriptor(reader, bytes, n, deadline_ns);
    if (count < 0 && !is_temporary(count))
        reader->err = (int)count;
    reader->is_at_end = count == 0;
    return count;
}

static size_t buffered(const struct gs_reader *reader)
{
    return reader->end - reader->start;
}

/* Get more into the buffer, which is not full. Returns as read_stream. */
static ssize_t fill(struct gs_reader *reader, uint64_t deadline_ns)
{
    if (reader->start && (reader->start == reader->end || reader->end == reader->size)) {
        memmove(reader->buffer, reader->buffer + reader->start, buffered(reader));
        reader->end -= reader->start;
        reader->start = 0;
    }
    ssize_t n =
        read_stream(reader, reader->buffer + reader->end, reader->size - reader->end, deadline_ns);
    if (n > 0)
        reader->end += (size_t)n;
    return n;
}

/* Fill the buffer until it has n bytes. Returns 1, 0 at the end of the stream, or -errno. */
static int fill_to(struct gs_reader *reader, size_t n, uint64_t deadline_ns)
{
    while (buffered(reader) < n) {
        ssize_t more = fill(reader, deadline_ns);
        if (more <= 0)
            return (int)more;
    }
    return 1;
}

static size_t take(struct gs_reader *reader, void *bytes, size_t n)
{
    size_t count = n < buffered(reader) ? n : buffered(reader);
    if (count)
        memcpy(bytes, reader->buffer + reader->start, count);
    reader->start += count;
    return count;
}

/* Take the line that ends at `newline`. Returns its length. */
static ssize_t take_line(struct gs_reader *reader, char *newline, char **ret_line)
{
    char *line = reader->buffer + reader->start;
    reader->start = (size_t)(newline - reader->buffer) + 1;
    if (newline > line && newline[-1] == '\r')
        newline--;
    *newline = '\0';
    *ret_line = line;
    return newline - line;
}

ssize_t gs_reader_read_line(struct gs_reader *reader, size_t max, uint64_t deadline_ns,
                            char **ret_line)
{
    CHECKED_WAIT(deadline_ns);
    begin_read(reader);
    size_t limit = max < reader->size ? max : reader->size;
    for (size_t searched = 0;;) {
        char *line = reader->buffer + reader->start;
        size_t n = buffered(reader) < limit ? buffered(reader) : limit;
        char *newline = n > searched ? memchr(line + searched, '\n', n - searched) : NULL;
        if (newline)
            return take_line(reader, newline, ret_line);
        if (n == limit)
            return -EMSGSIZE;
        searched = n;
        ssize_t more = fill(reader, deadline_ns);
        if (!more)
            more = n ? -EPROTO : -ENODATA;
        if (more < 0)
            return more;
    }
}

/* Read what exceeds the buffer. After a part, a failure is final. */
static ssize_t read_large(struct gs_reader *reader, char *bytes, size_t n, uint64_t deadline_ns)
{
    if (!buffered(reader)) { /* so that nothing is lost by a failure of the first read */
        int filled = fill_to(reader, 1, deadline_ns);
        if (filled <= 0)
            return filled ? filled : -ENODATA;
    }
    size_t done = take(reader, bytes, n);
    while (done < n) {
        ssize_t some = read_stream(reader, bytes + done, n - done, deadline_ns);
        if (some <= 0) {
            reader->err = some ? (int)some : -EPROTO;
            return reader->err;
        }
        done += (size_t)some;
    }
    return (ssize_t)n;
}

ssize_t gs_reader_read_full(struct gs_reader *reader, void *bytes, size_t n, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    begin_read(reader);
    if (n > reader->size)
        return read_large(reader, bytes, n, deadline_ns);
    int filled = fill_to(reader, n, deadline_ns);
    if (filled > 0)
        return (ssize_t)take(reader, bytes, n);
    return filled ? filled : buffered(reader) ? -EPROTO : -ENODATA;
}

ssize_t gs_reader_read_some(struct gs_reader *reader, void *bytes, size_t n, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    begin_read(reader);
    if (!n)
        return 0;
    if (!buffered(reader) && n >= reader->size)
        return read_stream(reader, bytes, n, deadline_ns);
    int filled = fill_to(reader, 1, deadline_ns);
    return filled > 0 ? (ssize_t)take(reader, bytes, n) : filled;
}

ssize_t gs_reader_peek(struct gs_reader *reader, size_t n, uint64_t deadline_ns,
                       const void **ret_bytes)
{
    CHECKED_WAIT(deadline_ns);
    begin_read(reader);
    if (n > reader->size)
        return -EINVAL;
    int filled = fill_to(reader, n, deadline_ns);
    if (filled < 0)
        return filled;
    *ret_bytes = reader->buffer + reader->start;
    return (ssize_t)buffered(reader);
}

/* ---- Writers ---- */

int gs_writer_init_with(struct gs_writer *writer, gs_writer_fn *write, void *stream, void *buffer,
                        size_t size)
{
    struct gs_writer initial = {.write = write, .stream = stream, .buffer = buffer, .size = size};
    int err = provide_buffer(&initial.buffer, size, &initial.owns_buffer);
    if (!err)
        *writer = initial;
    return err;
}

int gs_writer_init(struct gs_writer *writer, int fd, void *buffer, size_t size)
{
    int err = gs_writer_init_with(writer, NULL, NULL, buffer, size);
    if (!err)
        writer->fd = fd;
    return err;
}

void gs_writer_done(struct gs_writer *writer)
{
    if (writer->owns_buffer)
        free(writer->buffer);
    *writer = (struct gs_writer){.err = -EBADF};
}

static void begin_write(struct gs_writer *writer)
{
    writer->closes = writer->write ? 0 : gs_descriptor_closes(writer->fd);
}

static ssize_t write_descriptor(struct gs_writer *writer, const void *bytes, size_t n,
                                uint64_t deadline_ns)
{
    const struct opened file = {gs_descriptor(writer->fd), writer->fd, writer->closes, true};
    if (!writer->is_no_socket) {
        ssize_t sent = gs_opened_send(&file, bytes, n, 0, deadline_ns);
        if (sent != -ENOTSOCK)
            return sent;
        writer->is_no_socket = true;
    }
    return gs_opened_write(&file, bytes, n, deadline_ns);
}

/* Write all n bytes to the stream. Returns 0 or -errno; *ret_done is how many were written in any
 * case. */
static int write_stream(struct gs_writer *writer, const char *bytes, size_t n, uint64_t deadline_ns,
                        size_t *ret_done)
{
    for (*ret_done = 0; *ret_done < n;) {
        const char *from = bytes + *ret_done;
        size_t left = n - *ret_done;
        ssize_t some = writer->write ? writer->write(writer->stream, from, left, deadline_ns)
                                     : write_descriptor(writer, from, left, deadline_ns);
        if (!some)
            some = -EIO; /* rather than to try for ever */
        if (some < 0 && !is_temporary(some))
            writer->err = (int)some;
        if (some < 0)
            return (int)some;
        *ret_done += (size_t)some;
    }
    return 0;
}

static int flush(struct gs_writer *writer, uint64_t deadline_ns)
{
    size_t done;
    if (writer->err)
        return writer->err;
    int err = write_stream(writer, writer->buffer, writer->used, deadline_ns, &done);
    writer->used -= done;
    memmove(writer->buffer, writer->buffer + done, writer->used);
    return err;
}

int gs_writer_flush(struct gs_writer *writer, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    begin_write(writer);
    return flush(writer, deadline_ns);
}

/* Flush the buffer for what is being written. Every failure is kept: what follows a part that is
 * missing must not be sent. */
static int make_room(struct gs_writer *writer, uint64_t deadline_ns)
{
    writer->err = flush(writer, deadline_ns);
    return writer->err;
}

static int write_bytes(struct gs_writer *writer, const void *bytes, size_t n, uint64_t deadline_ns)
{
    if (writer->err || !n)
        return writer->err;
    if (n > writer->size - writer->used && make_room(writer, deadline_ns))
        return writer->err;
    if (n <= writer->size - writer->used) {
        memcpy(writer->buffer + writer->used, bytes, n);
        writer->used += n;
        return 0;
    }
    size_t done;
    writer->err = write_stream(writer, bytes, n, deadline_ns, &done);
    return writer->err;
}

int gs_writer_write(struct gs_writer *writer, const void *bytes, size_t n, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    begin_write(writer);
    return write_bytes(writer, bytes, n, deadline_ns);
}

/* Format text that does not fit, and write it. */
static int print_large(struct gs_writer *writer, uint64_t deadline_ns, const char *format,
                       va_list arguments)
{
    char *text;
    int n = vasprintf(&text, format, arguments);
    if (n < 0) {
        writer->err = -ENOMEM;
        return -ENOMEM;
    }
    int err = write_bytes(writer, text, (size_t)n, deadline_ns);
    free(text);
    return err;
}

int gs_writer_vprintf(struct gs_writer *writer, uint64_t deadline_ns, const char *format,
                      va_list arguments)
{
    CHECKED_WAIT(deadline_ns);
    begin_write(writer);
    if (writer->err)
        return writer->err;
    size_t room = writer->size - writer->used;
    va_list copy;
    va_copy(copy, arguments);
    int n = vsnprintf(writer->buffer + writer->used, room, format, copy);
    va_end(copy);
    if (n < 0) {
        writer->err = -EINVAL;
        return -EINVAL;
    }
    if ((size_t)n >= room) /* a null byte follows the text */
        return print_large(writer, deadline_ns, format, arguments);
    writer->used += (size_t)n;
    return 0;
}

int gs_writer_printf(struct gs_writer *writer, uint64_t deadline_ns, const char *format, ...)
{
    CHECKED_WAIT(deadline_ns);
    va_list arguments;
    va_start(arguments, format);
    int err = gs_writer_vprintf(writer, deadline_ns, format, arguments);
    va_end(arguments);
    return err;
}
