/* gs_recv_with: receiving into the worker's memory, for threads that have little of their own.
 *
 * The stack of a thread that waits here holds a few small frames. The receive itself and what the
 * caller does with the bytes run on the worker's stack, which is in the processor's caches from the
 * thread that used it before. */
#include "thread/io/io_call.h"
#include "thread/schedule/turn.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <stdlib.h>

#define BUFFER_SIZE 65536

/* A call of gs_recv_with, as it is carried out on the worker's stack. */
struct receiving {
    struct opened file;
    gs_received_fn *fn;
    void *data;
    ssize_t n;      /* bytes received, or -errno */
    ssize_t result; /* the result of fn, if n is not negative */
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
    const struct opened *file = &receiving->file;
    struct descriptor *descriptor = file->descriptor;
    const struct io_call call = {.direction = GS_READ, .n = BUFFER_SIZE};
    if (UNLIKELY(!opened_enter(file)))
        return -EBADF;
    descriptor_clear(descriptor, GS_READ);
    ssize_t n = gs_sys_recv(file->fd, buffer, BUFFER_SIZE, MSG_DONTWAIT);
    opened_leave(file);
    if (call_may_leave_more(&call, descriptor, n))
        gs_descriptor_set_ready(descriptor, GS_READ);
    return n;
}

static void try_receive(struct receiving *receiving, char *buffer)
{
    prefetch_data(receiving->data);
    receiving->n = receive_from_socket(receiving, buffer);
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

/* Of a call; in registers, not on the stack of a thread that waits. */
struct received {
    bool has_arrived;
    ssize_t result;
};

/* Not inline: only the caller's frame stays on the stack of a thread that waits. */
static __attribute__((noinline)) struct received
receive(const struct opened *file, gs_received_fn *fn, void *data, uint64_t deadline_ns)
{
    struct receiving receiving = {.file = *file, .fn = fn, .data = data};
    gs_thread_call_on_worker_stack(receive_with_buffer, &receiving);
    if (receiving.n == -EAGAIN || receiving.n == -EINTR)
        return (struct received){.has_arrived = false};
    if (LIKELY(receiving.n >= 0))
        turn_spend(receiving.n, deadline_ns);
    return (struct received){true, receiving.n >= 0 ? receiving.result : receiving.n};
}

/* No stack protector: its canary would be kept for each thread that waits. */
__attribute__((no_stack_protector)) ssize_t gs_recv_with(int fd, gs_received_fn *fn, void *data,
                                                         uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    struct opened file = opened(fd);
    if (UNLIKELY(!file.descriptor))
        return descriptor_error(fd);
    /* A call that does not wait asks the kernel in any case: the kernel's event may not be
     * delivered yet. */
    bool may_be_ready = !deadline_ns || descriptor_may_be_ready(file.descriptor, GS_READ);
    for (;;) {
        struct received received = {.has_arrived = false};
        if (may_be_ready)
            received = receive(&file, fn, data, deadline_ns);
        if (received.has_arrived)
            return received.result;
        int err = gs_descriptor_wait(&file, GS_READ, deadline_ns);
        if (err)
            return err;
        may_be_ready = file.has_waited = true;
    }
}
