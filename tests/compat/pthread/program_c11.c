/* Threads of C11. */
#include "tests/compat/pthread/program.h"

#include <threads.h>

static mtx_t plain, timed, recursive;
static cnd_t condition;
static once_flag once = ONCE_FLAG_INIT;
static tss_t key;
static int calls, turns;
static atomic_int destroyed;
static _Thread_local int local = 5;

static void call(void)
{
    calls++;
}

static void destroy(void *value)
{
    destroyed += (int)(long)value;
}

static int work(void *number)
{
    call_once(&once, call);
    tss_set(key, number);
    local += (int)(long)number;
    thrd_yield();
    mtx_lock(&plain);
    turns++;
    cnd_signal(&condition);
    mtx_unlock(&plain);
    return tss_get(key) == number ? local : -1;
}

static int lock_in_time(void *unused)
{
    const struct timespec soon = after_ms(CLOCK_REALTIME, 5);
    (void)unused;
    SHOW(mtx_trylock(&timed) == thrd_busy);
    SHOW(mtx_timedlock(&timed, &soon) == thrd_timedout);
    SHOW(mtx_trylock(&recursive) == thrd_busy);
    thrd_exit(9);
}

static void test_mutexes(void)
{
    thrd_t thread;
    int result = 0;
    const struct timespec soon = after_ms(CLOCK_REALTIME, 5);
    SHOW(mtx_init(&timed, mtx_timed));
    SHOW(mtx_init(&recursive, mtx_plain | mtx_recursive));
    SHOW(mtx_lock(&timed));
    SHOW(mtx_lock(&recursive));
    SHOW(mtx_lock(&recursive));
    int err = thrd_create(&thread, lock_in_time, NULL);
    SHOW(thrd_join(thread, &result));
    SHOW(err);
    SHOW(result);
    SHOW(cnd_timedwait(&condition, &timed, &soon) == thrd_timedout);
    SHOW(mtx_unlock(&recursive));
    SHOW(mtx_unlock(&recursive));
    SHOW(mtx_unlock(&timed));
    mtx_destroy(&timed);
}

int main(void)
{
    thrd_t threads[10];
    SHOW(mtx_init(&plain, mtx_plain));
    SHOW(cnd_init(&condition));
    SHOW(tss_create(&key, destroy));
    for (long i = 0; i < 10; i++)
        SHOW(thrd_create(&threads[i], work, (void *)(i + 1)));
    mtx_lock(&plain);
    while (turns < 10)
        cnd_wait(&condition, &plain);
    mtx_unlock(&plain);
    for (int i = 0; i < 10; i++) {
        int result = 0;
        SHOW(thrd_join(threads[i], &result));
        SHOW(result);
    }
    SHOW(calls);
    SHOW(destroyed);
    SHOW(local);
    SHOW(thrd_equal(thrd_current(), thrd_current()) != 0);
    SHOW(thrd_sleep(&(struct timespec){0, 1000000}, NULL));
    test_mutexes();
    return 0;
}
