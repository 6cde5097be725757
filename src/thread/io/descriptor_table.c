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

/* What a call finds out about a file. */
struct found {
    enum descriptor_kind kind;
    unsigned char hash; /* of a regular file */
};

static struct found find(int fd)
{
    struct stat stat;
    int protocol = 0;
    socklen_t length = sizeof protocol;
    if (!gs_sys_getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length))
        return (struct found){protocol == IPPROTO_TCP ? KIND_TCP : KIND_POLLABLE, 0};
    if (gs_sys_fstat(fd, &stat))
        return (struct found){KIND_UNKNOWN, 0};
    bool is_regular = S_ISREG(stat.st_mode) || S_ISDIR(stat.st_mode) || S_ISBLK(stat.st_mode);
    return (struct found){is_regular ? KIND_REGULAR : KIND_POLLABLE,
                          (unsigned char)((stat.st_ino ^ stat.st_dev) % 251)};
}

/* The caller holds the lock. */
static void keep(struct descriptor *descriptor, const struct found *found)
{
    unsigned char unknown = KIND_UNKNOWN;
    atomic_store_explicit(&descriptor->file_hash, found->hash, memory_order_relaxed);
    atomic_compare_exchange_strong(&descriptor->kind, &unknown, (unsigned char)found->kind);
}

enum descriptor_kind gs_descriptor_kind_locked(struct descriptor *descriptor, int fd)
{
    enum descriptor_kind kind = descriptor_known_kind(descriptor);
    if (LIKELY(kind != KIND_UNKNOWN))
        return kind;
    bool is_settled = descriptor_is_settled(descriptor);
    const struct found found = find(fd);
    if (is_settled)
        keep(descriptor, &found);
    return found.kind;
}

/* Without the lock during the system calls: a file system may take long to answer. */
enum descriptor_kind gs_descriptor_kind(struct descriptor *descriptor, int fd)
{
    enum descriptor_kind kind = descriptor_known_kind(descriptor);
    if (LIKELY(kind != KIND_UNKNOWN))
        return kind;
    unsigned closes = atomic_load(&descriptor->closes);
    bool is_settled = descriptor_is_settled(descriptor);
    const struct found found = find(fd);
    if (!is_settled)
        return found.kind;
    spin_lock(&descriptor->lock);
    if (LIKELY(atomic_load(&descriptor->closes) == closes))
        keep(descriptor, &found);
    spin_unlock(&descriptor->lock);
    return found.kind;
}
