#include "thread/descriptors.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/stat.h>

#define PER_CHUNK 1024u
#define CHUNKS 4096u

static struct descriptor *_Atomic chunks[CHUNKS];

static struct descriptor *new_chunk(unsigned index)
{
    struct descriptor *chunk = calloc(PER_CHUNK, sizeof *chunk), *none = NULL;
    if (!chunk)
        return NULL;
    for (unsigned i = 0; i < PER_CHUNK; i++)
        atomic_init(&chunk[i].perhaps, GS_READ | GS_WRITE);
    if (atomic_compare_exchange_strong(&chunks[index], &none, chunk))
        return chunk;
    free(chunk);
    return none;
}

struct descriptor *gs_descriptor(int fd)
{
    if (UNLIKELY(fd < 0 || (unsigned)fd >= CHUNKS * PER_CHUNK))
        return NULL;
    unsigned index = (unsigned)fd / PER_CHUNK;
    struct descriptor *chunk = atomic_load_explicit(&chunks[index], memory_order_acquire);
    if (UNLIKELY(!chunk))
        chunk = new_chunk(index);
    return chunk ? &chunk[(unsigned)fd % PER_CHUNK] : NULL;
}

void gs_descriptors_done(void)
{
    for (unsigned i = 0; i < CHUNKS; i++) {
        free(atomic_load(&chunks[i]));
        atomic_store(&chunks[i], NULL);
    }
}

static enum descriptor_kind find_kind(int fd)
{
    struct stat stat;
    int protocol = 0;
    socklen_t length = sizeof protocol;
    if (!gs_sys_getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length))
        return protocol == IPPROTO_TCP ? KIND_TCP : KIND_WAITABLE;
    if (gs_sys_fstat(fd, &stat))
        return KIND_UNKNOWN;
    return S_ISREG(stat.st_mode) || S_ISDIR(stat.st_mode) || S_ISBLK(stat.st_mode) ? KIND_REGULAR
                                                                                   : KIND_WAITABLE;
}

enum descriptor_kind gs_descriptor_kind(struct descriptor *descriptor, int fd)
{
    unsigned char kind = atomic_load_explicit(&descriptor->kind, memory_order_relaxed);
    if (kind == KIND_UNKNOWN) {
        kind = (unsigned char)find_kind(fd);
        atomic_store_explicit(&descriptor->kind, kind, memory_order_relaxed);
    }
    return (enum descriptor_kind)kind;
}

/* ---- Reports of the kernel: on the owner ---- */

static void wake_all(struct gs_wait_queue *queue, int value)
{
    struct gs_waiter *waiter;
    while ((waiter = queue->first)) {
        waiters_remove(queue, waiter);
        waiter->value = value;
        if (waiter->item)
            gs_poll_report(waiter->item);
        else if (thread_claim(waiter->thread, CLAIM_WOKEN))
            thread_ready(worker_current(), waiter->thread);
    }
}

static void on_events(struct gs_io *io, unsigned events)
{
    struct descriptor *descriptor = gs_container_of(io, struct descriptor, io);
    int err = events & GS_FAILED ? gs_io_error(io) : 0;
    spin_lock(&descriptor->lock);
    if (err)
        atomic_store(&descriptor->owner, NULL);
    if (events & GS_HANGUP)
        atomic_store_explicit(&descriptor->is_hung_up, true, memory_order_relaxed);
    if (err || events & (GS_READ | GS_HANGUP)) {
        descriptor_set(descriptor, GS_READ);
        wake_all(&descriptor->readers, err);
    }
    if (err || events & GS_WRITE) {
        descriptor_set(descriptor, GS_WRITE);
        wake_all(&descriptor->writers, err);
    }
    spin_unlock(&descriptor->lock);
}

/* ---- Waiting ---- */

/* The lock is held. The kernel reports soon what is so now. */
static int watch(struct descriptor *descriptor, int fd)
{
    struct worker *worker = worker_current();
    gs_io_init(&descriptor->io, worker->loop, on_events);
    gs_io_set(&descriptor->io, fd, GS_READ | GS_WRITE | GS_EDGE);
    int err = gs_io_start(&descriptor->io);
    if (err)
        return err;
    atomic_store(&descriptor->perhaps, 0);
    atomic_store(&descriptor->owner, worker);
    return 0;
}

