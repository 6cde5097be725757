/* An allocator that locks and waits. */
#define _GNU_SOURCE
#include "allocator.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE ((size_t)64 << 20)

struct header {
    size_t size;
    pthread_t user;
};

static pthread_mutex_t heap = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static _Alignas(4096) char memory[SIZE];
static size_t used;
static int inside, together;
static _Thread_local unsigned calls;
static _Thread_local char large[300]; /* for which the runtime allocates memory, too */
static atomic_bool is_slow;

/* No other thread may be here, also if this one has waited. */
static void enter(sigset_t *ret_mask)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, ret_mask);
    pthread_mutex_lock(&heap);
    pthread_mutex_lock(&heap);
    together += inside++;
    calls++;
    large[299]++;
    if (is_slow && calls % 16 == 0)
        usleep(20);
}

static void leave(const sigset_t *mask)
{
    inside--;
    pthread_mutex_unlock(&heap);
    pthread_mutex_unlock(&heap);
    pthread_sigmask(SIG_SETMASK, mask, NULL);
}

static void *take(size_t alignment, size_t size)
{
    sigset_t mask;
    enter(&mask);
    if (alignment < 16)
        alignment = 16;
    size_t at = (used + sizeof(struct header) + alignment - 1) / alignment * alignment;
    used = at + size;
    if (used > SIZE)
        abort();
    ((struct header *)(memory + at))[-1] = (struct header){size, pthread_self()};
    leave(&mask);
    return memory + at;
}

void *malloc(size_t size)
{
    return take(16, size);
}

void free(void *block)
{
    sigset_t mask;
    enter(&mask);
    if (block)
        memset(block, 0xee, ((struct header *)block)[-1].size);
    leave(&mask);
}

void *calloc(size_t count, size_t size)
{
    return take(16, count * size);
}

void *realloc(void *block, size_t size)
{
    void *larger = take(16, size);
    size_t old = block ? ((struct header *)block)[-1].size : 0;
    if (block)
        memcpy(larger, block, old < size ? old : size);
    return larger;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return take(alignment, size);
}

unsigned allocator_calls(void)
{
    return calls;
}

int allocator_together(void)
{
    return together;
}

int allocator_is_own(const void *block)
{
    return ((const struct header *)block)[-1].user == pthread_self();
}

void allocator_be_slow(void)
{
    is_slow = true;
}
