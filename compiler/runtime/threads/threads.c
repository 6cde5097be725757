/* Threads are in slabs, so that all of them can be found without a list of them: a place whose
 * resumable has no function is free. Slabs are never freed. tools/gdb/gossamer.py reads them, too.
 *
 * A dump is written while other workers go on: what it follows may change meanwhile. It reads all
 * memory by a system call, which fails where there is none. */
#include "compiler/runtime/threads/threads.h"
#include "compiler/runtime/threads/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define SLAB_SIZE ((size_t)64 << 10)

struct gs_cc_slab {
    struct gs_cc_slab *next;
    unsigned used; /* places from the first on that were in use at some time */
    struct thread at[];
};
#define PLACES ((SLAB_SIZE - sizeof(struct gs_cc_slab)) / sizeof(struct thread))

_Atomic(struct gs_cc_slab *) gs_cc_slabs;

static _Thread_local struct thread *free_threads;
static _Thread_local struct gs_cc_slab *slab;

static __attribute__((noinline)) struct thread *cut(void)
{
    if (!slab || slab->used == PLACES) {
        struct gs_cc_slab *more = calloc(1, SLAB_SIZE);
        if (!more) {
            fputs("gossamer cc: no memory for a thread\n", stderr);
            abort();
        }
        slab = more;
        more->next = atomic_load_explicit(&gs_cc_slabs, memory_order_relaxed);
        while (!atomic_compare_exchange_weak(&gs_cc_slabs, &more->next, more))
            continue;
    }
    return &slab->at[slab->used++];
}

struct thread *gs_cc_thread_allocate(void)
{
    struct thread *thread = free_threads;
    if (!thread)
        return cut();
    free_threads = thread->next;
    return thread;
}

void gs_cc_thread_release(struct thread *thread)
{
    thread->resumable.resume = NULL;
    thread->next = free_threads;
    free_threads = thread;
}

bool gs_cc_is_thread(pthread_t id)
{
    const struct gs_cc_slab *at = atomic_load(&gs_cc_slabs);
    while (at && (uintptr_t)id - (uintptr_t)at >= SLAB_SIZE)
        at = at->next;
    return at != NULL;
}

void gs_cc_each_thread(bool (*visit)(struct thread *thread, void *argument), void *argument)
{
    for (struct gs_cc_slab *at = atomic_load(&gs_cc_slabs); at; at = at->next)
        for (unsigned i = 0; i < at->used; i++)
            if (at->at[i].resumable.resume && !visit(&at->at[i], argument))
                return;
}

/* ---- Dumps ---- */

enum { CALLS = 12, GROUPS = 64, SAMPLES = 4 };

/* Threads with the same calls. */
struct group {
    const struct gs_cc_site *calls[CALLS]; /* the innermost first */
    unsigned call_count;
    const char *state;
    unsigned count;
    struct {
        const struct thread *thread;
        int fd;
        char name[16];
    } samples[SAMPLES];
};

static bool read_memory(void *to, const void *from, size_t size)
{
    struct iovec here = {to, size}, there = {(void *)from, size};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)size;
}

static void find_calls(const struct thread *thread, struct group *ret_group)
{
    const struct gs_cc_record *at = thread->record;
    struct gs_cc_record record;
    while (at && ret_group->call_count < CALLS && read_memory(&record, at, sizeof record)) {
        ret_group->calls[ret_group->call_count++] = record.site;
        at = record.caller;
    }
}

static const char *state_of(const struct thread *thread)
{
    if (!thread->has_started)
        return "have not started";
    if (thread->stack)
        return thread->is_polling ? "wait for several descriptors" : "are in a call on a stack";
    return thread->is_exiting ? "end" : "wait";
}

static bool is_same(const struct group *one, const struct group *other)
{
    return one->state == other->state && one->call_count == other->call_count &&
           !memcmp(one->calls, other->calls, sizeof one->calls);
}

static void add(struct group *groups, unsigned *count, const struct thread *thread)
{
    struct group found = {.state = state_of(thread)};
    unsigned i = 0;
    find_calls(thread, &found);
    while (i < *count && !is_same(&groups[i], &found))
        i++;
    if (i == GROUPS)
        return;
    if (i == *count)
        groups[(*count)++] = found;
    struct group *group = &groups[i];
    if (group->count < SAMPLES) {
        struct extra extra = {0};
        if (thread->extra && !read_memory(&extra, thread->extra, sizeof extra))
            extra.name[0] = 0;
        group->samples[group->count].thread = thread;
        group->samples[group->count].fd = thread->resumable.fd;
        memcpy(group->samples[group->count].name, extra.name, sizeof extra.name);
    }
    group->count++;
}

/* Text of the program that the dump follows a pointer to. */
static const char *text(const char *at, char byte[1])
{
    return at && read_memory(byte, at, 1) ? at : "?";
}

static void print_call(int fd, const struct gs_cc_site *at, bool is_innermost)
{
    struct gs_cc_site site;
    char byte[1];
    if (!read_memory(&site, at, sizeof site))
        return;
    if (is_innermost && site.callee)
        dprintf(fd, "      %s\n", text(site.callee, byte));
    dprintf(fd, "      %s", text(site.function, byte));
    if (site.place)
        dprintf(fd, " (%s)", text(site.place, byte));
    dprintf(fd, "\n");
}

static void print(int fd, const struct group *group)
{
    dprintf(fd, "%u compiled threads: %s\n", group->count, group->state);
    for (unsigned i = 0; i < group->count && i < SAMPLES; i++) {
        dprintf(fd, "  thread %p \"%s\"", (const void *)group->samples[i].thread,
                group->samples[i].name);
        if (group->samples[i].fd >= 0)
            dprintf(fd, " at descriptor %d", group->samples[i].fd);
        dprintf(fd, "\n");
    }
    if (group->count > SAMPLES)
        dprintf(fd, "  and %u more\n", group->count - SAMPLES);
    for (unsigned i = 0; i < group->call_count; i++)
        print_call(fd, group->calls[i], i == 0);
}

static int compare(const void *one, const void *other)
{
    unsigned a = ((const struct group *)one)->count, b = ((const struct group *)other)->count;
    return (a < b) - (a > b);
}

void gs_cc_dump(int fd)
{
    struct group *groups = calloc(GROUPS, sizeof *groups);
    unsigned count = 0;
    const struct thread *self = thread_self();
    if (!groups)
        return;
    for (struct gs_cc_slab *at = atomic_load(&gs_cc_slabs); at; at = at->next)
        for (unsigned i = 0; i < at->used; i++)
            if (at->at[i].resumable.resume && &at->at[i] != self)
                add(groups, &count, &at->at[i]);
    qsort(groups, count, sizeof *groups, compare);
    for (unsigned i = 0; i < count; i++)
        print(fd, &groups[i]);
    free(groups);
}
