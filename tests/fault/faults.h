/* Calls that fail when asked to, in a server that is another process.
 *
 *     fault_arm(&(struct fault){FAULT_ACCEPT, -EMFILE}, 3, 1);   the third accept4, once
 *     ... the server works ...
 *     if (fault_disarm())
 *         ... it came to that
 *
 * The server's process calls fault_enter before anything else. What it is to do then stands in
 * memory that it shares with the test, and so does what it did. Its system calls are failed by the
 * hook of gossamer/sys.h, or in calls.c where more than an error is wanted, and its allocations in
 * memory.c. */
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
    FAULT_CALLS,  /* their number; or none of them */
    FAULT_MEMORY, /* accepting and allocating, both */
};

/* Results that are more than an error. */
enum {
    FAULT_SHORT = 1, /* one byte is moved */
    FAULT_ENDED,     /* none, because the file ends here */
    FAULT_FILLS_UP,  /* one byte, and from then on -ENOSPC */
};

#define FAULT_ALWAYS 1000000

struct fault {
    enum fault_call call;
    int result;         /* -errno, or of those above */
    unsigned unnoticed; /* so many in a row must not be noticed by any client */
};

/* "accept4: EMFILE", valid until the next call. */
const char *fault_name(const struct fault *fault);

/* ---- For the test ---- */

/* Before the first server. */
void fault_init(void);

/* Of the calls from now on, the from-th (the first is 1) and what follows fail, `times` of them. */
void fault_arm(const struct fault *fault, unsigned from, unsigned times);

/* Returns how many calls failed. */
unsigned fault_disarm(void);

/* The server's time goes `speed` times as fast, from its start on; and at once it is later by
 * this. */
void fault_set_speed(unsigned speed);
void fault_pass(uint64_t ns);

/* How many calls of this kind the server has made, failed ones too. */
unsigned fault_made(enum fault_call call);

/* A system call that the server made and that is not listed here, or 0. */
long fault_unlisted(void);

int fault_live(void);                                 /* allocations that have not been freed */
int fault_waiting(void);                              /* threads that wait for events */
void fault_left(int *ret_live, int *ret_descriptors); /* when the server's main function returned */

/* ---- For the server's process ---- */

void fault_enter(void);

/* The server's main function has returned, and this many descriptors are open. */
void fault_leave(int descriptors);

/* A call is about to be made. Returns 0 or the result that it shall have. */
int fault_take(enum fault_call call);

void fault_count_live(int change);
void fault_count_waiting(int change);
uint64_t fault_scale(uint64_t ns);     /* from the server's time to that of the kernel */
uint64_t fault_clock(uint64_t now_ns); /* and the other way round, for points in time */

#endif
