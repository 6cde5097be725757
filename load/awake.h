/* Cores that do not halt while clients wait. */
#ifndef GS_LOAD_AWAKE_H
#define GS_LOAD_AWAKE_H

#include <gossamer/api.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Threads that spin when a core has nothing else to do. The host of a virtual machine gives a core that
 * halts to others: to wake it costs whoever does more, and lasts as long as the host likes. */
struct load_awake {
    pthread_t *threads;
    size_t count;
    _Atomic(bool) is_over;
};

/* With so many threads, on cores that the caller may run on. Returns 0 or -errno: then there are none. */
GS_MUST_CHECK int gs_load_awake_begin(struct load_awake *awake, size_t count);
void gs_load_awake_end(struct load_awake *awake);

#endif
