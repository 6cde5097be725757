/* Messages: with parts and descriptors, several in a call, and texts for descriptors. */
#include "compiler/runtime/io/transfer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- Receiving ---- */

static void note_received_descriptors(struct msghdr *message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = CMSG_LEN(0); at + sizeof(int) <= part->cmsg_len; at += sizeof(int)) {
            int fd;
            memcpy(&fd, (char *)part + at, sizeof fd);
            gs_cc_new_descriptor(fd, KIND_UNKNOWN);
        }
    }
}

static ssize_t try_recvmsg(int fd, struct msghdr *message, int flags)
{
    ssize_t n = negated(recvmsg(fd, message, flags | MSG_DONTWAIT));
    if (n >= 0 && message->msg_controllen)
        note_received_descriptors(message);
    return n;
}

static bool has_descriptors(struct msghdr *message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part))
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS)
            return true;
    return false;
}

/* MSG_WAITALL: what is left. The header is only written when the call is complete: its room for
 * control data is that of each part. Descriptors end a call, as in the kernel. */
static ssize_t receive_all(struct thread *self, int fd, struct msghdr *message, int flags)
{
    size_t n = gs_cc_length_of(message->msg_iov, message->msg_iovlen), before = self->progress;
    struct iovec left[PARTS];
    struct msghdr rest = *message;
    rest.msg_iov = left;
    rest.msg_iovlen =
        (size_t)gs_cc_parts_after(message->msg_iov, message->msg_iovlen, before, left);
    ssize_t got = try_recvmsg(fd, &rest, flags);
    if (got == -EAGAIN)
        return got;
    if (got > 0) {
        self->progress += (size_t)got;
        if (self->progress < n && !has_descriptors(&rest))
            return -EAGAIN;
    } else if (got < 0) {
        return got;
    }
    message->msg_namelen = rest.msg_namelen;
    message->msg_controllen = rest.msg_controllen;
    message->msg_flags = rest.msg_flags;
    return (ssize_t)self->progress;
}

static ssize_t receive_whole(struct thread *self, int fd, struct msghdr *message, int flags)
{
    TRANSFER_ALL(self, fd, GS_READ, receive_all(self, fd, message, flags));
}

ssize_t gs_cc_recvmsg(int fd, struct msghdr *message, int flags)
{
    struct thread *self = thread_self();
    if (!self || is_made_at_once(self, flags))
        return recvmsg(fd, message, flags);
    if (flags & MSG_WAITALL && !(flags & MSG_PEEK) && gs_cc_is_stream_socket(fd))
        return receive_whole(self, fd, message, flags & ~MSG_WAITALL);
    RETRY(self, fd, GS_READ, try_recvmsg(fd, message, flags));
}

/* The progress is the number of messages, which the kernel limits, and the deadline above it. The
 * time is looked at after each one, as the kernel does. */
enum { MOST_MESSAGES = 1024, DEADLINE = 4096 };

/* Without a limit: 0. */
static size_t deadline_after(const struct timespec *time)
{
    uint64_t wait_ns = gs_cc_from_clock(CLOCK_MONOTONIC, time);
    if (wait_ns == GS_NEVER)
        return 0;
    return (gs_clock_after(gs_clock_now(), wait_ns) / DEADLINE + 1) * DEADLINE;
}

static void set_time_left(uint64_t deadline_ns, struct timespec *ret_left)
{
    uint64_t now_ns = gs_clock_now();
    if (!deadline_ns)
        return;
    uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    *ret_left = (struct timespec){(time_t)(left_ns / GS_SECOND), (long)(left_ns % GS_SECOND)};
}

static size_t count_of(const struct thread *self)
{
    return self->progress % DEADLINE;
}

static int receive_more(struct thread *self, int fd, struct mmsghdr *messages, unsigned count,
                        int flags)
{
    while (count_of(self) < count) {
        struct mmsghdr *message = &messages[count_of(self)];
        ssize_t got = try_recvmsg(fd, &message->msg_hdr, flags & ~MSG_WAITFORONE);
        if (got == -EAGAIN && count_of(self) && flags & MSG_WAITFORONE)
            break;
        if (got < 0)
            return (int)got;
        message->msg_len = (unsigned)got;
        self->progress++;
        if (self->progress >= DEADLINE && is_late(self->progress / DEADLINE * DEADLINE))
            break;
    }
    return (int)count_of(self);
}

int gs_cc_recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags,
                   struct timespec *time)
{
    struct thread *self = thread_self();
    if (!self || !count || is_made_at_once(self, flags) || (time && !is_valid_time(time)))
        return recvmmsg(fd, messages, count, flags, time);
    if (gs_cc_test_cancel(self))
        return 0;
    if (self->phase == PHASE_NEW && time)
        self->progress = deadline_after(time);
    int got, err = 0;
    count = count < MOST_MESSAGES ? count : MOST_MESSAGES;
    while ((got = receive_more(self, fd, messages, count, flags)) == -EAGAIN && !err)
        if (gs_cc_block(self, fd, GS_READ, &err))
            return 0;
    if (got < 0 && count_of(self))
        got = (int)count_of(self);
    if (got > 0 && time)
        set_time_left(self->progress / DEADLINE * DEADLINE, time);
    return (int)gs_cc_result(self, got < 0 && err ? -err : got);
}

/* ---- Sending: descriptors and other control data go with the first byte ---- */

