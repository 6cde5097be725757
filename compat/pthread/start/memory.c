/* The memory of the runtime in this library: malloc and its relatives, hidden, so that the runtime
 * uses these and the program's are left alone. A task may wait in the program's malloc with a lock
 * held, and a system call of that must not need the lock again. Blocks are powers of two, from the
 * kernel in pieces of a MiB; free ones are in a list for each size. Blocks from a quarter of a MiB
 * on are mappings of their own.
 *
 * pthread_getattr_np is here for the same reason: a new worker asks it for its stack, which only
 * reports need, and the C library's would allocate. */
#include "compat/pthread/start/memory.h"

#include "compat/pthread/threads/task.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define PIECE ((size_t)1 << 20)
#define LARGE ((size_t)1 << 18)
#define HEADER ((size_t)64) /* blocks are aligned to cache lines, as the runtime demands */
enum { CLASSES = 18, SMALLEST = 7 };

struct block {
    size_t size; /* of all, with this header */
    struct block *next;
};

static struct gs_run_lock lock;
static struct block *free_blocks[CLASSES];
static char *piece, *piece_end;

static void *map(size_t size)
{
    long address = gs_syscall(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return address < 0 ? NULL : (void *)address;
}

static unsigned class_of(size_t size)
{
    unsigned bits = SMALLEST;
    while (((size_t)1 << bits) < size)
        bits++;
    return bits - SMALLEST;
}

static struct block *cut(size_t size)
{
    if ((size_t)(piece_end - piece) < size) {
        piece = map(PIECE);
        piece_end = piece ? piece + PIECE : NULL;
        if (!piece)
            return NULL;
    }
    struct block *block = (struct block *)piece;
    piece += size;
    return block;
}

static struct block *take(size_t size)
{
    unsigned class = class_of(size);
    gs_run_acquire(&lock);
    struct block *block = free_blocks[class];
    if (block)
        free_blocks[class] = block->next;
    else
        block = cut((size_t)1 << (class + SMALLEST));
    gs_run_release(&lock);
    if (block)
        block->size = (size_t)1 << (class + SMALLEST);
    return block;
}

void *malloc(size_t n)
{
    size_t size = n + HEADER;
    if (size < n)
        return NULL;
    struct block *block;
    if (size < LARGE) {
        block = take(size);
    } else {
        size = (size + 4095) & ~(size_t)4095;
        block = map(size);
        if (block)
            block->size = size;
    }
    return block ? (char *)block + HEADER : NULL;
}

void free(void *memory)
{
    if (!memory)
        return;
    struct block *block = (struct block *)((char *)memory - HEADER);
    if (block->size >= LARGE) {
        gs_syscall(SYS_munmap, (long)block, (long)block->size, 0, 0, 0, 0);
        return;
    }
    unsigned class = class_of(block->size);
    gs_run_acquire(&lock);
    block->next = free_blocks[class];
    free_blocks[class] = block;
    gs_run_release(&lock);
}

void *calloc(size_t count, size_t n)
{
    size_t size;
    if (__builtin_mul_overflow(count, n, &size))
        return NULL;
    void *memory = malloc(size);
    if (memory)
        memset(memory, 0, size);
    return memory;
}

void *realloc(void *memory, size_t n)
{
    if (!memory)
        return malloc(n);
    size_t room = ((struct block *)((char *)memory - HEADER))->size - HEADER;
    if (n <= room)
        return memory;
    void *larger = malloc(n);
    if (larger) {
        memcpy(larger, memory, room);
        free(memory);
    }
    return larger;
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return alignment <= HEADER ? malloc(n) : NULL;
}

int pthread_getattr_np(pthread_t thread, pthread_attr_t *ret_attributes)
{
    (void)thread, (void)ret_attributes;
    return ENOSYS;
}

void gs_memory_lock(void)
{
    gs_run_acquire(&lock);
}

void gs_memory_unlock(void)
{
    gs_run_release(&lock);
}
