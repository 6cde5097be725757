/* What the kernel counts of a server's processes. */
#ifndef GS_SERVE_KERNEL_COUNTS_H
#define GS_SERVE_KERNEL_COUNTS_H

#include <stdint.h>
#include <sys/types.h>

struct serve_kernel_counts {
    uint64_t processes, threads;
    uint64_t voluntary,
        involuntary; /* context switches; of this process also those of threads that have ended */
};

/* Of the process that the server began with, and of its children. */
void serve_kernel_count(pid_t first, struct serve_kernel_counts *ret_counts);

#endif
