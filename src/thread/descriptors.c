#include "thread/descriptors.h"
#include "thread/wait.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/stat.h>

#define PER_CHUNK 1024u
#define CHUNKS 4096u

/* Of the reports that are told one after the other, how far ahead memory is fetched. */
#define TOLD_AHEAD 4u

static struct descriptor *_Atomic chunks[CHUNKS];

static struct descriptor *new_chunk(unsigned index)
{
    struct descriptor *none = NULL, *chunk = aligned_alloc(_Alignof(struct descriptor),
                                                           PER_CHUNK * sizeof *chunk);
    if (!chunk)
        return NULL;
    for (unsigned i = 0; i < PER_CHUNK; i++)
        chunk[i] = (struct descriptor){.perhaps = GS_READ | GS_WRITE};
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
        struct descriptor *chunk = atomic_load(&chunks[i]);
        for (unsigned k = 0; chunk && k < PER_CHUNK; k++)
            if (atomic_load(&chunk[k].owner) && chunk[k].watch != &chunk[k].first)
                free(chunk[k].watch);
        free(chunk);
        atomic_store(&chunks[i], NULL);
    }
}

/* No loop watches any more, and nobody waits. What was being changed just then is lost. */
static void forget_owner(struct descriptor *descriptor, int fd, void *data)
{
    (void)fd, (void)data;
    bool is_sound = !atomic_load(&descriptor->lock.held);
    if (is_sound && atomic_load(&descriptor->owner) && descriptor->watch != &descriptor->first)
        free(descriptor->watch);
    atomic_store(&descriptor->lock.held, false);
    atomic_store(&descriptor->perhaps, GS_READ | GS_WRITE);
    atomic_store(&descriptor->is_first_used, false);
    atomic_store(&descriptor->owner, NULL);
    descriptor->readers = descriptor->writers = (struct gs_wait_queue){.first = NULL};
}

void gs_descriptors_each(void (*visit)(struct descriptor *descriptor, int fd, void *data),
                         void *data)
{
    for (unsigned i = 0; i < CHUNKS; i++) {
        struct descriptor *chunk = atomic_load_explicit(&chunks[i], memory_order_acquire);
        for (unsigned k = 0; chunk && k < PER_CHUNK; k++)
            visit(&chunk[k], (int)(i * PER_CHUNK + k), data);
    }
}

void gs_descriptors_forked(void)
{
    gs_descriptors_each(forget_owner, NULL);
}

static enum descriptor_kind find_kind(struct descriptor *descriptor, int fd)
{
    struct stat stat;
    int protocol = 0;
    socklen_t length = sizeof protocol;
    if (!gs_sys_getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length))
        return protocol == IPPROTO_TCP ? KIND_TCP : KIND_WAITABLE;
    if (gs_sys_fstat(fd, &stat))
        return KIND_UNKNOWN;
    atomic_store_explicit(&descriptor->file, (unsigned char)((stat.st_ino ^ stat.st_dev) % 251),
                          memory_order_relaxed);
    return S_ISREG(stat.st_mode) || S_ISDIR(stat.st_mode) || S_ISBLK(stat.st_mode) ? KIND_REGULAR
                                                                                   : KIND_WAITABLE;
}

enum descriptor_kind gs_descriptor_kind(struct descriptor *descriptor, int fd)
{
    unsigned char kind = atomic_load_explicit(&descriptor->kind, memory_order_relaxed);
    if (kind == KIND_UNKNOWN) {
        kind = (unsigned char)find_kind(descriptor, fd);
        atomic_store_explicit(&descriptor->kind, kind, memory_order_relaxed);
    }
    return (enum descriptor_kind)kind;
}

/* ---- Watches ---- */

static struct descriptor *descriptor_of(const struct watch *watch)
{
    return watch->io.watcher.data;
}

/* The lock is held. Returns NULL without memory. */
static struct watch *new_watch(struct descriptor *descriptor)
{
    struct watch *watch = &descriptor->first;
    /* Acquire: pairs with the release in free_watch. */
    if (UNLIKELY(atomic_load_explicit(&descriptor->is_first_used, memory_order_acquire)))
        watch = malloc(sizeof *watch);
    else
        atomic_store_explicit(&descriptor->is_first_used, true, memory_order_relaxed);
    return watch;
}

static void free_watch(struct descriptor *descriptor, struct watch *watch)
{
    if (LIKELY(watch == &descriptor->first))
        atomic_store_explicit(&descriptor->is_first_used, false, memory_order_release);
    else
        free(watch);
}

