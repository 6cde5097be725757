/* A program with its own allocator, whose lock is a futex. By run, the runtime's kernel threads
 * allocate, too, when they create another worker, and a task may wait for the lock meanwhile. */
#include "tests/compat/pthread/program.h"

#include <linux/futex.h>
#include <linux/membarrier.h>

/* More than workers, all of which wait in the kernel for so long that another one is created. */
enum { THREADS = 6, MS = 200 };

void *__libc_calloc(size_t count, size_t size);

static _Thread_local bool is_of_program;
static atomic_bool has_begun, is_held;
static atomic_int word;

static void lock(void)
{
    int none = 0;
    if (atomic_compare_exchange_strong(&word, &none, 1))
        return;
    while (atomic_exchange(&word, 2))
        syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

static void unlock(void)
{
    if (atomic_exchange(&word, 0) == 2)
        syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* The lock is held until a thread waits for it. */
void *calloc(size_t count, size_t size)
{
    if (!is_of_program && atomic_load(&has_begun)) {
        lock();
        atomic_store(&is_held, true);
        for (int i = 0; i < 5000 && atomic_load(&word) != 2; i++)
            sleep_ms(1);
        unlock();
    }
    return __libc_calloc(count, size);
}

static bool is_before(const struct timespec *end)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec < end->tv_sec || (now.tv_sec == end->tv_sec && now.tv_nsec < end->tv_nsec);
}

static void *live(void *end)
{
    is_of_program = true;
    while (!atomic_load(&is_held) && is_before(end))
        syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
    for (int i = 0; i < 100; i++) {
        lock();
        unlock();
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    struct timespec end = after_ms(CLOCK_MONOTONIC, MS);
    is_of_program = true;
    for (int i = 0; i < THREADS; i++)
        threads[i] = start(live, &end);
    atomic_store(&has_begun, true);
    for (int i = 0; i < THREADS; i++)
        SHOW(finish(threads[i]));
    SHOW(atomic_load(&word));
    return 0;
}
