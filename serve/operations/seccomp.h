/* A filter of system calls: the process can make only those that the architectures need. */
#ifndef GS_SERVE_SECCOMP_H
#define GS_SERVE_SECCOMP_H

#include <gossamer/api.h>

/* What only some servers need. */
enum serve_seccomp_need {
    SERVE_NEEDS_IO_URING = 1, /* whose operations no filter sees */
    SERVE_NEEDS_MEMORY = 2,   /* to read that of processes that it may trace */
};

/* Filter the calls of this kernel thread, and of the threads and processes that it creates later.
 * All others fail. Returns 0 or -errno: -ENOSYS: the kernel has no filters, or they are not made for
 * this processor. */
GS_MUST_CHECK int serve_seccomp_enforce(unsigned needs);

#endif
