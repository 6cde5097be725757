/* Functions that write to streams. */
#include "compiler/runtime/io/descriptor.h"
#include "compiler/runtime/io/stream.h"

#include <gossamer/io.h>
#include <stdarg.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* Of glibc's flags of a stream. */
enum { UNBUFFERED = 0x2, LINE_BUFFERED = 0x200, IS_PUTTING = 0x800 };

/* Whether the buffer must be written before more is put into it, or the call ends. */
static bool is_due(const FILE *file, bool has_more)
{
    size_t n = (size_t)(file->_IO_write_ptr - file->_IO_write_base);
    if (!n)
        return false;
    if (has_more && file->_IO_write_ptr >= file->_IO_buf_end)
        return true;
    return file->_flags & LINE_BUFFERED && memchr(file->_IO_write_base, '\n', n);
}

/* Put what fits into the buffer: with lines, up to the end of one. Returns the number of bytes. */
static size_t fill(FILE *file, const char *bytes, size_t n)
{
    size_t room = (size_t)(file->_IO_buf_end - file->_IO_write_ptr);
    n = n < room ? n : room;
    const char *end = file->_flags & LINE_BUFFERED ? memrchr(bytes, '\n', n) : NULL;
    n = end ? (size_t)(end - bytes) + 1 : n;
    memcpy(file->_IO_write_ptr, bytes, n);
    file->_IO_write_ptr += n;
    return n;
}

/* Returns false, with errno set, if the stream cannot be written to. */
static bool begin_writing(FILE *file)
{
    bool is_writing = file->_flags & IS_PUTTING && file->_IO_write_base;
    return fwide(file, -1) < 0 && (is_writing || __overflow(file, EOF) != EOF);
}

static enum step put(struct thread *self, struct operation *operation, const char *text)
{
    FILE *file = operation->file;
    if (gs_cc_stream_is_plain(file))
        return fwrite(text, 1, operation->size, file) == operation->size ? GO : FAILED;
    if (!begin_writing(file))
        return FAILED;
    if (file->_flags & UNBUFFERED)
        return gs_cc_stream_write(self, operation, text);
    for (;;) {
        size_t left = operation->size - operation->done;
        if (is_due(file, left)) {
            enum step step = gs_cc_stream_flush(self, file);
            if (step != GO)
                return step;
        }
        if (!left)
            return GO;
        flockfile(file);
        operation->done += fill(file, text + operation->done, left);
        funlockfile(file);
    }
}

/* Returns how many of the bytes were written; 0 also if the caller must return. */
static size_t put_all(FILE *file, const void *bytes, size_t n)
{
    struct thread *self = thread_self();
    if (gs_cc_stream_is_direct(self, file))
        return fwrite(bytes, 1, n, file);
    struct operation *operation = gs_cc_stream_begin(self, file);
    if (!operation)
        return 0;
    operation->size = n;
    enum step step = put(self, operation, bytes);
    if (step == LEAVE)
        return 0;
    n = step == GO ? n : 0;
    gs_cc_stream_end(self, operation);
    return n;
}

size_t gs_cc_fwrite(const void *bytes, size_t size, size_t count, FILE *file)
{
    return size && count ? put_all(file, bytes, size * count) / size : 0;
}

int gs_cc_fputs(const char *text, FILE *file)
{
    size_t n = strlen(text);
    return !n || put_all(file, text, n) == n ? 1 : EOF;
}

int gs_cc_fputc(int byte, FILE *file)
{
    unsigned char one = (unsigned char)byte;
    return put_all(file, &one, 1) ? one : EOF;
}

int gs_cc_putc(int byte, FILE *file) ALIAS(gs_cc_fputc);
int gs_cc__IO_putc(int byte, FILE *file) ALIAS(gs_cc_fputc);

int gs_cc_putchar(int byte)
{
    return gs_cc_fputc(byte, stdout);
}

int gs_cc_fputc_unlocked(int byte, FILE *file) ALIAS(gs_cc_fputc);
int gs_cc_putc_unlocked(int byte, FILE *file) ALIAS(gs_cc_fputc);
int gs_cc_putchar_unlocked(int byte) ALIAS(gs_cc_putchar);
int gs_cc_fputs_unlocked(const char *text, FILE *file) ALIAS(gs_cc_fputs);
size_t gs_cc_fwrite_unlocked(const void *bytes, size_t size, size_t count, FILE *file)
    ALIAS(gs_cc_fwrite);

/* The text and the end of the line are one call for other threads: it is made again until both are
 * written, of which the text is a copy. */
