#include "base/ring.h"

#include <errno.h>
#include <gossamer/own_descriptors.h>
#include <gossamer/sys.h>
#include <linux/time_types.h>
#include <stdlib.h>
#include <sys/mman.h>

#define OPERATIONS_MAX 256

static int call_setup(unsigned entries, unsigned flags, struct io_uring_params *ret_params)
{
    *ret_params = (struct io_uring_params){.flags = flags};
    return gs_sys_io_uring_setup(entries, ret_params);
}

/* Use the best flags that the kernel supports. */
static int open_ring(unsigned entries, unsigned flags, struct io_uring_params *ret_params)
{
    const unsigned always = IORING_SETUP_CLAMP | IORING_SETUP_SUBMIT_ALL;
    if (getenv("GOSSAMER_NO_IO_URING"))
        return -ENOSYS;
    if (flags & GS_RING_SINGLE_ISSUER) {
        /* The thread that enables the ring becomes its owner: the first one to enter it. */
        unsigned owned =
            IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_R_DISABLED;
        int fd = call_setup(entries, always | owned, ret_params);
        return fd == -EINVAL ? -ENOSYS : fd;
    }
    int fd = call_setup(entries, always | IORING_SETUP_COOP_TASKRUN, ret_params);
    if (fd == -EINVAL)
        fd = call_setup(entries, IORING_SETUP_CLAMP, ret_params);
    return fd == -EINVAL ? -ENOSYS : fd;
}

/* A filter of system calls may refuse only some. The probe finds out nothing; a ring that is
 * disabled, which the kernel notices first, is not entered. */
static bool can_be_used(int fd)
{
    _Alignas(struct io_uring_probe) char memory[sizeof(struct io_uring_probe)] = {0};
    const struct io_uring_getevents_arg none = {0};
    int entered = gs_sys_io_uring_enter(fd, 0, 0, IORING_ENTER_EXT_ARG, (void *)&none);
    return (!entered || entered == -EBADFD) &&
           !gs_sys_io_uring_register(fd, IORING_REGISTER_PROBE, memory, 0);
}

static int map(int fd, size_t size, uint64_t offset, void **ret_memory)
{
    long address = gs_sys_mmap_shared(fd, size, (off_t)offset);
    if (address < 0 && address > -4096)
        return (int)address;
    *ret_memory = (void *)address;
    return 0;
}

static size_t sqes_size(const struct gs_ring *ring)
{
    return ring->sq_count * sizeof *ring->sqes;
}

static void use_queues(struct gs_ring *ring, const struct io_uring_params *params)
{
    char *queues = ring->queues;
    ring->sq_head = (void *)(queues + params->sq_off.head);
    ring->sq_tail = (void *)(queues + params->sq_off.tail);
    ring->cq_head = (void *)(queues + params->cq_off.head);
    ring->cq_tail = (void *)(queues + params->cq_off.tail);
    ring->cqes = (void *)(queues + params->cq_off.cqes);
    ring->cq_mask = params->cq_entries - 1;
    uint32_t *order = (void *)(queues + params->sq_off.array);
    for (uint32_t i = 0; i < ring->sq_count; i++)
        order[i] = i;
}

static int map_queues(struct gs_ring *ring, const struct io_uring_params *params)
{
    size_t sq_size = params->sq_off.array + params->sq_entries * sizeof(uint32_t);
    size_t cq_size = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);
    ring->queues_size = sq_size > cq_size ? sq_size : cq_size;
    int err = map(ring->fd, ring->queues_size, IORING_OFF_SQ_RING, &ring->queues);
    if (err)
        return err;
    void *sqes;
    err = map(ring->fd, sqes_size(ring), IORING_OFF_SQES, &sqes);
    if (err) {
        gs_sys_munmap(ring->queues, ring->queues_size);
        return err;
    }
    ring->sqes = sqes;
    use_queues(ring, params);
    return 0;
}

int gs_ring_init(struct gs_ring *ring, unsigned entries, unsigned flags)
{
    const unsigned needed = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG;
    struct io_uring_params params = {0};
    int fd = gs_own_descriptor(open_ring(entries, flags, &params));
    if (fd < 0)
        return fd;
    *ring = (struct gs_ring){
        .fd = fd,
        .features = params.features,
        .setup = params.flags,
        .sq_count = params.sq_entries,
    };
    bool is_usable = (params.features & needed) == needed && can_be_used(fd);
    int err = is_usable ? map_queues(ring, &params) : -ENOSYS;
    if (err)
        gs_own_descriptor_close(fd);
    return err;
}

void gs_ring_done(struct gs_ring *ring)
{
    gs_sys_munmap(ring->sqes, sqes_size(ring));
    gs_sys_munmap(ring->queues, ring->queues_size);
    gs_own_descriptor_close(ring->fd);
}

