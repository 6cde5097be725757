/* File segments, and chains that refer to them. */
#include "compat/libevent/buffer/segment.h"
#include "compat/libevent/buffer/buffer.h"
#include "compat/libevent/event/lock.h"
#include "compat/libevent/event/log.h"
#include "compat/libevent/event/memory.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct evbuffer_file_segment {
    void *lock;             /* for loading */
    atomic_uint references; /* of the program and of chains */
    int fd;
    unsigned flags;
    bool can_sendfile;
    off_t offset, length;    /* within the file */
    unsigned char *contents; /* NULL until loaded */
    void *mapping;           /* of which `contents` is a part, or NULL */
    size_t mapping_length;
    evbuffer_file_segment_cleanup_cb cleanup;
    void *cleanup_argument;
};

/* ---- Contents ---- */

/* A file that is shorter than the segment is not mapped: bytes on pages beyond its end cannot be
 * read. */
static int map(struct evbuffer_file_segment *segment)
{
    off_t page = sysconf(_SC_PAGESIZE);
    off_t before = segment->offset % page;
    struct stat status;
    int err = gs_sys_fstat(segment->fd, &status);
    if (err < 0)
        return err;
    if (status.st_size + page - 1 - (status.st_size + page - 1) % page <
        segment->offset + segment->length)
        return -ENXIO;
    size_t length = (size_t)(segment->length + before);
    void *mapping =
        mmap(NULL, length, PROT_READ, MAP_PRIVATE, segment->fd, segment->offset - before);
    if (mapping == MAP_FAILED)
        return -errno;
    segment->mapping = mapping;
    segment->mapping_length = length;
    segment->contents = (unsigned char *)mapping + before;
    return 0;
}

static int read_file(struct evbuffer_file_segment *segment)
{
    size_t length = (size_t)segment->length, done = 0;
    unsigned char *contents = gs_ev_malloc(length);
    if (!contents)
        return -ENOMEM;
    while (done < length) {
        ssize_t n = gs_sys_pread(segment->fd, contents + done, length - done,
                                 segment->offset + (off_t)done);
        if (n == -EINTR)
            continue;
        if (n <= 0) {
            gs_ev_free(contents);
            return n ? (int)n : -ENXIO;
        }
        done += (size_t)n;
    }
    segment->contents = contents;
    return 0;
}

static int load(struct evbuffer_file_segment *segment)
{
    if (segment->contents)
        return 0;
    if (!segment->length)
        return -EINVAL;
    if (!(segment->flags & EVBUF_FS_DISABLE_MMAP) && !map(segment))
        return 0;
    return read_file(segment);
}

const unsigned char *gs_ev_segment_load(struct evbuffer_file_segment *segment)
{
    gs_ev_lock(segment->lock);
    int err = load(segment);
    gs_ev_unlock(segment->lock);
    if (err)
        gs_ev_warnx("a part of a file could not be read (error %d)", -err);
    return err ? NULL : segment->contents;
}

/* ---- Life cycle ---- */

/* length: -1: to the end of the file. Returns whether the segment is within the range of off_t. */
static bool set_range(struct evbuffer_file_segment *segment, off_t offset, off_t length)
{
    if (length == -1) {
        struct stat status;
        if (offset < 0 || gs_sys_fstat(segment->fd, &status) < 0 || offset > status.st_size)
            return false;
        length = status.st_size - offset;
    }
    off_t end;
    if (offset < 0 || length < 0 || __builtin_add_overflow(offset, length, &end))
        return false;
    segment->offset = offset;
    segment->length = length;
    return true;
}

struct evbuffer_file_segment *evbuffer_file_segment_new(int fd, ev_off_t offset, ev_off_t length,
                                                        unsigned flags)
{
    struct evbuffer_file_segment *segment = gs_ev_calloc(1, sizeof *segment);
    if (!segment)
        return NULL;
    atomic_init(&segment->references, 1);
    segment->fd = fd;
    segment->flags = flags;
    segment->can_sendfile = !(flags & EVBUF_FS_DISABLE_SENDFILE);
    if (!set_range(segment, offset, length))
        goto free_segment;
    if (!segment->can_sendfile && !gs_ev_segment_load(segment))
        goto free_segment;
    if (!(flags & EVBUF_FS_DISABLE_LOCKING))
        segment->lock = gs_ev_lock_new();
    return segment;

free_segment:
    gs_ev_free(segment);
    return NULL;
}

