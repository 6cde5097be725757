/* Threads that compute or spin do not stop others: more of them than processors, waiting for one
 * that runs last; and one whose time comes while they compute. */
#include "tests/compat/pthread/program.h"

enum { SPINNERS = 12, SLEEPS = 10, MS_PER_SLEEP_MAX = 200 };
static atomic_bool is_over;
static atomic_int started;

static void *spin(void *unused)
{
    started++;
    while (!is_over)
        ;
    return unused;
}

static void *end_them(void *unused)
{
    while (started < SPINNERS)
        ;
    sleep_ms(20);
    is_over = true;
    return unused;
}

/* Returns the milliseconds for which it has had a processor. */
static void *spin_and_count(void *unused)
{
    struct timespec time;
    spin(unused);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (void *)(time.tv_sec * 1000 + time.tv_nsec / 1000000);
}

static void sleep_beside_one_that_computes(void)
{
    is_over = false;
    pthread_t spinner = start(spin_and_count, NULL);
    for (int i = 0; i < SLEEPS; i++)
        sleep_ms(1);
    is_over = true;
    SHOW(finish(spinner) < (long)SLEEPS * MS_PER_SLEEP_MAX);
}

int main(void)
{
    pthread_t threads[SPINNERS];
    for (int i = 0; i < SPINNERS; i++)
        threads[i] = start(spin, NULL);
    SHOW(finish(start(end_them, NULL)));
    for (int i = 0; i < SPINNERS; i++)
        SHOW(finish(threads[i]));
    sleep_beside_one_that_computes();
    return 0;
}
