/* File descriptors: their watches and events, waiting for readiness, closing. The entries of the
 * table (descriptor_table.c) and their invariants are described in descriptors.h, which calls an
 * entry a descriptor. */
#include "thread/io/descriptors.h"
#include "thread/schedule/resumable.h"
#include "thread/schedule/wait.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/resumable.h>
#include <gossamer/sys.h>
#include <stdlib.h>

/* How many events ahead the memory of a waiting thread is prefetched. */
#define PREFETCH_DISTANCE 4u

/* ---- Watches ---- */

static struct descriptor *descriptor_of(const struct watch *watch)
{
    return watch->io.watcher.data;
}

/* The caller holds the lock. Returns NULL if memory is exhausted. */
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

/* Stop a watch of the calling worker. */
static void stop_watch(struct watch *watch, bool is_closed)
{
    struct gs_loop *loop = watch->io.watcher.loop;
    int fd = watch->io.fd;
    gs_io_stop(&watch->io);
    if (is_closed)
        gs_loop_fd_closed(loop, fd);
    free_watch(descriptor_of(watch), watch);
}

static void stop_all(struct watch *_Atomic *list, bool is_closed)
{
    /* Acquire: pairs with the exchange in detach_watch, publishing the links. */
    struct watch *watch = atomic_exchange_explicit(list, NULL, memory_order_acquire);
    while (watch) {
        struct watch *next = watch->next;
        stop_watch(watch, is_closed);
        watch = next;
    }
}

void gs_descriptors_stop_detached(struct worker *worker)
{
    stop_all(&worker->detached_watches, false);
    stop_all(&worker->closed_watches, true);
}

/* Detach the watch from its descriptor: its owner stops it later. The caller holds the descriptor's
 * lock. */
static void detach_watch(struct worker *owner, struct watch *watch, bool is_closed)
{
    struct watch *_Atomic *list = is_closed ? &owner->closed_watches : &owner->detached_watches;
    gs_chaos(CHAOS_PUBLISH);
    watch->next = atomic_load_explicit(list, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(list, &watch->next, watch))
        ;
    if (is_closed && gs_loop_holds_files(owner->loop))
        gs_loop_wake(owner->loop);
}

/* Stop watching. The caller holds the lock. */
static void unwatch(struct descriptor *descriptor, bool is_closed)
{
    struct worker *owner = descriptor_owner(descriptor);
    if (!owner)
        return;
    atomic_store(&descriptor->owner, 0);
    if (owner == worker_current())
        stop_watch(descriptor->watch, is_closed);
    else
        detach_watch(owner, descriptor->watch, is_closed);
}

/* ---- Events ---- */

/* Wake all waiters with the outcome. The caller holds the lock of the entry, which a thread that
 * runs at once cannot free: entries live as long as the run. worker: the caller, or NULL if it is
 * no worker. */
ALWAYS_INLINE void wake_all(struct worker *worker, struct gs_wait_queue *queue, int outcome)
{
    struct gs_waiter *waiter;
    while ((waiter = queue->first)) {
        struct gs_thread *thread = waiter->thread;
        waiters_remove(queue, waiter);
        if (UNLIKELY(!thread) && waits_resumable(waiter->item))
            gs_resumable_notify(waiter->item);
        else if (UNLIKELY(!thread))
            gs_poll_notify(worker, waiter->item);
        else if (thread_claim(thread, outcome))
            thread_make_ready_from(worker, thread);
    }
}

/* gs_descriptor_notify, inline. */
ALWAYS_INLINE void notify(struct worker *worker, struct descriptor *descriptor, unsigned events,
                          int err)
{
    if (events & (GS_HANGUP | GS_URGENT))
        atomic_store_explicit(&descriptor->is_hung_up, true, memory_order_relaxed);
    if (err || events & (GS_READ | GS_HANGUP | GS_URGENT)) {
        descriptor_set(descriptor, GS_READ);
        wake_all(worker, &descriptor->readers, err);
    }
    if (err || events & GS_WRITE) {
        descriptor_set(descriptor, GS_WRITE);
        if (UNLIKELY(descriptor->writers.first != NULL))
            wake_all(worker, &descriptor->writers, err);
    }
}

void gs_descriptor_notify(struct worker *worker, struct descriptor *descriptor, unsigned events,
                          int err)
{
    notify(worker, descriptor, events, err);
}

/* (tests/model/descriptor.pml) Called without the lock, after the bit was set; a thread that begins
 * to wait is queued first and reads the bit afterwards (was_set_ready). Sequentially consistent, so
 * that one of them sees the other. */
static bool may_have_waiters(struct gs_wait_queue *queue)
{
    return __atomic_load_n(&queue->first, __ATOMIC_SEQ_CST);
}

