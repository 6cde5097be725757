/* Nothing here may order memory, which would hide the races to be found: only relaxed loads and
 * stores, no locked instructions. Thread-local storage and errno are not used either: user threads
 * move between kernel threads, and may have thread-local storage of their own. */
#include "base/chaos.h"

#ifdef GS_CHAOS
#include <gossamer/sys.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* One random number generator per kernel thread, found by a hash of its thread pointer. Threads
 * with the same hash share a generator. */
#define STATES 256u
static _Atomic(uint64_t) states[STATES];

/* Out of 65,536 times. In each run, each kind of point is delayed never, seldom or often. */
static struct chance {
    uint32_t spin, yield, sleep;
} chances[CHAOS_KINDS];

static atomic_bool is_ready;

/* splitmix64 (Steele, Lea and Flood, 2014) */
static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static uint64_t next(_Atomic(uint64_t) *state)
{
    uint64_t value =
        atomic_load_explicit(state, memory_order_relaxed) + UINT64_C(0x9e3779b97f4a7c15);
    atomic_store_explicit(state, value, memory_order_relaxed);
    return mix(value);
}

static uint64_t read_seed(void)
{
    const char *wanted = getenv("GS_CHAOS_SEED");
    if (wanted && *wanted)
        return strtoull(wanted, NULL, 0);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t seed = mix((uint64_t)now.tv_nsec << 20 ^ (uint64_t)now.tv_sec ^ (uint64_t)getpid());
    fprintf(stderr, "chaos: GS_CHAOS_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

__attribute__((constructor)) static void init(void)
{
    static const struct chance kinds[] = {
        {0, 0, 0}, {256, 64, 2}, {1024, 512, 8}, {8192, 2048, 16}, {2048, 16384, 64}};
    _Atomic(uint64_t) state = read_seed();
    for (unsigned i = 0; i < CHAOS_KINDS; i++)
        chances[i] = kinds[next(&state) % (sizeof kinds / sizeof *kinds)];
    for (unsigned i = 0; i < STATES; i++)
        atomic_store_explicit(&states[i], next(&state), memory_order_relaxed);
    atomic_store_explicit(&is_ready, true, memory_order_release);
}

static void pause_for(uint64_t turns)
{
    for (uint64_t i = 0; i < turns; i++)
#ifdef __x86_64__
        __builtin_ia32_pause();
#else
        __asm__ volatile("yield");
#endif
}

static void sleep_for(uint64_t ns)
{
    const struct timespec span = {.tv_nsec = (long)ns};
    gs_syscall(SYS_nanosleep, (long)&span, 0, 0, 0, 0, 0);
}

#define SPIN_MAX 512
#define SLEEP_MAX_NS 100000

void gs_chaos(enum chaos_kind kind)
{
    const struct chance *chance = &chances[kind];
    if (!chance->spin || !atomic_load_explicit(&is_ready, memory_order_relaxed))
        return;
    uint64_t number = next(&states[mix((uintptr_t)__builtin_thread_pointer()) % STATES]);
    uint32_t drawn = number & 0xffff;
    number >>= 16;
    if (drawn < chance->sleep)
        sleep_for(number % SLEEP_MAX_NS);
    else if (drawn < chance->sleep + chance->yield)
        gs_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    else if (drawn < chance->sleep + chance->yield + chance->spin)
        pause_for(number % SPIN_MAX);
}

/* ---- Wrappers of the C library's functions, by --wrap of the linker (cmake/GossamerBuild.cmake)
 * ---- */

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    gs_chaos(CHAOS_LOCK);
    return __real_pthread_mutex_lock(mutex);
}

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    gs_chaos(CHAOS_UNLOCK);
    int err = __real_pthread_mutex_unlock(mutex);
    gs_chaos(CHAOS_UNLOCK);
    return err;
}

int __real_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    gs_chaos(CHAOS_PARK);
    int err = __real_pthread_cond_wait(cond, mutex);
    gs_chaos(CHAOS_RETURN);
    return err;
}

int __real_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    gs_chaos(CHAOS_WAKE);
    int err = __real_pthread_cond_signal(cond);
    gs_chaos(CHAOS_WAKE);
    return err;
}

int __real_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
    gs_chaos(CHAOS_WAKE);
    int err = __real_pthread_cond_broadcast(cond);
    gs_chaos(CHAOS_WAKE);
    return err;
}

int __real_sem_post(sem_t *semaphore);
int __wrap_sem_post(sem_t *semaphore);
int __wrap_sem_post(sem_t *semaphore)
{
    gs_chaos(CHAOS_WAKE);
    int err = __real_sem_post(semaphore);
    gs_chaos(CHAOS_WAKE);
    return err;
}
#endif
