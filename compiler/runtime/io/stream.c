#include "compiler/runtime/io/stream.h"
#include "compiler/runtime/io/descriptor.h"
#include "compiler/runtime/start/memory.h"
#include "compiler/runtime/threads/pool.h"

#include <ctype.h>
#include <gossamer/io.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* Of glibc's flags of a stream. */
enum { UNBUFFERED = 0x2, IN_BACKUP = 0x100, LINE_BUFFERED = 0x200 };

/* ---- Locks: a thread that waits within a call has the stream for itself ---- */

struct stream_lock {
    FILE *file;
    const struct thread *owner;
    unsigned depth;
    struct queue waiting;
    struct stream_lock *next;
};

static atomic_flag guard = ATOMIC_FLAG_INIT;
/* By the address of the stream: many threads may wait, each within a call of its own. */
#define BUCKETS 1024u
static struct stream_lock *locks[BUCKETS];
static atomic_uint lock_count;

static struct stream_lock **find(const FILE *file)
{
    struct stream_lock **at = &locks[(uintptr_t)file / 64 % BUCKETS];
    while (*at && (*at)->file != file)
        at = &(*at)->next;
    return at;
}

/* The caller holds the guard. */
static bool take(struct thread *self, FILE *file, bool may_queue)
{
    struct stream_lock **at = find(file), *one = *at;
    if (!one) {
        one = *at = gs_cc_allocate(sizeof *one);
        *one = (struct stream_lock){.file = file, .owner = self};
        atomic_fetch_add(&lock_count, 1);
    }
    if (one->owner == self) {
        one->depth++;
        return true;
    }
    if (may_queue)
        queue_append(&one->waiting, self);
    return false;
}

/* Returns true if the caller must return. */
static bool lock(struct thread *self, FILE *file)
{
    for (;;) {
        spin_lock(&guard);
        bool is_taken =
            self->phase == PHASE_GRANTED || (self->phase == PHASE_NEW && take(self, file, true));
        spin_unlock(&guard);
        if (is_taken)
            break;
        if (gs_cc_wait(self, false))
            return true;
    }
    if (self->phase != PHASE_NEW)
        gs_cc_complete(self);
    return false;
}

static void unlock(const struct thread *self, const FILE *file)
{
    struct thread *next = NULL;
    spin_lock(&guard);
    struct stream_lock **at = find(file), *one = *at;
    if (one && one->owner == self && !--one->depth) {
        next = queue_pop(&one->waiting);
        one->owner = next;
        one->depth = 1;
        if (!next) {
            *at = one->next;
            gs_cc_release(one, sizeof *one);
            atomic_fetch_sub(&lock_count, 1);
        }
    }
    spin_unlock(&guard);
    if (next)
        grant(next);
}

void gs_cc_flockfile(FILE *file)
{
    struct thread *self = thread_self();
    if (self && lock(self, file))
        return;
    flockfile(file);
}

int gs_cc_ftrylockfile(FILE *file)
{
    struct thread *self = thread_self();
    spin_lock(&guard);
    bool is_taken = !self || take(self, file, false);
    spin_unlock(&guard);
    if (is_taken && !ftrylockfile(file))
        return 0;
    if (is_taken && self)
        unlock(self, file);
    return -1;
}

void gs_cc_funlockfile(FILE *file)
{
    struct thread *self = thread_self();
    funlockfile(file);
    if (self)
        unlock(self, file);
}

void gs_cc_streams_after_fork(const struct thread *self)
{
    atomic_flag_clear(&guard);
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct stream_lock **at = &locks[i], *one; (one = *at);) {
            one->waiting = (struct queue){0};
            if (one->owner == self) {
                at = &one->next;
                continue;
            }
            *at = one->next;
            gs_cc_release(one, sizeof *one);
            atomic_fetch_sub(&lock_count, 1);
        }
}

/* ---- Calls in steps ---- */

bool gs_cc_stream_is_free(const struct thread *self)
{
    return !self || (self->phase == PHASE_NEW && !self->progress &&
                     !atomic_load_explicit(&lock_count, memory_order_relaxed));
}

bool gs_cc_stream_is_plain(FILE *file)
{
    int fd = fileno_unlocked(file);
    return fd < 0 || gs_cc_kind(fd) == KIND_PLAIN;
}

bool gs_cc_stream_is_direct(const struct thread *self, FILE *file)
{
    return !self || (gs_cc_stream_is_free(self) && gs_cc_stream_is_plain(file));
}

struct operation *gs_cc_stream_begin(struct thread *self, FILE *file)
{
    struct operation *operation = (struct operation *)self->progress;
    if (operation && !must_cancel(self))
        return operation;
    if (operation)
        gs_cc_stream_end(self, operation);
    if (self->phase == PHASE_NEW && gs_cc_test_cancel(self))
        return NULL;
    if (lock(self, file))
        return NULL;
    operation = gs_cc_allocate(sizeof *operation);
    *operation = (struct operation){.file = file, .flags = file->_flags};
    self->progress = (size_t)operation;
    return operation;
}

