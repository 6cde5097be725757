#include "load/awake.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Whatever else is to run takes its core at once: it yields to every thread that is not of its kind. */
static void *keep_awake(void *argument)
{
    struct load_awake *awake = argument;
    if (sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0}))
        return NULL;
    while (!atomic_load_explicit(&awake->is_over, memory_order_relaxed))
        relax();
    return NULL;
}

int gs_load_awake_begin(struct load_awake *awake, size_t count)
{
    int err = 0;
    atomic_init(&awake->is_over, false);
    awake->count = 0;
    awake->threads = calloc(count, sizeof *awake->threads);
    if (!awake->threads)
        return count ? -ENOMEM : 0;
    while (!err && awake->count < count) {
        err = -pthread_create(&awake->threads[awake->count], NULL, keep_awake, awake);
        awake->count += !err;
    }
    if (err)
        gs_load_awake_end(awake);
    return err;
}

void gs_load_awake_end(struct load_awake *awake)
{
    atomic_store(&awake->is_over, true);
    for (size_t i = 0; i < awake->count; i++)
        pthread_join(awake->threads[i], NULL);
    free(awake->threads);
    awake->threads = NULL;
    awake->count = 0;
}
