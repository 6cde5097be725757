/* Buffers of bytes, which are lists of pieces of memory and of files: bytes are added at the back,
 * removed at the front, and moved from buffer to buffer without copying.
 *
 *     struct evbuffer *output = evbuffer_new();
 *     evbuffer_add_printf(output, "%zu bytes\n", size);
 *     evbuffer_add_file(output, file, 0, -1);
 *     int n = evbuffer_write(output, fd);
 *
 * Functions that return int return 0, or -1 on failure, unless something else is said; failures are
 * missing memory, a frozen end, and arguments out of range. A function that fails changes nothing.
 *
 * Threads: a buffer is used by one thread at a time, unless locking is enabled.
 */
#ifndef EVENT2_BUFFER_H_INCLUDED_
#define EVENT2_BUFFER_H_INCLUDED_

#include <event2/event-config.h>
#include <event2/util.h>
#include <event2/visibility.h>
#include <stdarg.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct event_base;
struct evbuffer;

/* A position in a buffer, 0 to its length; pos is -1 if something was not found. It is valid until
 * the buffer changes. */
struct evbuffer_ptr {
    ev_ssize_t pos;
    /* Private. */
    struct {
        void *chain;
        size_t pos_in_chain;
    } internal_;
};

#define evbuffer_iovec iovec
#define EVBUFFER_IOVEC_IS_NATIVE_

/* ---- Life cycle and locking ---- */

EVENT2_EXPORT_SYMBOL struct evbuffer *evbuffer_new(void);
EVENT2_EXPORT_SYMBOL void evbuffer_free(struct evbuffer *buf);

/* From now on, each function takes a recursive lock: `lock`, which stays the caller's, or a new one
 * if it is NULL. Callbacks run with the lock held. Fails if the buffer has a lock already, or if
 * the program has not set up threads. */
EVENT2_EXPORT_SYMBOL int evbuffer_enable_locking(struct evbuffer *buf, void *lock);

/* Hold the lock over several calls. Without locking, nothing happens. */
EVENT2_EXPORT_SYMBOL void evbuffer_lock(struct evbuffer *buf);
EVENT2_EXPORT_SYMBOL void evbuffer_unlock(struct evbuffer *buf);

/* The buffer is only written to descriptors: what is added of files is sent with sendfile. */
#define EVBUFFER_FLAG_DRAINS_TO_FD 1
EVENT2_EXPORT_SYMBOL int evbuffer_set_flags(struct evbuffer *buf, ev_uint64_t flags);
EVENT2_EXPORT_SYMBOL int evbuffer_clear_flags(struct evbuffer *buf, ev_uint64_t flags);

/* Let functions that remove or prepend bytes (at_front), or append them, fail. */
EVENT2_EXPORT_SYMBOL int evbuffer_freeze(struct evbuffer *buf, int at_front);
EVENT2_EXPORT_SYMBOL int evbuffer_unfreeze(struct evbuffer *buf, int at_front);

/* ---- Size ---- */

EVENT2_EXPORT_SYMBOL size_t evbuffer_get_length(const struct evbuffer *buf);
/* The number of bytes of the first piece. */
EVENT2_EXPORT_SYMBOL size_t evbuffer_get_contiguous_space(const struct evbuffer *buf);

/* ---- Adding bytes ---- */

EVENT2_EXPORT_SYMBOL int evbuffer_add(struct evbuffer *buf, const void *data, size_t datlen);
EVENT2_EXPORT_SYMBOL int evbuffer_prepend(struct evbuffer *buf, const void *data, size_t size);

/* Returns the number of bytes that were added. */
EVENT2_EXPORT_SYMBOL size_t evbuffer_add_iovec(struct evbuffer *buffer, struct evbuffer_iovec *vec,
                                               int n_vec);

/* Return the number of bytes that were added, or -1. */
EVENT2_EXPORT_SYMBOL int evbuffer_add_printf(struct evbuffer *buf, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
EVENT2_EXPORT_SYMBOL int evbuffer_add_vprintf(struct evbuffer *buf, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));

/* Allocate memory, so that the next datlen bytes need none. */
EVENT2_EXPORT_SYMBOL int evbuffer_expand(struct evbuffer *buf, size_t datlen);

/* Let the caller write bytes into the buffer's memory: at least `size` bytes in at most n_vec
 * extents (two suffice). Returns how many extents there are, or -1. Until the commit, the buffer
 * must not be used otherwise. */
EVENT2_EXPORT_SYMBOL int evbuffer_reserve_space(struct evbuffer *buf, ev_ssize_t size,
                                                struct evbuffer_iovec *vec, int n_vec);

/* Append what was written to these extents, whose lengths may have been reduced. */
EVENT2_EXPORT_SYMBOL int evbuffer_commit_space(struct evbuffer *buf, struct evbuffer_iovec *vec,
                                               int n_vecs);

