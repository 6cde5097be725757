/* The table of file descriptors: an entry for each number; its chunks live as long as the run. */
#include "thread/descriptors.h"

#include <gossamer/sys.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/stat.h>

#define CHUNK_SIZE 1024u
#define CHUNKS 4096u

static struct descriptor *_Atomic chunks[CHUNKS];

static struct descriptor *new_chunk(unsigned index)
{
    struct descriptor *none = NULL, *chunk = aligned_alloc(_Alignof(struct descriptor),
                                                           CHUNK_SIZE * sizeof *chunk);
    if (!chunk)
        return NULL;
    for (unsigned i = 0; i < CHUNK_SIZE; i++)
        chunk[i] = (struct descriptor){.maybe_ready = GS_READ | GS_WRITE};
    if (atomic_compare_exchange_strong(&chunks[index], &none, chunk))
        return chunk;
    free(chunk);
    return none;
}

struct descriptor *gs_descriptor_if_used(int fd)
{
    if (UNLIKELY(fd < 0 || (unsigned)fd >= CHUNKS * CHUNK_SIZE))
        return NULL;
    struct descriptor *chunk =
        atomic_load_explicit(&chunks[(unsigned)fd / CHUNK_SIZE], memory_order_acquire);
    return chunk ? &chunk[(unsigned)fd % CHUNK_SIZE] : NULL;
}

struct descriptor *gs_descriptor(int fd)
{
    if (UNLIKELY(fd < 0 || (unsigned)fd >= CHUNKS * CHUNK_SIZE))
        return NULL;
    unsigned index = (unsigned)fd / CHUNK_SIZE;
    struct descriptor *chunk = atomic_load_explicit(&chunks[index], memory_order_acquire);
    if (UNLIKELY(!chunk))
        chunk = new_chunk(index);
    return chunk ? &chunk[(unsigned)fd % CHUNK_SIZE] : NULL;
}

void gs_descriptors_done(void)
{
    for (unsigned i = 0; i < CHUNKS; i++) {
        struct descriptor *chunk = atomic_load(&chunks[i]);
        for (unsigned k = 0; chunk && k < CHUNK_SIZE; k++) {
            if (atomic_load(&chunk[k].owner) && chunk[k].watch != &chunk[k].first)
                free(chunk[k].watch);
        }
        free(chunk);
        atomic_store(&chunks[i], NULL);
    }
}

/* In the child no loop watches, and no thread waits. What was being changed during the fork is
 * lost. */
static void reset_entry(struct descriptor *descriptor, int fd, void *data)
{
    (void)fd, (void)data;
    bool is_consistent = !atomic_load(&descriptor->lock.held);
    if (is_consistent && atomic_load(&descriptor->owner) && descriptor->watch != &descriptor->first)
        free(descriptor->watch);
    atomic_store(&descriptor->lock.held, false);
    atomic_store(&descriptor->maybe_ready, GS_READ | GS_WRITE);
    atomic_store(&descriptor->is_first_used, false);
    CHECKED_NOT_CLOSING(descriptor);
    atomic_store(&descriptor->owner, NULL);
    descriptor->readers = descriptor->writers = (struct gs_wait_queue){.first = NULL};
}

void gs_descriptors_foreach(void (*visit)(struct descriptor *descriptor, int fd, void *data),
                            void *data)
{
    for (unsigned i = 0; i < CHUNKS; i++) {
        struct descriptor *chunk = atomic_load_explicit(&chunks[i], memory_order_acquire);
        for (unsigned k = 0; chunk && k < CHUNK_SIZE; k++)
            visit(&chunk[k], (int)(i * CHUNK_SIZE + k), data);
    }
}

void gs_descriptors_after_fork(void)
{
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
    if (kind == KIND_UNKNOWN) {
        kind = (unsigned char)find_kind(descriptor, fd);
        atomic_store_explicit(&descriptor->kind, kind, memory_order_relaxed);
    }
    return (enum descriptor_kind)kind;
}
