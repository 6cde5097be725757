#include "thread/descriptors.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <netinet/in.h>
#include <poll.h>
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
        struct descriptor *chunk = atomic_load(&chunks[i]);
        for (unsigned k = 0; chunk && k < PER_CHUNK; k++)
            if (atomic_load(&chunk[k].owner) && chunk[k].watch != &chunk[k].first)
                free(chunk[k].watch);
        free(chunk);
        atomic_store(&chunks[i], NULL);
    }
}

/* No loop watches any more, and nobody waits. What was being changed just then is lost. */
static void forget_owner(struct descriptor *descriptor)
{
    bool is_sound = !atomic_load(&descriptor->lock.held);
    if (is_sound && atomic_load(&descriptor->owner) && descriptor->watch != &descriptor->first)
        free(descriptor->watch);
    atomic_store(&descriptor->lock.held, false);
    atomic_store(&descriptor->perhaps, GS_READ | GS_WRITE);
    atomic_store(&descriptor->is_first_used, false);
    atomic_store(&descriptor->owner, NULL);
    descriptor->readers = descriptor->writers = (struct gs_wait_queue){.first = NULL};
}

void gs_descriptors_forked(void)
{
    for (unsigned i = 0; i < CHUNKS; i++) {
        struct descriptor *chunk = atomic_load(&chunks[i]);
        for (unsigned k = 0; chunk && k < PER_CHUNK; k++)
            forget_owner(&chunk[k]);
    }
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

/* The lock is held. Returns NULL without memory. */
static struct watch *new_watch(struct descriptor *descriptor)
{
    struct watch *watch = &descriptor->first;
    /* Acquire: pairs with the release in free_watch. */
    if (UNLIKELY(atomic_load_explicit(&descriptor->is_first_used, memory_order_acquire)))
        watch = malloc(sizeof *watch);
    else
        atomic_store_explicit(&descriptor->is_first_used, true, memory_order_relaxed);
    if (watch)
        watch->descriptor = descriptor;
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
    free_watch(watch->descriptor, watch);
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

/* A thread runs once all reports have been told. What stands on its stack has left the cache since it waited. */
static void prefetch_stack(const struct gs_thread *thread)
{
    for (unsigned line = 0; line < 10; line++)
        __builtin_prefetch((const char *)thread->sp + (size_t)line * 64, 1);
}

/* worker: the caller; NULL: it is none. */
static void wake_all(struct worker *worker, struct gs_wait_queue *queue, int value)
{
    struct gs_waiter *waiter;
    while ((waiter = queue->first)) {
        waiters_remove(queue, waiter);
        waiter->value = value;
        if (waiter->item)
            gs_poll_report(worker, waiter->item);
        else if (thread_claim(waiter->thread, CLAIM_WOKEN)) {
            prefetch_stack(waiter->thread);
            thread_ready_by(worker, waiter->thread);
        }
    }
}

/* The lock is held. */
static void report(struct worker *worker, struct descriptor *descriptor, unsigned events, int err)
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

/* On the owner, or on a worker that has been. */
static void on_events(struct gs_io *io, unsigned events)
{
    struct watch *watch = gs_container_of(io, struct watch, io);
    struct descriptor *descriptor = watch->descriptor;
    struct worker *worker = worker_current();
    int err = events & GS_FAILED ? gs_io_error(io) : 0;
    spin_lock(&descriptor->lock);
    if (LIKELY(atomic_load_explicit(&descriptor->owner, memory_order_relaxed) == worker &&
               descriptor->watch == watch)) {
        if (err)
            unwatch(descriptor, false);
        report(worker, descriptor, events, err);
    }
    spin_unlock(&descriptor->lock);
}

/* ---- Descriptors of workers that are stuck ---- */

#define RELIEVED_AT_ONCE 128

struct round {
    struct pollfd polls[RELIEVED_AT_ONCE];
    unsigned count, ready;
};

/* The kernel is asked, and what it says reported. */
static void finish_round(struct round *round)
{
    (void)gs_sys_poll(round->polls, round->count, 0);
    for (unsigned i = 0; i < round->count; i++) {
        unsigned got = (unsigned short)round->polls[i].revents;
        unsigned events = got & POLLIN ? GS_READ : 0;
        events |= got & POLLOUT ? GS_WRITE : 0;
        events |= got & (POLLERR | POLLHUP | POLLNVAL) ? GS_READ | GS_WRITE : 0;
        events |= got & (POLLRDHUP | POLLHUP) ? GS_HANGUP : 0;
        struct descriptor *descriptor = gs_descriptor(round->polls[i].fd);
        if (!events || !descriptor)
            continue;
        spin_lock_always(&descriptor->lock);
        report(NULL, descriptor, events, 0);
        spin_unlock_always(&descriptor->lock);
        round->ready++;
    }
    round->count = 0;
}

static void look_at(struct round *round, struct descriptor *descriptor, int fd)
{
    struct worker *owner = atomic_load_explicit(&descriptor->owner, memory_order_relaxed);
    if (!owner || !atomic_load_explicit(&owner->is_stuck, memory_order_relaxed))
        return;
    spin_lock_always(&descriptor->lock);
    struct pollfd poll = {.fd = fd};
    poll.events = (short)((descriptor->readers.first ? POLLIN | POLLRDHUP : 0) |
                          (descriptor->writers.first ? POLLOUT : 0));
    spin_unlock_always(&descriptor->lock);
    if (poll.events)
        round->polls[round->count++] = poll;
    if (round->count == RELIEVED_AT_ONCE)
        finish_round(round);
}

/* That nothing is known of the stuck workers' loops makes it sound, and independent of their pollers; a report too many does no
 * harm. Whoever is woken and waits again elsewhere has the descriptor watched there. */
unsigned gs_descriptors_relieve(void)
{
    struct round round = {.count = 0};
    for (unsigned i = 0; i < CHUNKS; i++) {
        struct descriptor *chunk = atomic_load_explicit(&chunks[i], memory_order_acquire);
        for (unsigned k = 0; chunk && k < PER_CHUNK; k++)
            look_at(&round, &chunk[k], (int)(i * PER_CHUNK + k));
    }
    finish_round(&round);
    return round.ready;
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

int gs_descriptor_wait(struct descriptor *descriptor, int fd, unsigned direction,
                       uint64_t deadline_ns)
{
    static const struct wait_kind reading = {"readable", true}, writing = {"writable", true};
    bool is_read = direction == GS_READ;
    const struct wait wait = {is_read ? &reading : &writing, (const void *)(intptr_t)fd,
                              deadline_ns, false};
    struct gs_waiter *waiter = &thread_current()->waiter;
    int err = 0;
    waiter->item = NULL;
    spin_lock(&descriptor->lock);
    if (deadline_ns)
        err = gs_descriptor_watch(descriptor, fd);
    bool is_watched = atomic_load_explicit(&descriptor->owner, memory_order_relaxed);
    if (err || (is_watched && descriptor_is_worth(descriptor, direction))) {
        descriptor_clear(descriptor, direction);
        spin_unlock(&descriptor->lock);
        return err;
    }
    err = gs_waiters_wait(is_read ? &descriptor->readers : &descriptor->writers, waiter,
                          &descriptor->lock, &wait);
    return err ? err : (int)waiter->value;
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
