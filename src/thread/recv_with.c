/* gs_recv_with: receiving into the worker's memory, for threads that have little of their own.
 *
 * The stack of a thread that waits here holds a few small frames; with io_uring, also a buffer of
 * the size of a usual request, unless the ring receives ahead. The receive itself and what the
 * caller does with the bytes run on the worker's stack, which is in the processor's caches from the
 * thread that used it before. */
#include "thread/descriptors.h"
#include "thread/receive_ahead.h"
#include "thread/socket_ring.h"
#include "thread/turn.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <sys/uio.h>

#define BUFFER_SIZE 65536

/* What the kernel receives while the thread waits (io_uring) is stored on the thread's stack: it is
 * the size of a usual request. What is longer is received by the calls that follow. */
#define STACK_BUFFER_SIZE 1024

/* A call of gs_recv_with, as it is carried out on the worker's stack. */
struct receiving {
    int fd;
    struct descriptor *descriptor;
    struct ahead *ahead; /* it has something; NULL: to be received from the socket */
    gs_received_fn *fn;
    void *data;
    const char *bytes; /* NULL: to be received */
    ssize_t n;         /* bytes received, or -errno */
    ssize_t result;    /* the result of fn, if n is not negative */
};

/* What fn uses is usually a structure at `data` that has left the cache: it comes back while the
 * kernel receives. `data` may be anything, also NULL: addresses are computed as integers. */
#define DATA_LINES 4u
static inline __attribute__((always_inline)) void prefetch_data(const void *data)
{
    for (unsigned line = 0; line < DATA_LINES; line++)
        __builtin_prefetch((const void *)((uintptr_t)data + (uintptr_t)line * 64), 1);
}

static ssize_t receive_from_socket(struct receiving *receiving, char *buffer)
{
    struct descriptor *descriptor = receiving->descriptor;
    const struct io_call call = {.direction = GS_READ, .n = BUFFER_SIZE};
    descriptor_clear(descriptor, GS_READ);
    ssize_t n = gs_sys_recv(receiving->fd, buffer, BUFFER_SIZE, MSG_DONTWAIT);
    if (call_may_leave_more(&call, descriptor, n))
        gs_descriptor_set_ready(descriptor, GS_READ);
    return n;
}

static void try_receive(struct receiving *receiving, char *buffer)
{
    const struct iovec whole = {.iov_base = buffer, .iov_len = BUFFER_SIZE};
    prefetch_data(receiving->data);
    receiving->n = UNLIKELY(receiving->ahead) ? gs_ahead_take(receiving->ahead, &whole, 1, 0)
                                              : receive_from_socket(receiving, buffer);
    if (receiving->n >= 0)
        receiving->result = receiving->fn(receiving->data, buffer, (size_t)receiving->n);
}

/* The worker has one buffer, made at its first use. A call within fn gets another. */
static void *receive_with_buffer(void *argument)
{
    struct receiving *receiving = argument;
    struct worker *worker = worker_current();
    char *buffer = worker->receive_buffer ? worker->receive_buffer : malloc(BUFFER_SIZE);
    if (UNLIKELY(!buffer)) {
        receiving->n = -ENOMEM;
        return NULL;
    }
    worker->receive_buffer = NULL;
    try_receive(receiving, buffer);
    if (UNLIKELY(worker->receive_buffer))
        free(buffer);
    else
        worker->receive_buffer = buffer;
    return NULL;
}

static void *call_fn(void *argument)
{
    struct receiving *receiving = argument;
    receiving->result = receiving->fn(receiving->data, receiving->bytes, (size_t)receiving->n);
    return NULL;
}

/* Have the kernel receive. A frame of its own, so that the bytes are on the stack only here. */
static __attribute__((noinline)) ssize_t receive_by_ring(struct receiving *receiving,
                                                         uint64_t deadline_ns)
{
    char bytes[STACK_BUFFER_SIZE];
    receiving->bytes = bytes;
    receiving->n = gs_recv(receiving->fd, bytes, sizeof bytes, 0, deadline_ns);
    if (receiving->n >= 0)
        gs_thread_call_on_worker_stack(call_fn, receiving);
    receiving->bytes = NULL;
    return receiving->n < 0 ? receiving->n : receiving->result;
}

