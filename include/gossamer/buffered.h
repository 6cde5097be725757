/* Buffered reading and writing of streams: lines, formatted text, parts of a known size.
 *
 *     struct gs_reader reader;
 *     char *line;
 *     int err = gs_reader_init(&reader, fd, NULL, 4096);
 *     while ((n = gs_reader_read_line(&reader, 1000, deadline_ns, &line)) >= 0)
 *         printf("%s\n", line);
 *     gs_reader_done(&reader);
 *
 * A reader receives as much as is available, and hands it out in the parts that the program wants.
 * A writer collects data, and sends it when its buffer is full or flushed, so a message written in
 * small pieces needs one system call. Neither closes its stream.
 *
 * Streams: a stream is a descriptor, or functions of the program, for TLS or compression. Sockets
 * are used with gs_recv and gs_send, other descriptors with gs_read and gs_write.
 *
 * Memory: structures are in the caller's storage. Buffers are allocated, or are the caller's and
 * must stay valid until gs_reader_done or gs_writer_done. Large buffers should not be in frames of
 * threads that wait.
 *
 * Errors: an error of the stream is sticky, and so is its end: every later call that needs the
 * stream returns it again. A program may thus write a whole message and check only the result of
 * the flush. Two cases are not sticky, and can be repeated: a flush that returned -ETIMEDOUT or
 * -ECANCELED, and a read that returned one of these without losing data.
 *
 * Threads: these functions are for user threads, and deadline_ns is described in thread.h. A reader
 * or writer is used by one thread at a time; the reader and the writer of a connection may be used
 * by different ones.
 */
#ifndef GOSSAMER_BUFFERED_H
#define GOSSAMER_BUFFERED_H

#include <gossamer/api.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

GS_BEGIN_DECLS

/* ---- Creating a reader ----
 *
 *     char buffer[1024];
 *     err = gs_reader_init(&reader, fd, buffer, sizeof buffer);
 */

/* Read at most n bytes of a stream, n > 0. Returns their number, 0 at the end, or -errno. */
typedef ssize_t gs_reader_fn(void *stream, void *bytes, size_t n, uint64_t deadline_ns);

/* The members are private to the library. */
struct gs_reader {
    gs_reader_fn *read;
    void *stream;
    int fd;
    unsigned closes; /* of fd, before the present call */
    int err;
    bool is_at_end, is_no_socket, owns_buffer;
    char *buffer;
    size_t size, start, end; /* the buffer has the bytes from start to end */
};

/* Initialise the reader of a descriptor. buffer: `size` bytes, at least 2; NULL: allocate it.
 * Returns 0, -EINVAL (the size is too small), or -ENOMEM. */
GS_API GS_MUST_CHECK int gs_reader_init(struct gs_reader *reader, int fd, void *buffer,
                                        size_t size);

/* The same, of a stream that `read` reads. Returns 0, -EINVAL (the size is too small), or
 * -ENOMEM. */
GS_API GS_MUST_CHECK int gs_reader_init_with(struct gs_reader *reader, gs_reader_fn *read,
                                             void *stream, void *buffer, size_t size);

/* Free the buffer if it was allocated. The stream stays open. */
GS_API void gs_reader_done(struct gs_reader *reader);

/* ---- Reading lines and parts ----
 * What a call cannot use stays in the buffer. Each returns -ETIMEDOUT, -ECANCELED, -ENOMEM, or an
 * error of the stream, too.
 *
 *     uint32_t length;
 *     n = gs_reader_read_full(&reader, &length, sizeof length, deadline_ns);
 */

/* Read a line, and get it as a string in the buffer: its end, "\n" or "\r\n", is replaced by a null
 * byte. It is valid until the next call. max: how many bytes the line may have with its end, if the
 * buffer is not smaller. The line may contain null bytes of its own.
 *
 * Returns the length of the string, which is 0 for an empty line; -ENODATA (the stream has ended),
 * -EPROTO (it has ended within a line), or -EMSGSIZE (the line is too long). After the last two,
 * the bytes are still in the buffer: gs_reader_read_some gets them. */
GS_API GS_MUST_CHECK ssize_t gs_reader_read_line(struct gs_reader *reader, size_t max,
                                                 uint64_t deadline_ns, char **ret_line);