/* The memory stays the caller's and must not change until cleanupfn is called, which may be NULL:
 * when no buffer refers to it any more. */
typedef void (*evbuffer_ref_cleanup_cb)(const void *data, size_t datalen, void *extra);
EVENT2_EXPORT_SYMBOL int evbuffer_add_reference(struct evbuffer *outbuf, const void *data,
                                                size_t datlen, evbuffer_ref_cleanup_cb cleanupfn,
                                                void *cleanupfn_arg);

/* ---- Between buffers ---- */

/* Move all bytes of inbuf to the back of outbuf, or of src to the front of dst. */
EVENT2_EXPORT_SYMBOL int evbuffer_add_buffer(struct evbuffer *outbuf, struct evbuffer *inbuf);
EVENT2_EXPORT_SYMBOL int evbuffer_prepend_buffer(struct evbuffer *dst, struct evbuffer *src);

/* Move up to datlen bytes. Returns their number, or -1. */
EVENT2_EXPORT_SYMBOL int evbuffer_remove_buffer(struct evbuffer *src, struct evbuffer *dst,
                                                size_t datlen);

/* Append the bytes of inbuf, which keeps them, without copying. Fails if it has parts of files, or
 * bytes that were added this way. */
EVENT2_EXPORT_SYMBOL int evbuffer_add_buffer_reference(struct evbuffer *outbuf,
                                                       struct evbuffer *inbuf);

/* ---- Removing and looking at bytes ---- */

EVENT2_EXPORT_SYMBOL int evbuffer_drain(struct evbuffer *buf, size_t len);

/* Copy up to datlen bytes from the front, or from a position; remove also drains them. Returns
 * their number, or -1. */
EVENT2_EXPORT_SYMBOL int evbuffer_remove(struct evbuffer *buf, void *data, size_t datlen);
EVENT2_EXPORT_SYMBOL ev_ssize_t evbuffer_copyout(struct evbuffer *buf, void *data_out,
                                                 size_t datlen);
EVENT2_EXPORT_SYMBOL ev_ssize_t evbuffer_copyout_from(struct evbuffer *buf,
                                                      const struct evbuffer_ptr *pos,
                                                      void *data_out, size_t datlen);

/* Make the first `size` bytes (-1: all) contiguous. Returns their address, or NULL: there are not
 * so many, size is 0, or memory is missing. */
EVENT2_EXPORT_SYMBOL unsigned char *evbuffer_pullup(struct evbuffer *buf, ev_ssize_t size);

/* Get the extents of the first `len` bytes after a position (NULL: the front), which may have more
 * bytes; len -1: as many as there is room for. Returns how many extents there are, which may be
 * more than n_vec; with n_vec 0 it only counts. */
EVENT2_EXPORT_SYMBOL int evbuffer_peek(struct evbuffer *buffer, ev_ssize_t len,
                                       struct evbuffer_ptr *start_at,
                                       struct evbuffer_iovec *vec_out, int n_vec);

/* ---- Searching ---- */

enum evbuffer_ptr_how {
    EVBUFFER_PTR_SET, /* from the front */
    EVBUFFER_PTR_ADD  /* forward from the present position */
};
EVENT2_EXPORT_SYMBOL int evbuffer_ptr_set(struct evbuffer *buffer, struct evbuffer_ptr *ptr,
                                          size_t position, enum evbuffer_ptr_how how);

/* Find the first occurrence that begins at `start` (NULL: the front) or later, and ends before
 * `end` (NULL: the back). */
EVENT2_EXPORT_SYMBOL struct evbuffer_ptr evbuffer_search(struct evbuffer *buffer, const char *what,
                                                         size_t len,
                                                         const struct evbuffer_ptr *start);
EVENT2_EXPORT_SYMBOL struct evbuffer_ptr evbuffer_search_range(struct evbuffer *buffer,
                                                               const char *what, size_t len,
                                                               const struct evbuffer_ptr *start,
                                                               const struct evbuffer_ptr *end);

enum evbuffer_eol_style {
    EVBUFFER_EOL_ANY,         /* as many CR and LF as there are, in any order */
    EVBUFFER_EOL_CRLF,        /* LF, with CR before it or without */
    EVBUFFER_EOL_CRLF_STRICT, /* CR and LF */
    EVBUFFER_EOL_LF,
    EVBUFFER_EOL_NUL /* a byte of value 0 */
};
/* eol_len_out: how many bytes end the line; it may be NULL. */
EVENT2_EXPORT_SYMBOL struct evbuffer_ptr evbuffer_search_eol(struct evbuffer *buffer,
                                                             struct evbuffer_ptr *start,
                                                             size_t *eol_len_out,
                                                             enum evbuffer_eol_style eol_style);