/* Of the worker that runs. */
static void stop_watch(struct watch *watch, bool is_closed)
{
    struct gs_loop *loop = watch->io.watcher.loop;
    int fd = watch->io.fd;
    gs_io_stop(&watch->io);
    if (is_closed)
        gs_loop_fd_closed(loop, fd);
    free_watch(descriptor_of(watch), watch);
}

void gs_descriptors_retire(struct worker *worker)
{
    /* Acquire: pairs with the exchange in relinquish, publishing the links. */
    struct watch *watch =
        atomic_exchange_explicit(&worker->relinquished, NULL, memory_order_acquire);
    while (watch) {
        struct watch *next = watch->next;
        stop_watch(watch, watch->is_closed);
        watch = next;
    }
}

/* The watch is another worker's. The lock is held. */
static void relinquish(struct worker *owner, struct watch *watch, bool is_closed)
{
    watch->is_closed = is_closed;
    watch->next = atomic_load_explicit(&owner->relinquished, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&owner->relinquished, &watch->next, watch))
        ;
    if (is_closed && gs_loop_holds_files(owner->loop))
        gs_loop_wake(owner->loop);
}

/* Nobody watches any more. The lock is held. */
static void unwatch(struct descriptor *descriptor, bool is_closed)
{
    struct worker *owner = atomic_load_explicit(&descriptor->owner, memory_order_relaxed);
    if (!owner)
        return;
    atomic_store(&descriptor->owner, NULL);
    if (owner == worker_current())
        stop_watch(descriptor->watch, is_closed);
    else
        relinquish(owner, descriptor->watch, is_closed);
}

/* ---- Reports of the kernel ---- */

/* worker: the caller; NULL: it is none. Threads are claimed with the outcome. */
static void wake_all(struct worker *worker, struct gs_wait_queue *queue, int outcome)
{
    struct gs_waiter *waiter;
    while ((waiter = queue->first)) {
        struct gs_thread *thread = waiter->thread;
        waiters_remove(queue, waiter);
        if (UNLIKELY(!thread))
            gs_poll_report(worker, waiter->item);
        else if (thread_claim(thread, outcome))
            thread_ready_by(worker, thread);
    }
}

void gs_descriptor_report(struct worker *worker, struct descriptor *descriptor, unsigned events,
                          int err)
{
    if (events & GS_HANGUP)
        atomic_store_explicit(&descriptor->is_hung_up, true, memory_order_relaxed);
    if (err || events & (GS_READ | GS_HANGUP)) {
        descriptor_set(descriptor, GS_READ);
        wake_all(worker, &descriptor->readers, err);
    }
    if (err || events & GS_WRITE) {
        descriptor_set(descriptor, GS_WRITE);
        wake_all(worker, &descriptor->writers, err);
    }
}

/* By the owner, or a worker that has been. */
static void tell(struct worker *worker, const struct watch *watch, unsigned events, int err)
{
    struct descriptor *descriptor = descriptor_of(watch);
    spin_lock(&descriptor->lock);
    if (LIKELY(atomic_load_explicit(&descriptor->owner, memory_order_relaxed) == worker &&
               descriptor->watch == watch)) {
        if (err)
            unwatch(descriptor, false);
        gs_descriptor_report(worker, descriptor, events, err);
    }
    spin_unlock(&descriptor->lock);
}

/* Who waits there has left the cache, and is touched in a few reports' time. Without the lock: only the address counts. */
NOT_FOR_TSAN static void prefetch_reader(const struct watch *watch)
{
    const struct descriptor *descriptor = watch->io.watcher.data;
    struct gs_waiter *waiter = *(struct gs_waiter *const volatile *)&descriptor->readers.first;
    if (waiter)
        thread_prefetch(gs_container_of(waiter, struct gs_thread, waiter));
}

void gs_descriptors_tell(struct worker *worker)
{
    struct reports *reports = &worker->reports;
    for (unsigned i = 0; i < reports->count; i++) {
        if (i + TOLD_AHEAD < reports->count)
            prefetch_reader(reports->each[i + TOLD_AHEAD].watch);
        tell(worker, reports->each[i].watch, reports->each[i].events, 0);
    }
    reports->count = 0;
}

/* The watch stays until it is told: only this worker stops it, and not within a step of its loop. */
static void on_events(struct gs_io *io, unsigned events)
{
    struct watch *watch = gs_container_of(io, struct watch, io);
    struct worker *worker = worker_current();
    struct reports *reports = &worker->reports;
    if (UNLIKELY(reports->count == REPORTS_MOST || events & GS_FAILED))
        gs_descriptors_tell(worker);
    if (UNLIKELY(events & GS_FAILED)) {
        tell(worker, watch, events, gs_io_error(io));
        return;
    }
    __builtin_prefetch(descriptor_of(watch), 1);
    reports->each[reports->count].watch = watch;
    reports->each[reports->count++].events = events;
}

