/* The table of file descriptors: an entry for each number; its chunks live as long as the run. */
#include "thread/io/descriptors.h"

#include <gossamer/sys.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/stat.h>

struct descriptor *_Atomic gs_descriptor_chunks[DESCRIPTOR_CHUNKS];

static struct descriptor *new_chunk(unsigned index)
{
    struct descriptor *none = NULL, *chunk = aligned_alloc(_Alignof(struct descriptor),
                                                           DESCRIPTOR_CHUNK_SIZE * sizeof *chunk);
    if (!chunk)
        return NULL;
    for (unsigned i = 0; i < DESCRIPTOR_CHUNK_SIZE; i++)
        chunk[i] = (struct descriptor){.maybe_ready = GS_READ | GS_WRITE};
    if (atomic_compare_exchange_strong(&gs_descriptor_chunks[index], &none, chunk))
        return chunk;
    free(chunk);
    return none;
}

struct descriptor *gs_descriptor_make(int fd)
{
    if (fd < 0 || (unsigned)fd >= DESCRIPTOR_CHUNKS * DESCRIPTOR_CHUNK_SIZE)
        return NULL;
    struct descriptor *chunk = new_chunk((unsigned)fd / DESCRIPTOR_CHUNK_SIZE);
    return chunk ? &chunk[(unsigned)fd % DESCRIPTOR_CHUNK_SIZE] : NULL;
}

void gs_descriptors_done(void)
{
    gs_descriptor_close_done();
    for (unsigned i = 0; i < DESCRIPTOR_CHUNKS; i++) {
        struct descriptor *chunk = atomic_load(&gs_descriptor_chunks[i]);
        for (unsigned k = 0; chunk && k < DESCRIPTOR_CHUNK_SIZE; k++) {
            if (atomic_load(&chunk[k].owner) && chunk[k].watch != &chunk[k].first)
                free(chunk[k].watch);
        }
        free(chunk);
        atomic_store(&gs_descriptor_chunks[i], NULL);
    }
}

/* In the child no loop watches, and no thread waits. What was being changed during the fork is
 * lost. */
static void reset_entry(struct descriptor *descriptor, int fd, void *data)
{
    (void)data;
    bool is_consistent = !atomic_load(&descriptor->lock.held);
    if (is_consistent && atomic_load(&descriptor->owner) && descriptor->watch != &descriptor->first)
        free(descriptor->watch);
    atomic_store(&descriptor->lock.held, false);
    atomic_store(&descriptor->maybe_ready, GS_READ | GS_WRITE);
    atomic_store(&descriptor->is_first_used, false);
    IF_CHECKED(atomic_store(&descriptor->closing, 0));
    atomic_store(&descriptor->owner, 0);
    if (atomic_load(&descriptor->calls) & CALLS_DEAD && gs_descriptor_is_dead(fd))
        gs_sys_close(fd);
    atomic_store(&descriptor->calls, 0);
    descriptor->readers = descriptor->writers = (struct gs_wait_queue){.first = NULL};
}

void gs_descriptors_foreach(void (*visit)(struct descriptor *descriptor, int fd, void *data),
                            void *data)
{
    for (unsigned i = 0; i < DESCRIPTOR_CHUNKS; i++) {
        struct descriptor *chunk =
            atomic_load_explicit(&gs_descriptor_chunks[i], memory_order_acquire);
        for (unsigned k = 0; chunk && k < DESCRIPTOR_CHUNK_SIZE; k++)
            visit(&chunk[k], (int)(i * DESCRIPTOR_CHUNK_SIZE + k), data);
    }
}

void gs_descriptors_after_fork(void)
{
    gs_descriptor_close_done();
    gs_descriptors_foreach(reset_entry, NULL);
}

static enum descriptor_kind find_kind(struct descriptor *descriptor, int fd)
{
    struct stat stat;
    int protocol = 0;
    socklen_t length = sizeof protocol;
    if (!gs_sys_getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length))
        return protocol == IPPROTO_TCP ? KIND_TCP : KIND_POLLABLE;
    if (gs_sys_fstat(fd, &stat))
        return KIND_UNKNOWN;
    atomic_store_explicit(&descriptor->file_hash,
                          (unsigned char)((stat.st_ino ^ stat.st_dev) % 251), memory_order_relaxed);
    return S_ISREG(stat.st_mode) || S_ISDIR(stat.st_mode) || S_ISBLK(stat.st_mode) ? KIND_REGULAR
                                                                                   : KIND_POLLABLE;
}

enum descriptor_kind gs_descriptor_kind(struct descriptor *descriptor, int fd)
{
    unsigned char kind = atomic_load_explicit(&descriptor->kind, memory_order_relaxed);
    if (LIKELY(kind != KIND_UNKNOWN && kind != KIND_CLOSING))
        return (enum descriptor_kind)kind;
    unsigned closes = atomic_load(&descriptor->closes);
    bool is_dead = atomic_load(&descriptor->calls) & CALLS_DEAD;
    unsigned char unknown = KIND_UNKNOWN, found = (unsigned char)find_kind(descriptor, fd);
    if (!is_dead && atomic_compare_exchange_strong(&descriptor->kind, &unknown, found) &&
        UNLIKELY(atomic_load(&descriptor->closes) != closes)) { /* it may be another file's */
        unsigned char stored = found;
        atomic_compare_exchange_strong(&descriptor->kind, &stored, KIND_UNKNOWN);
    }
    return (enum descriptor_kind)found;
}
