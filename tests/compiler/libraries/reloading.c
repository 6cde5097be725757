/* Libraries that are closed and loaded again, at the same addresses, while other threads wait. The
 * program has an allocator of its own, but no aligned_alloc. */
#include "reloaded.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS 20

#define MEMORY ((size_t)16 << 20)

static _Alignas(16) char memory[MEMORY];
static atomic_size_t used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Before it is the size. */
void *malloc(size_t size)
{
    size_t at = atomic_fetch_add(&used, (size + 31) / 16 * 16) + 16;
    if (at + size > MEMORY)
        abort();
    *(size_t *)&memory[at - 16] = size;
    return &memory[at];
}

void free(void *block)
{
    if (block && (uintptr_t)block - (uintptr_t)memory >= MEMORY)
        abort();
}

void *calloc(size_t count, size_t size)
{
    return malloc(count * size);
}

void *realloc(void *block, size_t size)
{
    size_t old = block ? ((size_t *)block)[-2] : 0;
    return memcpy(malloc(size), block ? block : memory, old < size ? old : size);
}

static void *load(const char *variable)
{
    void *library = dlopen(getenv(variable), RTLD_NOW);
    if (!library)
        exit(1);
    return library;
}

static int add(void *library, int number)
{
    return ((int (*)(int))dlsym(library, "reloaded_add"))(number);
}

/* One at a time has it, so that it is closed each time. */
static void *reload(void *wrong)
{
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&lock);
        void *library = load("COPY_OF_LIBRARY");
        int first = add(library, 1), second = add(library, 2);
        if (first != 706 || second != 708)
            *(int *)wrong += 1;
        dlclose(library);
        pthread_mutex_unlock(&lock);
        usleep(1);
    }
    return NULL;
}

static void *close_early(void *number)
{
    void *library = load("COPY_OF_LIBRARY");
    printf("add %d\n", add(library, 3));
    ((void (*)(int *))dlsym(library, "reloaded_at_end"))(number);
    dlclose(library);
    usleep(1);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int wrong = 0, number = 4;
    printf("own %d\n", reloaded_add(0));
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, reload, &wrong);
    reload(&wrong);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("wrong %d, own %d\n", wrong, reloaded_add(0));
    pthread_create(&threads[0], NULL, close_early, &number);
    pthread_join(threads[0], NULL);
    return 0;
}