void gs_cc_stream_end(struct thread *self, struct operation *operation)
{
    int err = errno;
    unlock(self, operation->file);
    free(operation->text);
    gs_cc_release(operation, sizeof *operation);
    gs_cc_complete(self);
    jump_if_told(self);
    errno = err;
}

/* The next wait of the same call. */
static void begin_step(struct thread *self)
{
    size_t progress = self->progress;
    if (self->phase == PHASE_NEW)
        return;
    gs_cc_complete(self);
    self->progress = progress;
}

/* The descriptor is not ready, as err says. */
static enum step wait_for(struct thread *self, FILE *file, unsigned direction)
{
    int err;
    if (gs_cc_block(self, fileno_unlocked(file), direction, &err))
        return LEAVE;
    if (!err)
        return GO;
    /* Only what waits can be canceled, and then it ends here. */
    if (err == ECANCELED && must_cancel(self)) {
        gs_cc_stream_end(self, (struct operation *)self->progress);
        gs_cc_test_cancel(self);
        return LEAVE;
    }
    file->_flags |= _IO_ERR_SEEN;
    errno = err;
    return FAILED;
}

/* What a stream of wide characters has converted; its structure begins with these addresses. */
static bool has_wide_input(FILE *file)
{
    const wchar_t *const *bounds = (const void *)file->_wide_data;
    return fwide(file, 0) > 0 && bounds && bounds[0] < bounds[1];
}

static bool has_input(FILE *file)
{
    return has_wide_input(file) || file->_IO_read_ptr < file->_IO_read_end ||
           (file->_flags & IN_BACKUP && file->_IO_save_base < file->_IO_save_end);
}

bool gs_cc_stream_reads_directly(const struct thread *self, FILE *file)
{
    bool reads_file = !has_input(file);
    return gs_cc_stream_is_direct(self, file) && !(self && is_canceled(self) && reads_file);
}

bool gs_cc_stream_flushes_directly(const struct thread *self, FILE *file)
{
    bool writes_file = file->_IO_write_ptr > file->_IO_write_base;
    return gs_cc_stream_is_direct(self, file) && !(self && is_canceled(self) && writes_file);
}

static bool is_readable(FILE *file)
{
    struct pollfd one = {.fd = fileno_unlocked(file), .events = POLLIN};
    return gs_cc_stream_is_plain(file) || poll(&one, 1, 0);
}

/* What the program has written must be seen before it waits for an answer. */
enum step gs_cc_stream_await(struct thread *self, FILE *file)
{
    while (!has_input(file) && !(file->_flags & _IO_EOF_SEEN) && !is_readable(file)) {
        bool has_output = file->_IO_write_ptr > file->_IO_write_base;
        enum step step = has_output ? gs_cc_stream_flush(self, file) : GO;
        if (step != GO)
            return step;
        if (stdout->_flags & LINE_BUFFERED)
            fflush(stdout);
        step = wait_for(self, file, GS_READ);
        if (step != GO)
            return step;
    }
    begin_step(self);
    return GO;
}

/* Forget the first bytes of the buffer, which were written. */
static void advance(FILE *file, size_t n)
{
    char *base = file->_IO_write_base + n;
    if (base == file->_IO_write_ptr) {
        bool is_whole = file->_flags & (LINE_BUFFERED | UNBUFFERED);
        base = file->_IO_write_ptr = file->_IO_buf_base;
        file->_IO_write_end = is_whole ? base : file->_IO_buf_end;
    }
    file->_IO_write_base = file->_IO_read_base = file->_IO_read_ptr = file->_IO_read_end = base;
}

/* Write from the buffer without blocking. Returns 0 when it is empty, or -errno. */
static int write_some(FILE *file)
{
    ssize_t n = 0;
    flockfile(file);
    while (n >= 0 && file->_IO_write_ptr > file->_IO_write_base) {
        size_t left = (size_t)(file->_IO_write_ptr - file->_IO_write_base);
        n = gs_cc_try_writev(fileno_unlocked(file), &(struct iovec){file->_IO_write_base, left}, 1);
        if (n > 0)
            advance(file, (size_t)n);
        else if (n < 0 && n != -EAGAIN)
            advance(file, left);
    }
    funlockfile(file);
    return n < 0 ? (int)n : 0;
}

enum step gs_cc_stream_flush(struct thread *self, FILE *file)
{
    int err;
    if (gs_cc_stream_is_plain(file))
        return fflush(file) ? FAILED : GO;
    while ((err = write_some(file)) == -EAGAIN) {
        enum step step = wait_for(self, file, GS_WRITE);
        if (step != GO)
            return step;
    }
    begin_step(self);
    if (!err)
        return GO;
    file->_flags |= _IO_ERR_SEEN;
    errno = -err;
    return FAILED;
}

