/* How a call on a descriptor is made so that it does not block the worker. */
#ifndef GS_COMPILER_DESCRIPTOR_H
#define GS_COMPILER_DESCRIPTOR_H

#include "compiler/runtime/threads/thread.h"

#include <gossamer/loop_io.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum kind {
    KIND_UNKNOWN,
    KIND_SOCKET, /* by MSG_DONTWAIT */
    KIND_PIPE,   /* by RWF_NOWAIT */
    KIND_POLLED, /* when it is ready */
    KIND_PLAIN,  /* it never blocks for long, or cannot be polled */
};

enum kind gs_cc_kind(int fd);

bool gs_cc_is_stream_socket(int fd);

/* fd has just been made; negative: it was not. */
void gs_cc_new_descriptor(int fd, enum kind kind);

/* Whether anything is remembered of a number below this one. */
#define GS_CC_DESCRIPTORS (1u << 20)
bool gs_cc_is_known(int fd);

/* The number is free, or means another file. */
void gs_cc_forget_kind(int fd);

/* The program has changed whether calls block, or for how long, for some descriptor. */
void gs_cc_forget_modes(void);

/* As readv and writev, or -errno; -EAGAIN: it would block. */
ssize_t gs_cc_try_readv(int fd, const struct iovec *parts, int count);
ssize_t gs_cc_try_writev(int fd, const struct iovec *parts, int count);

/* The result of a send with MSG_NOSIGNAL, as send returns it: does what the kernel would have done
 * with these flags. */
ssize_t gs_cc_sent(int fd, ssize_t result, int flags);

/* Whether a call that would block waits without a limit, and the kernel need not be asked. */
bool gs_cc_is_known_to_block(int fd, unsigned direction);

/* For how long a call may wait (SO_RCVTIMEO, SO_SNDTIMEO); GS_NEVER: without a limit. */
uint64_t gs_cc_limit_of(int fd, unsigned direction);

/* Begin to wait for so long, and until a signal comes. */
void gs_cc_begin_limited_wait(struct thread *self, uint64_t limit_ns);

/* Until when; GS_NEVER: without a limit. */
static inline uint64_t limited_until(const struct thread *self)
{
    return self->extra && self->extra->deadline_ns ? self->extra->deadline_ns : GS_NEVER;
}

/* What a call does that would block: returns true if the caller must return; otherwise *ret_err is
 * 0 (try again) or the error of the call. The error is EAGAIN if the program has made the
 * descriptor non-blocking, or its time limit (SO_RCVTIMEO, SO_SNDTIMEO) is over. */
bool gs_cc_block(struct thread *self, int fd, unsigned direction, int *ret_err);

/* Returns the result, or -1 with errno set; the call is complete. */
ssize_t gs_cc_result(struct thread *self, ssize_t result);

#endif
