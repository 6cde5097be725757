/* Calls on blocking descriptors, made of calls that do not block. */
#ifndef GS_COMPILER_TRANSFER_H
#define GS_COMPILER_TRANSFER_H

#include "compiler/runtime/io/descriptor.h"

/* Make the call until it does not block; finish(thread, result) gives what the caller returns. One
 * that has made progress is made again at once: it may have been for a part of what is ready. */
#define REPEAT(self_, fd_, direction_, call_, finish_)                                             \
    do {                                                                                           \
        struct thread *caller_ = self_;                                                            \
        if (gs_cc_test_cancel(caller_))                                                            \
            return 0;                                                                              \
        for (;;) {                                                                                 \
            size_t before_ = caller_->progress;                                                    \
            ssize_t result_ = (call_);                                                             \
            int err_ = 0;                                                                          \
            if (result_ != -EAGAIN)                                                                \
                return (__typeof__(call_))finish_(caller_, result_);                               \
            if (caller_->progress != before_)                                                      \
                continue;                                                                          \
            if (gs_cc_block(caller_, fd_, direction_, &err_))                                      \
                return 0;                                                                          \
            if (err_)                                                                              \
                return (__typeof__(call_))finish_(caller_, -err_);                                 \
        }                                                                                          \
    } while (0)

#define RETRY(self_, fd_, direction_, call_) REPEAT(self_, fd_, direction_, call_, gs_cc_result)

static inline ssize_t negated(ssize_t result)
{
    return result < 0 ? -errno : result;
}

/* Whether a call with these flags is made as it is. One that does not wait is a cancellation point,
 * too. */
static inline bool is_made_at_once(const struct thread *self, int flags)
{
    return flags & MSG_DONTWAIT && !is_canceled(self);
}

ssize_t gs_cc_read(int fd, void *bytes, size_t n);
ssize_t gs_cc_write(int fd, const void *bytes, size_t n);

/* ---- Transfers that are complete when all bytes are: so many have gone already ---- */

static inline ssize_t go_on(struct thread *self, ssize_t written, size_t n)
{
    if (written < 0)
        return self->progress && written != -EAGAIN ? (ssize_t)self->progress : written;
    self->progress += (size_t)written;
    return self->progress == n ? (ssize_t)n : -EAGAIN;
}

/* After a part, the part is the result: the descriptor may be non-blocking, or the disk full. */
static inline ssize_t finish_transfer(struct thread *self, ssize_t result)
{
    if (result < 0 && result != -ECANCELED && self->progress)
        result = (ssize_t)self->progress;
    return gs_cc_result(self, result);
}

#define TRANSFER_ALL(self_, fd_, direction_, call_)                                                \
    REPEAT(self_, fd_, direction_, call_, finish_transfer)

/* A call on a blocking descriptor returns when everything is written. */
#define WRITE_ALL(self_, fd_, n_, call_)                                                           \
    TRANSFER_ALL(self_, fd_, GS_WRITE, go_on(self_, (call_), n_))

/* Of a call on a socket with the program's flags: after a part of its bytes, it ends without
 * SIGPIPE. Sends themselves have SENDING. */
static inline int gs_cc_flags_after(size_t before, int flags)
{
    return before ? flags | MSG_NOSIGNAL : flags;
}
#define SENDING (MSG_DONTWAIT | MSG_NOSIGNAL)

/* What is left of the parts behind the first `skipped` bytes, in at most PARTS of them. */
enum { PARTS = 64 };
int gs_cc_parts_after(const struct iovec *parts, size_t count, size_t skipped,
                      struct iovec *ret_left);
size_t gs_cc_length_of(const struct iovec *parts, size_t count);

#endif