/* ---- Waiting ---- */

/* The lock is held. The kernel reports soon what is so now. */
static int watch(struct descriptor *descriptor, int fd)
{
    struct worker *worker = worker_current();
    /* One of the same number may be among them. */
    if (UNLIKELY(atomic_load_explicit(&worker->relinquished, memory_order_relaxed)))
        gs_descriptors_retire(worker);
    struct watch *watch = new_watch(descriptor);
    if (!watch)
        return -ENOMEM;
    gs_descriptor_kind(descriptor, fd); /* of a TCP socket, reads then need not be tried in vain */
    gs_io_init(&watch->io, worker->loop, on_events);
    gs_io_set(&watch->io, fd, GS_READ | GS_WRITE | GS_EDGE);
    watch->io.watcher.data = descriptor;
    int err = gs_io_start(&watch->io);
    if (err) {
        free_watch(descriptor, watch);
        return err;
    }
    atomic_store(&descriptor->perhaps, 0);
    descriptor->watch = watch;
    atomic_store(&descriptor->owner, worker);
    return 0;
}

int gs_descriptor_watch(struct descriptor *descriptor, int fd)
{
    struct worker *owner = atomic_load_explicit(&descriptor->owner, memory_order_relaxed);
    if (LIKELY(owner && (owner == worker_current() ||
                         !atomic_load_explicit(&owner->is_stuck, memory_order_relaxed))))
        return 0;
    unwatch(descriptor, false); /* its worker is stuck */
    return watch(descriptor, fd);
}

static void *readers_at(const void *fd)
{
    return gs_descriptor((int)(intptr_t)fd);
}

static const struct wait_kind reading = {.what = "readable",
                                         .is_outside = true,
                                         .object = readers_at,
                                         WAITS_IN(descriptor, readers)},
                              writing = {.what = "writable",
                                         .is_outside = true,
                                         .object = readers_at,
                                         WAITS_IN(descriptor, writers)};

static inline struct wait wait_of(int fd, unsigned direction, uint64_t deadline_ns)
{
    return (struct wait){direction == GS_READ ? &reading : &writing, (const void *)(intptr_t)fd,
                         deadline_ns, false, NULL};
}

int gs_descriptor_queue(struct descriptor *descriptor, int fd, unsigned direction,
                        uint64_t deadline_ns)
{
    const struct wait wait = wait_of(fd, direction, deadline_ns);
    struct gs_thread *self = thread_current();
    spin_lock(&descriptor->lock);
    int err = wait_prepare(self, &wait);
    if (UNLIKELY(err)) {
        spin_unlock(&descriptor->lock);
        return err;
    }
    return wait_queued(self, descriptor_queue(descriptor, direction), &descriptor->lock, &wait);
}

int gs_descriptor_wait(struct descriptor *descriptor, int fd, unsigned direction,
                       uint64_t deadline_ns)
{
    const struct wait wait = wait_of(fd, direction, deadline_ns);
    struct gs_thread *self = thread_current();
    int err = 0;
    spin_lock(&descriptor->lock);
    if (deadline_ns)
        err = gs_descriptor_watch(descriptor, fd);
    bool is_watched = atomic_load_explicit(&descriptor->owner, memory_order_relaxed);
    bool is_worth = is_watched && descriptor_is_worth(descriptor, direction);
    if (err || is_worth)
        descriptor_clear(descriptor, direction);
    else
        err = wait_prepare(self, &wait);
    if (UNLIKELY(err || is_worth)) {
        spin_unlock(&descriptor->lock);
        return err;
    }
    return wait_queued(self, descriptor_queue(descriptor, direction), &descriptor->lock, &wait);
}

/* ---- The end of a descriptor ---- */

void gs_forget(int fd)
{
    struct descriptor *descriptor = gs_descriptor(fd);
    struct worker *worker = worker_current();
    if (!descriptor)
        return;
    spin_lock(&descriptor->lock);
    unwatch(descriptor, true);
    atomic_store(&descriptor->perhaps, GS_READ | GS_WRITE);
    atomic_store(&descriptor->kind, KIND_UNKNOWN);
    atomic_store(&descriptor->is_hung_up, false);
    atomic_store(&descriptor->is_nonblocking, false);
    wake_all(worker, &descriptor->readers, -EBADF);
    wake_all(worker, &descriptor->writers, -EBADF);
    spin_unlock(&descriptor->lock);
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