void evbuffer_file_segment_free(struct evbuffer_file_segment *seg)
{
    if (atomic_fetch_sub(&seg->references, 1) > 1)
        return;
    if (seg->mapping)
        munmap(seg->mapping, seg->mapping_length);
    else if (seg->contents)
        gs_ev_free(seg->contents);
    if (seg->flags & EVBUF_FS_CLOSE_ON_FREE && seg->fd >= 0)
        gs_sys_close(seg->fd);
    if (seg->cleanup)
        seg->cleanup(seg, (int)seg->flags, seg->cleanup_argument);
    gs_ev_lock_free(seg->lock);
    gs_ev_free(seg);
}

void evbuffer_file_segment_add_cleanup_cb(struct evbuffer_file_segment *seg,
                                          evbuffer_file_segment_cleanup_cb cb, void *arg)
{
    seg->cleanup = cb;
    seg->cleanup_argument = arg;
}

/* ---- Buffers ---- */

/* Returns a chain of bytes of the segment, which it takes a reference to, or NULL. */
static struct gs_ev_chain *new_chain(struct evbuffer_file_segment *segment, off_t offset,
                                     off_t length, bool is_sent)
{
    const unsigned char *contents = NULL;
    if (!is_sent) {
        contents = gs_ev_segment_load(segment);
        if (!contents)
            return NULL;
    }
    struct gs_ev_outside_chain *outside =
        gs_ev_chain_new_outside(is_sent ? GS_EV_CHAIN_FILE : GS_EV_CHAIN_LOADED);
    if (!outside)
        return NULL;
    if (contents)
        outside->chain.memory = (unsigned char *)(uintptr_t)contents + offset;
    outside->chain.capacity = outside->chain.length = (size_t)length;
    outside->origin.file.segment = segment;
    outside->origin.file.offset = offset;
    atomic_fetch_add(&segment->references, 1);
    return &outside->chain;
}

int evbuffer_add_file_segment(struct evbuffer *buf, struct evbuffer_file_segment *seg,
                              ev_off_t offset, ev_off_t length)
{
    gs_ev_buffer_lock(buf);
    struct gs_ev_chain *chain = NULL;
    if (buf->is_back_frozen || offset < 0 || offset > seg->length)
        goto unlock;
    if (length < 0)
        length = seg->length - offset;
    if (length > seg->length - offset || (size_t)length > GS_EV_BUFFER_MAX - buf->length)
        goto unlock;
    bool is_sent = buf->flags & EVBUFFER_FLAG_DRAINS_TO_FD && seg->can_sendfile;
    chain = new_chain(seg, offset, length, is_sent);
    if (chain) {
        gs_ev_buffer_append(buf, chain);
        gs_ev_buffer_changed(buf);
    }
unlock:
    gs_ev_buffer_unlock(buf);
    return chain ? 0 : -1;
}

int evbuffer_add_file(struct evbuffer *outbuf, int fd, ev_off_t offset, ev_off_t length)
{
    struct evbuffer_file_segment *segment =
        evbuffer_file_segment_new(fd, offset, length, EVBUF_FS_CLOSE_ON_FREE);
    if (!segment)
        return -1;
    int result = evbuffer_add_file_segment(outbuf, segment, 0, length);
    if (result) /* fd stays the caller's */
        segment->flags &= ~(unsigned)EVBUF_FS_CLOSE_ON_FREE;
    evbuffer_file_segment_free(segment);
    return result;
}

ssize_t gs_ev_segment_send(const struct gs_ev_chain *chain, int fd, size_t n)
{
    const struct gs_ev_outside_chain *outside = (const struct gs_ev_outside_chain *)chain;
    const struct evbuffer_file_segment *segment = outside->origin.file.segment;
    off_t offset = segment->offset + outside->origin.file.offset + (off_t)chain->start;
    return gs_sys_sendfile(fd, segment->fd, &offset, n);
}
