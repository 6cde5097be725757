/* C11's threads. */
#include "program.h"

#include <threads.h>

static mtx_t lock, recursive;
static cnd_t changed;
static once_flag flag = ONCE_FLAG_INIT;
static tss_t key;
static int turn;
static atomic_int destroyed;
static thread_local int own = 1;

static void once(void)
{
    puts("once");
}

static void destroy(void *value)
{
    destroyed += *(int *)value;
}

static int player(void *argument)
{
    int number = *(int *)argument;
    call_once(&flag, once);
    tss_set(key, argument);
    for (int i = 0; i < 5; i++) {
        mtx_lock(&lock);
        while (turn % 2 != number)
            cnd_wait(&changed, &lock);
        turn++;
        own += turn;
        cnd_broadcast(&changed);
        mtx_unlock(&lock);
        thrd_yield();
    }
    if (tss_get(key) != argument)
        return -1;
    if (number)
        thrd_exit(-own);
    return own;
}

static int lock_in_vain(void *unused)
{
    struct timespec now;
    (void)unused;
    timespec_get(&now, TIME_UTC);
    printf("%d\n", mtx_timedlock(&lock, &now) == thrd_timedout);
    printf("%d\n", mtx_trylock(&recursive) == thrd_busy);
    return 9;
}

static void lock_twice(void)
{
    thrd_t thread;
    int result = 0;
    mtx_init(&recursive, mtx_plain | mtx_recursive);
    mtx_lock(&lock);
    printf("%d %d\n", mtx_lock(&recursive), mtx_lock(&recursive));
    thrd_create(&thread, lock_in_vain, NULL);
    thrd_join(thread, &result);
    printf("%d\n", result);
    printf("%d %d\n", mtx_unlock(&recursive), mtx_unlock(&recursive));
    mtx_unlock(&lock);
    mtx_destroy(&recursive);
}

static void errors(void)
{
    struct timespec now, little = {0, 1000};
    timespec_get(&now, TIME_UTC);
    mtx_lock(&lock);
    printf("%d\n", cnd_timedwait(&changed, &lock, &now) == thrd_timedout);
    printf("%d\n", mtx_trylock(&lock) == thrd_busy);
    mtx_unlock(&lock);
    printf("%d\n", thrd_sleep(&little, NULL));
}

int main(void)
{
    thrd_t threads[2];
    int numbers[2] = {0, 1}, result;
    mtx_init(&lock, mtx_timed);
    cnd_init(&changed);
    tss_create(&key, destroy);
    for (int i = 0; i < 2; i++)
        thrd_create(&threads[i], player, &numbers[i]);
    for (int i = 0; i < 2; i++) {
        thrd_join(threads[i], &result);
        printf("%d\n", result);
    }
    lock_twice();
    errors();
    printf("%d %d %d\n", turn, own, destroyed);
    return thrd_equal(thrd_current(), thrd_current()) ? 3 : 4;
}
