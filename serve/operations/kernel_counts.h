/* What the kernel counts for a server's processes. */
#ifndef GS_SERVE_KERNEL_COUNTS_H
#define GS_SERVE_KERNEL_COUNTS_H

#include <stdint.h>
#include <sys/types.h>

struct serve_kernel_counts {
    uint64_t processes, threads;
    /* Context switches; of this process also those of threads that have ended. */
    uint64_t voluntary, involuntary;
};

/* For the first process of the server and its children. */
void serve_kernel_count(pid_t first, struct serve_kernel_counts *ret_counts);

#endif