void gs_descriptor_set_ready(struct descriptor *descriptor, unsigned direction)
{
    struct gs_wait_queue *queue = descriptor_queue(descriptor, direction);
    descriptor_set(descriptor, direction);
    if (!gs_runtime.is_multi || LIKELY(!may_have_waiters(queue)))
        return;
    spin_lock_always(&descriptor->lock);
    wake_all(worker_current(), queue, 0);
    spin_unlock_always(&descriptor->lock);
}

/* Called by the owner of the descriptor, or by a worker that was the owner when the event
 * occurred. */
static void deliver_event(struct worker *worker, const struct watch *watch, unsigned events,
                          int err)
{
    struct descriptor *descriptor = descriptor_of(watch);
    gs_chaos(CHAOS_WAKE);
    spin_lock(&descriptor->lock);
    if (LIKELY(atomic_load_explicit(&descriptor->owner, memory_order_relaxed) ==
                   descriptor_number_of(worker) &&
               descriptor->watch == watch)) {
        if (err)
            unwatch(descriptor, false);
        notify(worker, descriptor, events, err);
    }
    spin_unlock(&descriptor->lock);
}

/* The control block of the waiting thread has left the cache, and will be used a few events later.
 * Called without the lock: only the address is used. */
NOT_FOR_TSAN static void prefetch_reader(const struct watch *watch)
{
    const struct descriptor *descriptor = watch->io.watcher.data;
    struct gs_waiter *waiter = *(struct gs_waiter *const volatile *)&descriptor->readers.first;
    if (waiter) {
        thread_prefetch(gs_container_of(waiter, struct gs_thread, waiter));
        __builtin_prefetch(waiter, 1); /* of a resumable */
        __builtin_prefetch((char *)waiter + sizeof(struct gs_resumable), 1);
    }
}

void gs_descriptors_flush_events(struct worker *worker)
{
    struct pending_events *pending = &worker->pending_events;
    for (unsigned i = 0; i < pending->count; i++) {
        if (i + PREFETCH_DISTANCE < pending->count)
            prefetch_reader(pending->each[i + PREFETCH_DISTANCE].watch);
        deliver_event(worker, pending->each[i].watch, pending->each[i].events, 0);
    }
    pending->count = 0;
}

/* The watch is valid until its event is delivered: only this worker stops it, and not during an
 * iteration of its loop. */
static void on_events(struct gs_io *io, unsigned events)
{
    struct watch *watch = gs_container_of(io, struct watch, io);
    struct worker *worker = worker_current();
    struct pending_events *pending = &worker->pending_events;
    if (UNLIKELY(pending->count == PENDING_EVENTS_MAX || events & GS_FAILED))
        gs_descriptors_flush_events(worker);
    if (UNLIKELY(events & GS_FAILED)) {
        deliver_event(worker, watch, events, gs_io_error(io));
        return;
    }
    __builtin_prefetch(descriptor_of(watch), 1);
    pending->each[pending->count].watch = watch;
    pending->each[pending->count++].events = events;
}

/* ---- Waiting ---- */

/* Start watching; the present state causes an event soon. The caller holds the lock. */
static int start_watch(struct descriptor *descriptor, int fd)
{
    struct worker *worker = worker_current();
    /* A detached watch of the same number may be in the list. */
    if (UNLIKELY(descriptors_are_detached(worker)))
        gs_descriptors_stop_detached(worker);
    struct watch *watch = new_watch(descriptor);
    if (!watch)
        return -ENOMEM;
    gs_descriptor_kind_locked(descriptor, fd); /* enables the short-read rule for TCP sockets */
    gs_io_init(&watch->io, worker->loop, on_events);
    gs_io_set(&watch->io, fd, GS_READ | GS_WRITE | GS_EDGE);
    watch->io.watcher.data = descriptor;
    int err = gs_io_start(&watch->io);
    if (err) {
        free_watch(descriptor, watch);
        return err;
    }
    atomic_store(&descriptor->maybe_ready, 0);
    IF_CHECKED(gs_checked_watch(descriptor, fd));
    descriptor->watch = watch;
    atomic_store(&descriptor->owner, descriptor_number_of(worker));
    return 0;
}

int gs_descriptor_watch(struct descriptor *descriptor, int fd)
{
    struct worker *owner = descriptor_owner(descriptor);
    if (owner)
        IF_CHECKED(gs_checked_watched(descriptor, fd));
    if (LIKELY(owner && (owner == worker_current() ||
                         !atomic_load_explicit(&owner->is_stuck, memory_order_relaxed))))
        return 0;
    unwatch(descriptor, false); /* its owner is stuck */
    int err = start_watch(descriptor, fd);
    /* No loop watches for those that wait already: they try again, and watch for themselves. */
    if (UNLIKELY(err && owner))
        gs_descriptor_notify(worker_current(), descriptor, GS_READ | GS_WRITE, 0);
    return err;
}

