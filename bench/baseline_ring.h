/* The baseline of the web server over io_uring. */
#ifndef GS_BENCH_BASELINE_RING_H
#define GS_BENCH_BASELINE_RING_H

#include <stddef.h>

/* Respond to everything that is received on connections of the listener, which stay open. Returns
 * only if the ring fails. */
void respond_by_ring(int listener, const char *response, size_t length);

#endif