int gs_cc_puts(const char *text)
{
    struct thread *self = thread_self();
    if (gs_cc_stream_is_direct(self, stdout))
        return puts(text);
    struct operation *operation = gs_cc_stream_begin(self, stdout);
    if (!operation)
        return 0;
    if (!operation->text) {
        operation->size = strlen(text) + 1;
        operation->text = malloc(operation->size);
        if (operation->text) {
            memcpy(operation->text, text, operation->size - 1);
            operation->text[operation->size - 1] = '\n';
        }
    }
    enum step step = operation->text ? put(self, operation, operation->text) : FAILED;
    if (step == LEAVE)
        return 0;
    gs_cc_stream_end(self, operation);
    return step == GO ? 1 : EOF;
}

/* What putc_unlocked calls for a full buffer. */
int gs_cc___overflow(FILE *file, int byte)
{
    return gs_cc_fputc(byte, file);
}

/* ---- Formatted ---- */

/* The text is made once: what its arguments refer to may change while the thread waits. */
static int print(FILE *file, const char *format, va_list list)
{
    struct thread *self = thread_self();
    if (gs_cc_stream_is_direct(self, file))
        return vfprintf(file, format, list);
    struct operation *operation = gs_cc_stream_begin(self, file);
    if (!operation)
        return 0;
    int n = operation->text ? (int)operation->size : vasprintf(&operation->text, format, list);
    if (n < 0)
        operation->text = NULL;
    operation->size = n < 0 ? 0 : (size_t)n;
    enum step step = n < 0 ? FAILED : put(self, operation, operation->text);
    if (step == LEAVE)
        return 0;
    gs_cc_stream_end(self, operation);
    return step == GO ? n : -1;
}

int gs_cc_vfprintf(FILE *file, const char *format, va_list list)
{
    return print(file, format, list);
}

int gs_cc___vfprintf_chk(FILE *file, int flag, const char *format, va_list list)
{
    (void)flag;
    return print(file, format, list);
}

int gs_cc_fprintf(FILE *file, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int n = print(file, format, list);
    va_end(list);
    return n;
}

int gs_cc___fprintf_chk(FILE *file, int flag, const char *format, ...)
{
    va_list list;
    (void)flag;
    va_start(list, format);
    int n = print(file, format, list);
    va_end(list);
    return n;
}

int gs_cc_vprintf(const char *format, va_list list)
{
    return print(stdout, format, list);
}

int gs_cc___vprintf_chk(int flag, const char *format, va_list list)
{
    (void)flag;
    return print(stdout, format, list);
}

int gs_cc_printf(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int n = print(stdout, format, list);
    va_end(list);
    return n;
}

int gs_cc___printf_chk(int flag, const char *format, ...)
{
    va_list list;
    (void)flag;
    va_start(list, format);
    int n = print(stdout, format, list);
    va_end(list);
    return n;
}

/* ---- Flushing and closing ---- */

int gs_cc_fflush(FILE *file)
{
    struct thread *self = thread_self();
    if (!file && self && gs_cc_test_cancel(self))
        return 0;
    if (!file || gs_cc_stream_flushes_directly(self, file))
        return fflush(file);
    if (fwide(file, 0) > 0)
        return gs_cc_stream_flush_wide(self, file);
    struct operation *operation = gs_cc_stream_begin(self, file);
    if (!operation)
        return 0;
    enum step step = gs_cc_stream_flush(self, file);
    if (step != LEAVE)
        gs_cc_stream_end(self, operation);
    return step == FAILED ? EOF : 0;
}

int gs_cc_fflush_unlocked(FILE *file) ALIAS(gs_cc_fflush);

static void forget(int fd, const struct thread *self)
{
    if (fd < 0)
        return;
    gs_cc_forget_kind(fd);
    if (self)
        gs_forget(fd);
}

/* It closes the descriptor, and another file may have the same one. */
FILE *gs_cc_freopen(const char *path, const char *mode, FILE *file)
{
    struct thread *self = thread_self();
    (void)gs_cc_fflush(file);
    if (gs_cc_state.suspending)
        return NULL;
    if (gs_cc_test_cancel(self))
        return NULL;
    forget(fileno(file), self);
    FILE *opened = freopen(path, mode, file);
    int err = errno;
    if (opened)
        forget(fileno(opened), self);
    errno = err;
    return opened;
}

FILE *gs_cc_freopen64(const char *path, const char *mode, FILE *file) ALIAS(gs_cc_freopen);

int gs_cc_fclose(FILE *file)
{
    struct thread *self = thread_self();
    int result = gs_cc_fflush(file), err = errno;
    if (gs_cc_state.suspending)
        return 0;
    forget(fileno(file), self);
    if (result)
        __fpurge(file); /* it would be written again */
    if (fclose(file))
        return EOF;
    errno = err;
    return result;
}