/* Count the call (turn.h), and return its result. */
static inline ssize_t count_and_return(const struct receiving *receiving, uint64_t deadline_ns)
{
    turn_spend(receiving->n, deadline_ns);
    return receiving->result;
}

/* What the ring has received is used where it is. */
static void *receive_from_ring(void *argument)
{
    struct receiving *receiving = argument;
    prefetch_data(receiving->data);
    const struct ahead_buffer buffer = gs_ahead_take_buffer(receiving->ahead);
    receiving->n = (ssize_t)buffer.n;
    receiving->result = receiving->fn(receiving->data, buffer.bytes, buffer.n);
    gs_ahead_release_buffer(&buffer);
    return NULL;
}

/* Wait, where the kernel may receive ahead. Returns 0, 1 (the socket may be ready) or -errno. */
static int wait_ahead(const struct receiving *receiving, struct ahead *ahead, int state,
                      uint64_t deadline_ns)
{
    struct descriptor *descriptor = receiving->descriptor;
    if (state == AHEAD_NOTHING && ahead && deadline_ns && !descriptor_is_watched(descriptor)) {
        state = gs_ahead_start(ahead, receiving->fd);
        if (state >= AHEAD_NOTHING && state != AHEAD_COMING)
            return 0;
    }
    if (state == AHEAD_COMING)
        return gs_ahead_wait(descriptor, ahead, receiving->fd, deadline_ns);
    int err = gs_descriptor_wait(descriptor, receiving->fd, GS_READ, deadline_ns);
    return err ? err : 1;
}

/* gs_recv_with for a socket of gs_recv_ahead. */
static __attribute__((noinline)) ssize_t receive_ahead(struct receiving *receiving,
                                                       uint64_t deadline_ns)
{
    struct descriptor *descriptor = receiving->descriptor;
    int may_be_ready = !deadline_ns;
    do {
        struct ahead *ahead;
        int state = gs_ahead_look(descriptor, !deadline_ns, &ahead);
        if (state < 0)
            return state;
        may_be_ready |= descriptor_may_be_ready(descriptor, GS_READ);
        if (state >= AHEAD_BUFFER || (state == AHEAD_NOTHING && may_be_ready)) {
            receiving->ahead = state == AHEAD_NOTHING ? NULL : ahead;
            gs_thread_call_on_worker_stack(
                LIKELY(state == AHEAD_BUFFER) ? receive_from_ring : receive_with_buffer, receiving);
            if (LIKELY(receiving->n >= 0))
                return count_and_return(receiving, deadline_ns);
            if (receiving->n != -EAGAIN && receiving->n != -EINTR)
                return receiving->n;
        }
        may_be_ready = wait_ahead(receiving, ahead, state, deadline_ns);
    } while (may_be_ready >= 0);
    return may_be_ready;
}

ssize_t gs_recv_with(int fd, gs_received_fn *fn, void *data, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    static const struct io_call wanted = {
        .operation = IORING_OP_RECV, .direction = GS_READ, .n = STACK_BUFFER_SIZE};
    struct receiving receiving = {
        .fd = fd, .descriptor = gs_descriptor(fd), .fn = fn, .data = data};
    if (UNLIKELY(!receiving.descriptor))
        return descriptor_error(fd);
    if (UNLIKELY(descriptor_has_ahead(receiving.descriptor)))
        return receive_ahead(&receiving, deadline_ns);
    /* A call that does not wait asks the kernel in any case: the kernel's event may not be
     * delivered yet. */
    bool may_be_ready = !deadline_ns || descriptor_may_be_ready(receiving.descriptor, GS_READ);
    for (;;) {
        if (may_be_ready) {
            gs_thread_call_on_worker_stack(receive_with_buffer, &receiving);
            if (LIKELY(receiving.n >= 0))
                return count_and_return(&receiving, deadline_ns);
            if (receiving.n != -EAGAIN && receiving.n != -EINTR)
                return receiving.n;
        }
        if (deadline_ns && !descriptor_is_watched(receiving.descriptor) &&
            gs_socket_ring_can_run(&wanted, receiving.descriptor))
            return receive_by_ring(&receiving, deadline_ns);
        int err = gs_descriptor_wait(receiving.descriptor, fd, GS_READ, deadline_ns);
        if (err)
            return err;
        may_be_ready = true;
    }
}
