/* Threads of scheduling class SCHED_IDLE that spin, so that cores do not halt while clients wait.
 * The hypervisor of a virtual machine gives a halted core to other guests: waking it takes longer,
 * and how much longer depends on the hypervisor. */
#ifndef GS_LOAD_IDLE_SPIN_H
#define GS_LOAD_IDLE_SPIN_H

#include <gossamer/api.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct load_idle_spin {
    pthread_t *threads;
    size_t count;
    _Atomic(bool) is_finished;
};

/* Start `count` threads with the CPU affinity of the caller. Returns 0 or -errno; on failure no
 * thread runs. */
GS_MUST_CHECK int gs_load_idle_spin_start(struct load_idle_spin *spin, size_t count);
void gs_load_idle_spin_stop(struct load_idle_spin *spin);

#endif
