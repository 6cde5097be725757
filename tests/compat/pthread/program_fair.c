/* Threads that compute or spin do not stop others: more of them than processors, waiting for one
 * that runs last. */
#include "tests/compat/pthread/program.h"

enum { SPINNERS = 12 };
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

int main(void)
{
    pthread_t threads[SPINNERS];
    for (int i = 0; i < SPINNERS; i++)
        threads[i] = start(spin, NULL);
    SHOW(finish(start(end_them, NULL)));
    for (int i = 0; i < SPINNERS; i++)
        SHOW(finish(threads[i]));
    return 0;
}