int gs_descriptor_watch(struct descriptor *descriptor, int fd)
{
    return atomic_load_explicit(&descriptor->owner, memory_order_relaxed) ? 0
                                                                          : watch(descriptor, fd);
}

int gs_descriptor_wait(struct descriptor *descriptor, int fd, unsigned direction,
                       uint64_t deadline_ns)
{
    static const struct wait_kind reading = {"readable", true}, writing = {"writable", true};
    bool is_read = direction == GS_READ;
    const struct wait wait = {is_read ? &reading : &writing, (const void *)(intptr_t)fd,
                              deadline_ns, false};
    struct gs_waiter waiter = {0};
    int err = 0;
    spin_lock(&descriptor->lock);
    bool is_watched = atomic_load_explicit(&descriptor->owner, memory_order_relaxed);
    if (!is_watched && deadline_ns)
        err = watch(descriptor, fd);
    if (err || (is_watched && descriptor_is_worth(descriptor, direction))) {
        descriptor_clear(descriptor, direction);
        spin_unlock(&descriptor->lock);
        return err;
    }
    err = gs_waiters_wait(is_read ? &descriptor->readers : &descriptor->writers, &waiter,
                          &descriptor->lock, &wait);
    return err ? err : (int)waiter.value;
}

/* ---- The end of a descriptor ---- */

/* On the owner, or where there is none. */
static void forget(struct descriptor *descriptor, int fd)
{
    spin_lock(&descriptor->lock);
    struct worker *owner = atomic_load(&descriptor->owner);
    if (owner) {
        gs_io_stop(&descriptor->io);
        gs_loop_fd_closed(owner->loop, fd);
    }
    atomic_store(&descriptor->owner, NULL);
    atomic_store(&descriptor->perhaps, GS_READ | GS_WRITE);
    atomic_store(&descriptor->kind, KIND_UNKNOWN);
    atomic_store(&descriptor->is_hung_up, false);
    atomic_store(&descriptor->is_nonblocking, false);
    wake_all(&descriptor->readers, -EBADF);
    wake_all(&descriptor->writers, -EBADF);
    spin_unlock(&descriptor->lock);
}

/* A message to the owner, on the stack of the thread that waits for it. */
struct request {
    struct runnable runnable;
    struct gs_thread *thread;
    struct descriptor *descriptor;
    struct worker *owner;
    int fd;
};

static void forget_for(struct worker *worker, struct runnable *runnable)
{
    struct request *request = gs_container_of(runnable, struct request, runnable);
    struct gs_thread *thread = request->thread;
    forget(request->descriptor, request->fd);
    if (thread_claim(thread, CLAIM_WOKEN))
        thread_ready(worker, thread);
}

static void send_request(void *argument)
{
    struct request *request = argument;
    gs_worker_send(request->owner, &request->runnable);
}

void gs_forget(int fd)
{
    static const struct wait_kind closing = {"another worker to forget a descriptor", true};
    const struct wait wait = {&closing, (const void *)(intptr_t)fd, GS_NEVER, true};
    struct descriptor *descriptor = gs_descriptor(fd);
    if (!descriptor)
        return;
    struct gs_thread *self = thread_current();
    struct worker *owner = atomic_load(&descriptor->owner);
    if (!owner || owner == self->worker) {
        forget(descriptor, fd);
        return;
    }
    struct request request = {
        .runnable = {.item.priority = GS_PRIORITY_HIGH, .resume = forget_for},
        .thread = self,
        .descriptor = descriptor,
        .owner = owner,
        .fd = fd,
    };
    (void)gs_thread_wait_then(self, send_request, &request, &wait);
}

void gs_descriptor_reset(struct descriptor *descriptor, int fd, enum descriptor_kind kind)
{
    if (UNLIKELY(atomic_load_explicit(&descriptor->owner, memory_order_relaxed)))
        gs_forget(fd); /* closed behind our back */
    atomic_store_explicit(&descriptor->perhaps, GS_READ | GS_WRITE, memory_order_relaxed);
    atomic_store_explicit(&descriptor->is_hung_up, false, memory_order_relaxed);
    atomic_store_explicit(&descriptor->kind, (unsigned char)kind, memory_order_relaxed);
}

int gs_close(int fd)
{
    gs_forget(fd);
    return gs_sys_close(fd);
}
