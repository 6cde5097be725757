/* Functions that read from streams. */
#include "compiler/runtime/io/stream.h"

#include <stdlib.h>
#include <string.h>

/* Returns a byte, or EOF; *ret_step is LEAVE if the caller must return. */
static int next_byte(struct thread *self, FILE *file, enum step *ret_step)
{
    *ret_step = gs_cc_stream_await(self, file);
    return *ret_step == GO ? fgetc(file) : EOF;
}

int gs_cc_fgetc(FILE *file)
{
    struct thread *self = thread_self();
    enum step step;
    if (gs_cc_stream_reads_directly(self, file))
        return fgetc(file);
    struct operation *operation = gs_cc_stream_begin(self, file);
    if (!operation)
        return EOF;
    int byte = next_byte(self, file, &step);
    if (step != LEAVE)
        gs_cc_stream_end(self, operation);
    return byte;
}

int gs_cc_getc(FILE *file) ALIAS(gs_cc_fgetc);
int gs_cc__IO_getc(FILE *file) ALIAS(gs_cc_fgetc);

int gs_cc_getchar(void)
{
    return gs_cc_fgetc(stdin);
}

int gs_cc_fgetc_unlocked(FILE *file) ALIAS(gs_cc_fgetc);
int gs_cc_getc_unlocked(FILE *file) ALIAS(gs_cc_fgetc);
int gs_cc_getchar_unlocked(void) ALIAS(gs_cc_getchar);

/* What getc_unlocked calls for an empty buffer. */
int gs_cc___uflow(FILE *file) ALIAS(gs_cc_fgetc);

/* ---- Lines ---- */

/* Whether the buffer has the end of a line, or so many bytes. */
static bool has_line(const FILE *file, int end, size_t size)
{
    size_t n = (size_t)(file->_IO_read_end - file->_IO_read_ptr);
    return n >= size || (n && memchr(file->_IO_read_ptr, end, n));
}

static bool is_direct_line(const struct thread *self, FILE *file, int end, size_t size)
{
    return gs_cc_stream_reads_directly(self, file) ||
           (gs_cc_stream_is_free(self) && has_line(file, end, size));
}

/* The error indicator is only of this call, and is set afterwards if it was before. */
static char *finish_line(struct thread *self, struct operation *operation, char *bytes)
{
    FILE *file = operation->file;
    bool has_failed = !operation->done || (file->_flags & _IO_ERR_SEEN && errno != EAGAIN);
    file->_flags |= operation->flags & _IO_ERR_SEEN;
    if (!has_failed)
        bytes[operation->done] = 0;
    gs_cc_stream_end(self, operation);
    return has_failed ? NULL : bytes;
}

char *gs_cc_fgets(char *bytes, int size, FILE *file)
{
    struct thread *self = thread_self();
    enum step step = GO;
    int byte = 0;
    if (size <= 1 || is_direct_line(self, file, '\n', (size_t)size - 1))
        return fgets(bytes, size, file);
    struct operation *operation = gs_cc_stream_begin(self, file);
    if (!operation)
        return NULL;
    if (!operation->done)
        file->_flags &= ~_IO_ERR_SEEN;
    while (byte != '\n' && operation->done < (size_t)size - 1) {
        byte = next_byte(self, file, &step);
        if (step == LEAVE)
            return NULL;
        if (byte == EOF)
            break;
        bytes[operation->done++] = (char)byte;
    }
    return finish_line(self, operation, bytes);
}

char *gs_cc___fgets_chk(char *bytes, size_t room, int size, FILE *file)
{
    if (size > 0 && (size_t)size > room)
        __builtin_trap();
    return gs_cc_fgets(bytes, size, file);
}

char *gs_cc_fgets_unlocked(char *bytes, int size, FILE *file) ALIAS(gs_cc_fgets);
char *gs_cc___fgets_unlocked_chk(char *bytes, size_t room, int size, FILE *file)
    ALIAS(gs_cc___fgets_chk);

/* Returns whether there is room for n bytes. */
static bool make_room(char **line, size_t *size, size_t n)
{
    if (*line && n <= *size)
        return true;
    size_t room = *line && 2 * *size > n ? 2 * *size : n;
    if (room < 120)
        room = 120;
    char *more = realloc(*line, room);
    if (!more)
        return false;
    *line = more;
    *size = room;
    return true;
}

ssize_t gs_cc_getdelim(char **line, size_t *size, int end, FILE *file)
{
    struct thread *self = thread_self();
    enum step step = GO;
    int byte = EOF;
    if (!line || !size)
        return result_of(EINVAL);
    if (is_direct_line(self, file, end, SIZE_MAX))
        return getdelim(line, size, end, file);
    struct operation *operation = gs_cc_stream_begin(self, file);
    if (!operation)
        return 0;
    do {
        byte = make_room(line, size, operation->done + 2) ? next_byte(self, file, &step) : EOF;
        if (step == LEAVE)
            return 0;
        if (byte != EOF && *line)
            (*line)[operation->done++] = (char)byte;
    } while (byte != EOF && byte != end);
    ssize_t n = operation->done ? (ssize_t)operation->done : -1;
    if (n > 0 && *line)
        (*line)[n] = 0;
    gs_cc_stream_end(self, operation);
    return n;
}

ssize_t gs_cc___getdelim(char **line, size_t *size, int end, FILE *file) ALIAS(gs_cc_getdelim);

ssize_t gs_cc_getline(char **line, size_t *size, FILE *file)
{
    return gs_cc_getdelim(line, size, '\n', file);
}

/* ---- Blocks ---- */

size_t gs_cc_fread(void *bytes, size_t size, size_t count, FILE *file)
{
    struct thread *self = thread_self();
    size_t wanted = size * count;
    enum step step = GO;
    int byte = 0;
    size_t there = (size_t)(file->_IO_read_end - file->_IO_read_ptr);
    if (!wanted || gs_cc_stream_reads_directly(self, file) ||
        (there >= wanted && gs_cc_stream_is_free(self)))
        return fread(bytes, size, count, file);
    struct operation *operation = gs_cc_stream_begin(self, file);
    if (!operation)
        return 0;
    while (byte != EOF && operation->done < wanted) {
        char *at = (char *)bytes + operation->done;
        size_t left = wanted - operation->done;
        size_t here = (size_t)(file->_IO_read_end - file->_IO_read_ptr);
        if (here) {
            operation->done += fread(at, 1, here < left ? here : left, file);
            continue;
        }
        byte = next_byte(self, file, &step);
        if (step == LEAVE)
            return 0;
        if (byte != EOF)
            *at = (char)byte, operation->done++;
    }
    size_t n = operation->done / size;
    gs_cc_stream_end(self, operation);
    return n;
}

size_t gs_cc_fread_unlocked(void *bytes, size_t size, size_t count, FILE *file) ALIAS(gs_cc_fread);

size_t gs_cc___fread_chk(void *bytes, size_t room, size_t size, size_t count, FILE *file)
{
    if (size && count > room / size)
        __builtin_trap();
    return gs_cc_fread(bytes, size, count, file);
}

size_t gs_cc___fread_unlocked_chk(void *bytes, size_t room, size_t size, size_t count, FILE *file)
    ALIAS(gs_cc___fread_chk);
