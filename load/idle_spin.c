#include "load/idle_spin.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* SCHED_IDLE: every thread of another scheduling class preempts this one at once. */
static void *spin_until_finished(void *argument)
{
    struct load_idle_spin *spin = argument;
    if (sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0}))
        return NULL;
    while (!atomic_load_explicit(&spin->is_finished, memory_order_relaxed))
        pause_cpu();
    return NULL;
}

int gs_load_idle_spin_start(struct load_idle_spin *spin, size_t count)
{
    int err = 0;
    atomic_init(&spin->is_finished, false);
    spin->count = 0;
    spin->threads = calloc(count, sizeof *spin->threads);
    if (!spin->threads)
        return count ? -ENOMEM : 0;
    while (!err && spin->count < count) {
        err = -pthread_create(&spin->threads[spin->count], NULL, spin_until_finished, spin);
        spin->count += !err;
    }
    if (err)
        gs_load_idle_spin_stop(spin);
    return err;
}

void gs_load_idle_spin_stop(struct load_idle_spin *spin)
{
    atomic_store(&spin->is_finished, true);
    for (size_t i = 0; i < spin->count; i++)
        pthread_join(spin->threads[i], NULL);
    free(spin->threads);
    spin->threads = NULL;
    spin->count = 0;
}