/* Remove a line with its end. Returns it without the end and with a terminating 0, to be freed with
 * free(), or NULL: there is no complete line, or memory is missing. n_read_out: its length; may be
 * NULL. */
EVENT2_EXPORT_SYMBOL char *evbuffer_readln(struct evbuffer *buffer, size_t *n_read_out,
                                           enum evbuffer_eol_style eol_style);

/* ---- Descriptors ---- */

/* Return the number of bytes, 0 at the end of the file (read), or -1 with errno. howmuch -1: as
 * many as possible. A call reads at most 4096 bytes. */
EVENT2_EXPORT_SYMBOL int evbuffer_read(struct evbuffer *buffer, evutil_socket_t fd, int howmuch);
EVENT2_EXPORT_SYMBOL int evbuffer_write(struct evbuffer *buffer, evutil_socket_t fd);
EVENT2_EXPORT_SYMBOL int evbuffer_write_atmost(struct evbuffer *buffer, evutil_socket_t fd,
                                               ev_ssize_t howmuch);

/* ---- Files ---- */

/* Append length bytes (-1: to the end) of a file from an offset. The buffer takes the descriptor
 * and closes it, unless the call fails. */
EVENT2_EXPORT_SYMBOL int evbuffer_add_file(struct evbuffer *outbuf, int fd, ev_off_t offset,
                                           ev_off_t length);

/* A part of a file, which any number of buffers can refer to. */
struct evbuffer_file_segment;

#define EVBUF_FS_CLOSE_ON_FREE 0x01 /* closes the descriptor at the end */
#define EVBUF_FS_DISABLE_MMAP 0x02
#define EVBUF_FS_DISABLE_SENDFILE 0x04
#define EVBUF_FS_DISABLE_LOCKING 0x08 /* used by one thread only */

/* fd stays open until no buffer uses the segment. length -1: to the end of the file. Returns NULL
 * on failure. */
EVENT2_EXPORT_SYMBOL struct evbuffer_file_segment *
evbuffer_file_segment_new(int fd, ev_off_t offset, ev_off_t length, unsigned flags);

/* It continues to exist while buffers refer to it. */
EVENT2_EXPORT_SYMBOL void evbuffer_file_segment_free(struct evbuffer_file_segment *seg);

/* The callback is called when the segment ceases to exist. */
typedef void (*evbuffer_file_segment_cleanup_cb)(struct evbuffer_file_segment const *seg, int flags,
                                                 void *arg);
EVENT2_EXPORT_SYMBOL void evbuffer_file_segment_add_cleanup_cb(struct evbuffer_file_segment *seg,
                                                               evbuffer_file_segment_cleanup_cb cb,
                                                               void *arg);

/* Append bytes of the segment; the offset is within the segment. length -1: to its end. */
EVENT2_EXPORT_SYMBOL int evbuffer_add_file_segment(struct evbuffer *buf,
                                                   struct evbuffer_file_segment *seg,
                                                   ev_off_t offset, ev_off_t length);

/* ---- Callbacks ---- */

/* The length at the last callback, and what was added and removed since. */
struct evbuffer_cb_info {
    size_t orig_size;
    size_t n_added;
    size_t n_deleted;
};

/* Called after the buffer has changed, latest callback first. It may change the buffer, and add and
 * remove callbacks. */
typedef void (*evbuffer_cb_func)(struct evbuffer *buffer, const struct evbuffer_cb_info *info,
                                 void *arg);
struct evbuffer_cb_entry;
EVENT2_EXPORT_SYMBOL struct evbuffer_cb_entry *evbuffer_add_cb(struct evbuffer *buffer,
                                                               evbuffer_cb_func cb, void *cbarg);
EVENT2_EXPORT_SYMBOL int evbuffer_remove_cb_entry(struct evbuffer *buffer,
                                                  struct evbuffer_cb_entry *ent);
/* Fails if there is no such callback. */
EVENT2_EXPORT_SYMBOL int evbuffer_remove_cb(struct evbuffer *buffer, evbuffer_cb_func cb,
                                            void *cbarg);

/* A callback without this flag is not called. */
#define EVBUFFER_CB_ENABLED 1
EVENT2_EXPORT_SYMBOL int evbuffer_cb_set_flags(struct evbuffer *buffer,
                                               struct evbuffer_cb_entry *cb, ev_uint32_t flags);
EVENT2_EXPORT_SYMBOL int evbuffer_cb_clear_flags(struct evbuffer *buffer,
                                                 struct evbuffer_cb_entry *cb, ev_uint32_t flags);

/* From now on, callbacks are called by the loop of the base, once for all changes before. */
EVENT2_EXPORT_SYMBOL int evbuffer_defer_callbacks(struct evbuffer *buffer, struct event_base *base);

#ifdef __cplusplus
}
#endif

#endif
