/* Fault injection into a server that runs in another process.
 *
 *     fault_arm(&(struct fault){FAULT_ACCEPT, -EMFILE}, 3, 1);   the third accept4, once
 *     ... the server works ...
 *     if (fault_disarm())
 *         ... the call was made, and failed
 *
 * The server's process calls fault_enter() first. The armed fault and the counters are in memory
 * that the test and the server share. Faults of system calls are injected by the hook of
 * gossamer/sys.h, or in calls.c if they are more than an error code; faults of allocations are
 * injected in memory.c. */
#ifndef GS_TESTS_FAULT_FAULTS_H
#define GS_TESTS_FAULT_FAULTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum fault_call {
    FAULT_ACCEPT,
    FAULT_BIND,
    FAULT_CLOSE,
    FAULT_DUP,
    FAULT_EPOLL_CREATE,
    FAULT_EPOLL_CTL,
    FAULT_EPOLL_WAIT,
    FAULT_EVENTFD,
    FAULT_FCNTL,
    FAULT_FSTAT,
    FAULT_FSTATAT,
    FAULT_GETSOCKNAME,
    FAULT_IOCTL,
    FAULT_LISTEN,
    FAULT_OPENAT2,
    FAULT_PREAD,
    FAULT_RECV,
    FAULT_SEND,
    FAULT_SENDFILE,
    FAULT_SENDMSG,
    FAULT_SETSOCKOPT,
    FAULT_SHUTDOWN,
    FAULT_SOCKET,
    FAULT_WRITE,
    FAULT_ALLOCATION,
    FAULT_MMAP,
    FAULT_THREAD,
    FAULT_ADDRESS,
    FAULT_CALLS,  /* number of calls; as an armed call: none */
    FAULT_MEMORY, /* accepting and allocating */
};

/* Results that are more than an error code. */
enum {
    FAULT_SHORT = 1, /* one byte is transferred */
    FAULT_ENDED,     /* 0 bytes: end of file */
    FAULT_FILLS_UP,  /* one byte, and -ENOSPC afterwards */
};

#define FAULT_ALWAYS 1000000

struct fault {
    enum fault_call call;
    int result;         /* -errno, or a result from above */
    unsigned unnoticed; /* no client may notice up to this many failures in a row */
};

/* Returns a name such as "accept4: EMFILE", which is valid until the next call. */
const char *fault_name(const struct fault *fault);

/* ---- Called by the test ---- */

/* Must be called before the first server starts. */
void fault_init(void);

/* Let `times` calls fail, beginning with the from-th (the first is 1) from now on. */
void fault_arm(const struct fault *fault, unsigned from, unsigned times);

/* Disarm; returns how many calls failed. */
unsigned fault_disarm(void);

/* From its start, the server's clock runs `speed` times as fast as the kernel's. fault_pass() moves
 * it forward at once. */
void fault_set_speed(unsigned speed);
void fault_pass(uint64_t ns);

/* Returns how many calls of this kind the server has made, including failed ones. */
unsigned fault_made(enum fault_call call);

/* Returns a system call that the server made and that is not listed here, or 0. */
long fault_unlisted(void);

int fault_live(void);    /* allocations that are not freed */
int fault_waiting(void); /* threads that wait for events */

/* Returns what was still allocated and open when the server's main function returned. */
void fault_left(int *ret_live, int *ret_descriptors);

/* ---- Called in the server's process ---- */

void fault_enter(void);

/* The server's main function has returned; `descriptors` are still open. */
void fault_leave(int descriptors);

/* Must be called before each call. Returns 0, or the injected result. */
int fault_take(enum fault_call call);

void fault_count_live(int change);
void fault_count_waiting(int change);
uint64_t fault_scale(uint64_t ns);     /* a duration, from the server's time to the kernel's */
uint64_t fault_clock(uint64_t now_ns); /* a point in time, from the kernel's time to the server's */

#endif