static ssize_t send_more(int fd, const struct msghdr *message, int flags, size_t before)
{
    if (!before)
        return negated(gs_cc_sent(fd, sendmsg(fd, message, flags | SENDING), flags));
    struct iovec left[PARTS];
    struct msghdr rest = {.msg_iov = left};
    rest.msg_iovlen =
        (size_t)gs_cc_parts_after(message->msg_iov, message->msg_iovlen, before, left);
    return negated(sendmsg(fd, &rest, flags | SENDING));
}

ssize_t gs_cc_sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct thread *self = thread_self();
    if (!self)
        return sendmsg(fd, message, flags);
    if (is_made_at_once(self, flags))
        return gs_cc_sent(fd, sendmsg(fd, message, flags | SENDING), flags);
    WRITE_ALL(self, fd, gs_cc_length_of(message->msg_iov, message->msg_iovlen),
              send_more(fd, message, flags, self->progress));
}

/* The progress is twice the number of messages that were sent, and one more if the length of the
 * next one is what was sent of it. */
static ssize_t send_messages(struct thread *self, int fd, struct mmsghdr *messages, unsigned count,
                             int flags)
{
    while (self->progress / 2 < count) {
        struct mmsghdr *message = &messages[self->progress / 2];
        const struct msghdr *header = &message->msg_hdr;
        unsigned before = self->progress % 2 ? message->msg_len : 0;
        ssize_t sent = send_more(fd, header, flags, before);
        if (sent < 0)
            return sent;
        message->msg_len = before + (unsigned)sent;
        bool is_whole = message->msg_len == gs_cc_length_of(header->msg_iov, header->msg_iovlen);
        self->progress = (self->progress | 1) + is_whole;
    }
    return (ssize_t)count;
}

int gs_cc_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    struct thread *self = thread_self();
    if (!self || !count)
        return sendmmsg(fd, messages, count, flags);
    if (is_made_at_once(self, flags))
        return (int)gs_cc_sent(fd, sendmmsg(fd, messages, count, flags | SENDING), flags);
    if (gs_cc_test_cancel(self))
        return 0;
    count = count < MOST_MESSAGES ? count : MOST_MESSAGES;
    ssize_t sent;
    int err = 0;
    while ((sent = send_messages(self, fd, messages, count, flags)) == -EAGAIN && !err)
        if (gs_cc_block(self, fd, GS_WRITE, &err))
            return 0;
    if (sent < 0 && self->progress)
        sent = (ssize_t)((self->progress + 1) / 2); /* the last one in part */
    return (int)gs_cc_result(self, sent < 0 && err ? -err : sent);
}

/* ---- Counters ---- */

int gs_cc_eventfd_read(int fd, eventfd_t *ret_value)
{
    return gs_cc_read(fd, ret_value, sizeof *ret_value) == sizeof *ret_value ? 0 : -1;
}

int gs_cc_eventfd_write(int fd, eventfd_t value)
{
    return gs_cc_write(fd, &value, sizeof value) == sizeof value ? 0 : -1;
}

/* ---- Formatted texts: made once, as what the arguments refer to may change meanwhile ---- */

struct text {
    char *bytes;
    size_t n, done;
};

static int finish_text(struct thread *self, struct text *text, ssize_t result)
{
    free(text->bytes);
    free(text);
    self->progress = 0;
    return (int)gs_cc_result(self, result);
}

static struct text *make_text(const char *format, va_list list)
{
    struct text *text = calloc(1, sizeof *text);
    int n = text ? vasprintf(&text->bytes, format, list) : -1;
    if (n < 0) {
        free(text);
        return NULL;
    }
    text->n = (size_t)n;
    return text;
}

static int write_text(int fd, const char *format, va_list list)
{
    struct thread *self = thread_self();
    if (!self)
        return vdprintf(fd, format, list);
    if (!self->progress && gs_cc_test_cancel(self))
        return 0;
    if (!self->progress) {
        va_list again;
        va_copy(again, list);
        self->progress = (size_t)make_text(format, list);
        int n = !self->progress && errno == ENOMEM ? vdprintf(fd, format, again) : -1;
        va_end(again);
        if (!self->progress)
            return n; /* the C library needs no memory for it, but may block */
    }
    struct text *text = (struct text *)self->progress;
    while (text->done < text->n) {
        struct iovec part = {text->bytes + text->done, text->n - text->done};
        ssize_t n = must_cancel(self) ? -ECANCELED : gs_cc_try_writev(fd, &part, 1);
        int err = n < 0 ? (int)-n : 0;
        if (n >= 0)
            text->done += (size_t)n;
        else if (n == -EAGAIN && gs_cc_block(self, fd, GS_WRITE, &err))
            return 0;
        if (err)
            return finish_text(self, text, -err);
    }
    return finish_text(self, text, (ssize_t)text->n);
}

int gs_cc_vdprintf(int fd, const char *format, va_list list)
{
    return write_text(fd, format, list);
}

int gs_cc___vdprintf_chk(int fd, int flag, const char *format, va_list list)
{
    (void)flag;
    return write_text(fd, format, list);
}

int gs_cc_dprintf(int fd, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int n = write_text(fd, format, list);
    va_end(list);
    return n;
}

int gs_cc___dprintf_chk(int fd, int flag, const char *format, ...)
{
    va_list list;
    (void)flag;
    va_start(list, format);
    int n = write_text(fd, format, list);
    va_end(list);
    return n;
}