/* Read n bytes. If they fit into the buffer, either all of them are taken or, after a failure,
 * none. Otherwise every failure after the first bytes is sticky. Returns n, -ENODATA (the stream
 * has ended), or -EPROTO (it has ended after a part of the bytes). */
GS_API GS_MUST_CHECK ssize_t gs_reader_read_full(struct gs_reader *reader, void *bytes, size_t n,
                                                 uint64_t deadline_ns);

/* Read up to n bytes: what is in the buffer, or else what the stream has. Returns their number, 0
 * at the end of the stream. */
GS_API GS_MUST_CHECK ssize_t gs_reader_read_some(struct gs_reader *reader, void *bytes, size_t n,
                                                 uint64_t deadline_ns);

/* Wait until the buffer has n bytes, and get them without consuming them. They are valid until the
 * next call. Returns how many bytes the buffer has: fewer than n only at the end of the stream;
 * -EINVAL if n exceeds the size of the buffer. */
GS_API GS_MUST_CHECK ssize_t gs_reader_peek(struct gs_reader *reader, size_t n,
                                            uint64_t deadline_ns, const void **ret_bytes);

/* ---- Creating a writer ----
 *
 *     err = gs_writer_init(&writer, fd, NULL, 4096);
 */

/* Write at most n bytes to a stream, n > 0. Returns their number, or -errno if none was written. */
typedef ssize_t gs_writer_fn(void *stream, const void *bytes, size_t n, uint64_t deadline_ns);

/* The members are private to the library. */
struct gs_writer {
    gs_writer_fn *write;
    void *stream;
    int fd;
    unsigned closes; /* of fd, before the present call */
    int err;
    bool is_no_socket, owns_buffer;
    char *buffer;
    size_t size, used;
};

/* Initialise the writer of a descriptor. buffer: `size` bytes, at least 2; NULL: allocate it.
 * Returns 0, -EINVAL (the size is too small), or -ENOMEM. */
GS_API GS_MUST_CHECK int gs_writer_init(struct gs_writer *writer, int fd, void *buffer,
                                        size_t size);

/* The same, of a stream that `write` writes to. Returns 0, -EINVAL (the size is too small), or
 * -ENOMEM. */
GS_API GS_MUST_CHECK int gs_writer_init_with(struct gs_writer *writer, gs_writer_fn *write,
                                             void *stream, void *buffer, size_t size);

/* Free the buffer if it was allocated. What was not flushed is lost; the stream stays open. */
GS_API void gs_writer_done(struct gs_writer *writer);

/* ---- Writing ----
 * Writing to a socket raises no SIGPIPE; to another descriptor it does, as gs_write does. Each
 * returns -ETIMEDOUT, -ECANCELED, -ENOMEM, or an error of the stream, too.
 *
 *     err = gs_writer_printf(&writer, deadline_ns, "GET /%s HTTP/1.0\r\n\r\n", path);
 *     err = gs_writer_flush(&writer, deadline_ns);
 */

/* Write all n bytes: to the buffer, which is flushed first if they do not fit, or directly to the
 * stream if they are larger than the buffer. Every error is sticky, because the stream then lacks
 * bytes. Returns 0. */
GS_API int gs_writer_write(struct gs_writer *writer, const void *bytes, size_t n,
                           uint64_t deadline_ns);

/* Write text, as printf(3). Text that does not fit is formatted in allocated memory first. Every
 * error is sticky, because the stream then lacks the text.
 * Returns 0, or -EINVAL (vsnprintf(3) fails). */
GS_API GS_PRINTF(3, 4) int gs_writer_printf(struct gs_writer *writer, uint64_t deadline_ns,
                                            const char *format, ...);
GS_API GS_PRINTF(3, 0) int gs_writer_vprintf(struct gs_writer *writer, uint64_t deadline_ns,
                                             const char *format, va_list arguments);

/* Send what is in the buffer. After -ETIMEDOUT and -ECANCELED the call can be repeated. Returns
 * 0. */
GS_API GS_MUST_CHECK int gs_writer_flush(struct gs_writer *writer, uint64_t deadline_ns);

GS_END_DECLS

#endif