enum step gs_cc_stream_write(struct thread *self, struct operation *operation, const char *text)
{
    FILE *file = operation->file;
    while (operation->done < operation->size) {
        struct iovec part = {(char *)text + operation->done, operation->size - operation->done};
        ssize_t n = gs_cc_try_writev(fileno_unlocked(file), &part, 1);
        if (n >= 0) {
            operation->done += (size_t)n;
            continue;
        }
        if (n != -EAGAIN) {
            file->_flags |= _IO_ERR_SEEN;
            errno = (int)-n;
            return FAILED;
        }
        enum step step = wait_for(self, file, GS_WRITE);
        if (step != GO)
            return step;
    }
    begin_step(self);
    return GO;
}

/* ---- Calls that cannot be made in steps: a kernel thread of the pool makes them ---- */

/* So many bytes are enough for a call that reads numbers or words. */
#define ENOUGH 128

/* Whether a call with this format begins with skipping white space. NULL: it reads one wide
 * character. */
static bool skips_space(const char *format)
{
    if (!format)
        return false;
    if (format[0] != '%')
        return isspace((unsigned char)format[0]);
    const char *conversion = format + 1 + strspn(format + 1, "*0123456789'mhlLjztq");
    return !strchr("%c[nC", *conversion);
}

/* Lock the stream, and wait until there is something to read: what waits in the pool has begun.
 * Returns true if the caller must return. */
static bool prepare(struct thread *self, FILE *file, const char *format)
{
    struct operation *operation = gs_cc_stream_begin(self, file);
    if (!operation)
        return true;
    bool skips = skips_space(format);
    enum step step = gs_cc_stream_await(self, file);
    while (step == GO && skips && has_input(file) && isspace((unsigned char)*file->_IO_read_ptr)) {
        fgetc(file);
        step = gs_cc_stream_await(self, file);
    }
    if (step == LEAVE)
        return true;
    gs_cc_release(operation, sizeof *operation);
    gs_cc_complete(self);
    return false;
}

/* Make the call, in the pool if it may wait. Returns whether it was made. */
static bool call_or_pool(struct thread *self, bool cannot_wait, void (*call)(void *box), void *box)
{
    if (!self->is_pooled && cannot_wait) {
        call(box);
        return true;
    }
    self->is_pooled = true;
    if (!gs_cc_in_pool(call, box, POOL_BOTH))
        return false;
    self->is_pooled = false;
    return true;
}

void gs_cc___reading(void (*call)(void *box), void *box, FILE *file, const char *format)
{
    struct thread *self = thread_self();
    FILE *input = file ? file : stdin;
    if (gs_cc_stream_reads_directly(self, input)) {
        call(box);
        return;
    }
    if (!self->is_pooled && prepare(self, input, format))
        return;
    bool has_enough = format ? input->_IO_read_end - input->_IO_read_ptr >= ENOUGH
                             : has_wide_input(input); /* for one character */
    if (!call_or_pool(self, has_enough || gs_cc_stream_is_plain(input), call, box))
        return;
    unlock(self, input);
    gs_cc_end_in_pool(self);
}

/* Calls that write wide characters, or have no text to be written in steps. */
void gs_cc___writing(void (*call)(void *box), void *box, FILE *file)
{
    struct thread *self = thread_self();
    FILE *output = file ? file : stdout;
    if (gs_cc_stream_is_direct(self, output)) {
        call(box);
        return;
    }
    if (!self->is_pooled) {
        struct operation *operation = gs_cc_stream_begin(self, output);
        if (!operation)
            return;
        gs_cc_release(operation, sizeof *operation);
        gs_cc_complete(self);
    }
    if (!call_or_pool(self, gs_cc_stream_is_plain(output), call, box))
        return;
    unlock(self, output);
    gs_cc_end_in_pool(self);
}

/* ---- What a stream of wide characters has left to convert ---- */

struct flush {
    FILE *file;
    int result, err;
};

static void flush_file(void *argument)
{
    struct flush *flush = argument;
    flush->result = fflush(flush->file);
    flush->err = errno;
}

int gs_cc_stream_flush_wide(struct thread *self, FILE *file)
{
    struct flush *flush = NULL;
    if (!self->is_pooled) {
        struct operation *operation = gs_cc_stream_begin(self, file);
        if (!operation)
            return 0;
        gs_cc_release(operation, sizeof *operation);
        gs_cc_complete(self);
        flush = gs_cc_box(sizeof *flush);
        *flush = (struct flush){file, 0, 0};
        self->is_pooled = true;
    }
    flush = gs_cc_in_pool(flush_file, flush, POOL_BOTH);
    if (!flush)
        return 0;
    self->is_pooled = false;
    int result = flush->result, err = flush->err;
    gs_cc_box_free(flush, sizeof *flush);
    unlock(self, file);
    errno = err;
    gs_cc_end_in_pool(self);
    return result;
}