bool gs_ring_supports(const struct gs_ring *ring, const uint8_t *operations, unsigned count)
{
    _Alignas(struct io_uring_probe) char
        memory[sizeof(struct io_uring_probe) + OPERATIONS_MAX * sizeof(struct io_uring_probe_op)];
    struct io_uring_probe *probe = memset(memory, 0, sizeof memory);
    if (gs_sys_io_uring_register(ring->fd, IORING_REGISTER_PROBE, probe, OPERATIONS_MAX))
        return false;
    for (unsigned i = 0; i < count; i++)
        if (!(probe->ops[operations[i]].flags & IO_URING_OP_SUPPORTED))
            return false;
    return true;
}

/* The calling thread becomes the owner. */
static int enable(struct gs_ring *ring)
{
    int err = gs_sys_io_uring_register(ring->fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
    if (!err)
        ring->setup &= ~(uint32_t)IORING_SETUP_R_DISABLED;
    return err;
}

int gs_ring_enter(struct gs_ring *ring, unsigned count, uint64_t timeout_ns)
{
    struct __kernel_timespec timeout = {
        .tv_sec = (long long)(timeout_ns / 1000000000),
        .tv_nsec = (long long)(timeout_ns % 1000000000),
    };
    struct io_uring_getevents_arg argument = {
        .sigmask_sz = 8,
        .ts = timeout_ns == UINT64_MAX ? 0 : (uintptr_t)&timeout,
    };
    if (__builtin_expect(ring->setup & IORING_SETUP_R_DISABLED, 0)) {
        int err = enable(ring);
        if (err)
            return err;
    }
    unsigned submit = gs_ring_unsubmitted(ring);
    /* Release: pairs with the kernel's acquire of the tail, publishing the entries. */
    atomic_store_explicit(ring->sq_tail, ring->tail, memory_order_release);
    int result = gs_sys_io_uring_enter(ring->fd, submit, timeout_ns ? count : 0,
                                       IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &argument);
    switch (result) {
    case -EINTR:
    case -ETIME:
    case -EAGAIN:
    case -EBUSY:
        return 0;
    default:
        return result < 0 ? result : 0;
    }
}

int gs_ring_cancel_all(struct gs_ring *ring)
{
    struct io_uring_sync_cancel_reg cancel = {
        .fd = -1,
        .flags = IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL,
        .timeout = {.tv_sec = -1, .tv_nsec = -1},
    };
    if (ring->setup & IORING_SETUP_R_DISABLED)
        return 0;
    int result;
    do
        result = gs_sys_io_uring_register(ring->fd, IORING_REGISTER_SYNC_CANCEL, &cancel, 1);
    while (result == -EINTR);
    if (result < 0 && result != -ENOENT)
        return result;
    /* With IORING_SETUP_DEFER_TASKRUN, completions are posted only now. Since Linux 6.13 one call
     * posts 20, or as many as it waits for; hence the shortest wait for as many as there is room
     * for. */
    return gs_ring_enter(ring, ring->cq_mask + 1, 1);
}

/* ---- Buffers ---- */

static size_t queue_size(const struct gs_ring_buffers *buffers)
{
    return (buffers->count * sizeof(struct io_uring_buf) + 4095) & ~(size_t)4095;
}

static size_t memory_size(const struct gs_ring_buffers *buffers)
{
    return queue_size(buffers) + (size_t)buffers->count * buffers->size;
}

int gs_ring_new_buffers(struct gs_ring_buffers *buffers)
{
    long address = gs_sys_mmap(NULL, memory_size(buffers), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (address < 0 && address > -4096)
        return -ENOMEM;
    buffers->queue = (void *)address;
    buffers->bytes = (uint8_t *)address + queue_size(buffers);
    return 0;
}

void gs_ring_free_buffers(struct gs_ring_buffers *buffers)
{
    gs_sys_munmap(buffers->queue, memory_size(buffers));
}

int gs_ring_register_buffers(struct gs_ring *ring, struct gs_ring_buffers *buffers)
{
    struct io_uring_buf_reg argument = {
        .ring_addr = (uintptr_t)buffers->queue,
        .ring_entries = buffers->count,
        .bgid = buffers->group,
    };
    buffers->tail = 0;
    buffers->queue->tail = 0;
    int err = gs_sys_io_uring_register(ring->fd, IORING_REGISTER_PBUF_RING, &argument, 1);
    return err == -EINVAL ? -ENOSYS : err;
}

void gs_ring_return_buffer(struct gs_ring_buffers *buffers, unsigned number)
{
    struct io_uring_buf *slot = &buffers->queue->bufs[buffers->tail & (buffers->count - 1)];
    slot->addr = (uintptr_t)gs_ring_buffer(buffers, number);
    slot->len = buffers->size;
    slot->bid = (uint16_t)number;
    /* Release: pairs with the kernel's acquire of the tail, publishing the buffer. */
    atomic_store_explicit((_Atomic(uint16_t) *)&buffers->queue->tail, ++buffers->tail,
                          memory_order_release);
}