static void *entry_of_fd(const void *fd)
{
    return gs_descriptor((int)(intptr_t)fd);
}

static const struct wait_kind reading = {.name = "readable",
                                         .is_external = true,
                                         .object = entry_of_fd,
                                         .at = AT_DESCRIPTOR,
                                         WAITS_IN(descriptor, readers)},
                              writing = {.name = "writable",
                                         .is_external = true,
                                         .object = entry_of_fd,
                                         .at = AT_DESCRIPTOR,
                                         WAITS_IN(descriptor, writers)};

static inline struct wait wait_of(int fd, unsigned direction, uint64_t deadline_ns)
{
    return (struct wait){direction == GS_READ ? &reading : &writing, (const void *)(intptr_t)fd,
                         deadline_ns};
}

/* Whether another thread has left something since the bit was checked. The calling thread is
 * queued. */
static bool was_set_ready(struct descriptor *descriptor, unsigned direction)
{
    return gs_runtime.is_multi && atomic_fetch_or(&descriptor->maybe_ready, 0) & direction;
}

/* Called when the thread is queued. Returns 0 (a system call is worth trying) or -errno if it must
 * not wait; 1 if it must. */
static int check_again(struct descriptor *descriptor, struct gs_thread *self, unsigned direction,
                       const struct wait *wait)
{
    if (wait->deadline_ns && was_set_ready(descriptor, direction))
        return 0;
    int err = wait_prepare(self, wait);
    return err ? err : 1;
}

int gs_descriptor_wait(const struct opened *file, unsigned direction, uint64_t deadline_ns)
{
    struct descriptor *descriptor = file->descriptor;
    const struct wait wait = wait_of(file->fd, direction, deadline_ns);
    struct gs_wait_queue *queue = descriptor_queue(descriptor, direction);
    struct gs_thread *self = thread_current();
    spin_lock(&descriptor->lock);
    if (opened_is_closed(file)) {
        spin_unlock(&descriptor->lock);
        return -EBADF;
    }
    int err = deadline_ns ? gs_descriptor_watch(descriptor, file->fd) : 0;
    bool may_be_ready =
        descriptor_is_watched(descriptor) && descriptor_may_be_ready(descriptor, direction);
    if (err || may_be_ready) {
        descriptor_clear(descriptor, direction);
        spin_unlock(&descriptor->lock);
        return err;
    }
    waiters_append(queue, &self->waiter);
    int outcome = check_again(descriptor, self, direction, &wait);
    if (LIKELY(outcome == 1))
        return wait_already_queued(self, &descriptor->lock, &wait);
    waiters_remove(queue, &self->waiter);
    spin_unlock(&descriptor->lock);
    return outcome;
}

/* ---- Closing a descriptor (descriptor_close.c) ---- */

/* The caller holds the lock. */
static void end_waits(struct descriptor *descriptor, int outcome)
{
    struct worker *worker = worker_current();
    unwatch(descriptor, true);
    atomic_store(&descriptor->maybe_ready, GS_READ | GS_WRITE);
    atomic_store(&descriptor->is_hung_up, false);
    atomic_store(&descriptor->is_nonblocking, false);
    atomic_store_explicit(&descriptor->acceptable, 0, memory_order_relaxed);
    wake_all(worker, &descriptor->readers, outcome);
    wake_all(worker, &descriptor->writers, outcome);
}

unsigned gs_descriptor_forget(struct descriptor *descriptor, enum descriptor_kind kind)
{
    spin_lock(&descriptor->lock);
    unsigned closes = atomic_fetch_add(&descriptor->closes, 1) + 1;
    atomic_store(&descriptor->kind, (unsigned char)kind);
    end_waits(descriptor, -EBADF);
    spin_unlock(&descriptor->lock);
    return closes;
}

/* Another worker may be closing the number's next file already. */
void gs_descriptor_end_close(struct descriptor *descriptor, unsigned closes)
{
    unsigned char closing = KIND_CLOSING;
    spin_lock(&descriptor->lock);
    if (gs_runtime.is_multi && gs_descriptor_is_in_use(descriptor))
        end_waits(descriptor, 0);
    if (atomic_load(&descriptor->closes) == closes)
        atomic_compare_exchange_strong(&descriptor->kind, &closing, KIND_UNKNOWN);
    spin_unlock(&descriptor->lock);
}

bool gs_descriptor_is_in_use(struct descriptor *descriptor)
{
    return atomic_load(&descriptor->owner) || may_have_waiters(&descriptor->readers) ||
           may_have_waiters(&descriptor->writers);
}
