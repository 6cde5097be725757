/* A connection that is served by blocking calls, in a loop that waits where it must, until the
 * connection is to be closed. One call receives, runs HTTP and usually sends the answer, too; the
 * loop does what is left: it loads files, sends them, and waits for room in full sockets.
 *
 *     serve_blocking_init(&blocking, &serve_user_calls, &shard, &accepted);
 *     serve_blocking_run(&blocking);
 *     serve_connection_done(&blocking.base);
 *
 * User-level threads, kernel threads and processes run the same loop; they differ in the calls that
 * wait. Waits also end at the connection's deadline and when the server drains: then what was
 * received is still answered. A connection is used by one thread at a time. */
#ifndef GS_SERVE_BLOCKING_H
#define GS_SERVE_BLOCKING_H

#include "serve/accept/admission.h"
#include "serve/connection/connection.h"
#include "src/base/sanitized.h"

#include <gossamer/list.h>
#include <poll.h>
#include <stdatomic.h>

struct serve_blocking;

/* The calls that wait. Deadlines and results are those of gossamer/io.h: a call returns -ETIMEDOUT
 * at its deadline, and with the deadline 0 instead of waiting; -ECANCELED: the server has begun to
 * drain. */
struct serve_blocking_calls {
    /* Receive, and call serve_blocking_answer with the bytes, where there is stack for it. Returns
     * its result or -errno. */
    ssize_t (*receive_and_answer)(struct serve_blocking *blocking, uint64_t deadline_ns);

    /* Send some of the output. Returns as serve_output_send, but not -EAGAIN. */
    ssize_t (*send)(struct serve_blocking *blocking, struct serve_output *output,
                    uint64_t deadline_ns);

    /* Wait for any of POLLIN and POLLOUT; 0: only for the deadline. Returns what is ready, or
     * -errno. */
    int (*wait)(struct serve_blocking *blocking, unsigned events, uint64_t deadline_ns);

    void (*load)(struct gs_http_load *load);
    uint64_t (*now)(void);

    /* When the connection is aborted; GS_NEVER: the server is not draining. */
    uint64_t (*drain_until)(const struct serve_blocking *blocking);

    /* From now on no wait ends with -ECANCELED. NULL: the calls look at is_draining. */
    void (*ignore_cancel)(void);

    /* Let others run; NULL: the kernel does. */
    void (*yield)(void);

    /* Call a function that needs a large stack; NULL: the caller's is. */
    void *(*call)(void *(*fn)(void *data), void *data);

    bool is_kernel; /* they are those of kernel threads: the connection is a struct serve_kernel */
};

/* By user-level threads: the calls of gossamer/io.h. */
extern const struct serve_blocking_calls serve_user_calls;

struct serve_blocking {
    struct serve_connection base;
    const struct serve_blocking_calls *calls;
    /* Of serve_connection_waits while it waits, otherwise SERVE_BUSY: other threads may read it, to
     * choose one that gives way. If it has an entry in a table, that of the entry counts. */
    _Atomic(uint64_t) own_waits;
    bool is_readable : 1;  /* kernel threads: the socket, as far as is known */
    bool is_draining : 1;  /* HTTP knows that the server drains */
    bool send_nomem : 1;   /* the kernel had no memory for what is to be sent */
    bool has_received : 1; /* queue: something, since the caller has set it to false */
    bool never_waits : 1;  /* queue: a step does only what needs no waiting */
    uint8_t steps;         /* of serve_blocking_run, so far */
    uint32_t yielded_ns;   /* when it last yielded, or could have: the lower half */
};

/* The same, with what only kernel threads and processes need. */
struct serve_kernel {
    struct serve_blocking blocking;
    struct serve_admission *admission;
    struct serve_entry *entry; /* NULL: the table has no room for it */
    uint64_t idle_limit_ns; /* queue: when it is closed if it is idle; GS_NEVER: HTTP's deadline */
};

/* The stacks of threads that call serve_blocking_run. User-level threads have small ones, because
 * serve_blocking_answer runs on the worker's: a sanitizer makes frames larger, and runs it here. */
#if GS_ASAN || GS_TSAN
#define SERVE_USER_STACK_SIZE 131072
#else
#define SERVE_USER_STACK_SIZE 16384
#endif

/* Of address space; memory is what is touched of it, a few pages. */
#define SERVE_KERNEL_STACK_SIZE (256 << 10)

/* Takes accepted->fd. serve_connection_done releases it. */
void serve_blocking_init(struct serve_blocking *blocking, const struct serve_blocking_calls *calls,
                         struct serve_shard *shard, const struct serve_accepted *accepted);

/* Let others know what it waits for. */
void serve_blocking_set_waits(struct serve_blocking *blocking, uint64_t waits);

static inline bool serve_blocking_is_over(const struct serve_blocking *blocking)
{
    return gs_http_conn_wants(&blocking->base.http) & GS_HTTP_CLOSE;
}

/* Serve it until it is over. */
void serve_blocking_run(struct serve_blocking *blocking);

/* A gs_received_fn, whose data is the connection: what has come is handed to HTTP, and an answer
 * sent as far as the socket takes it, except one from a file. It does not wait. */
ssize_t serve_blocking_answer(void *data, const void *bytes, size_t n);

/* ---- By kernel threads and processes: a non-blocking call, then poll ---- */

/* The slot stays the caller's. */
void serve_kernel_init(struct serve_kernel *kernel, struct serve_admission *admission,
                       struct serve_shard *shard, const struct serve_accepted *accepted);
void serve_kernel_done(struct serve_kernel *kernel);

static inline struct serve_kernel *serve_kernel_of(const struct serve_blocking *blocking)
{
    return gs_container_of(blocking, struct serve_kernel, blocking);
}

/* Serve a connection from its acceptance to its end. 24 KiB of stack. */
void serve_kernel_run(struct serve_admission *admission, struct serve_shard *shard,
                      const struct serve_accepted *accepted);

/* As pthread_create, with SERVE_KERNEL_STACK_SIZE. Returns 0 or -errno. */
GS_MUST_CHECK int serve_kernel_thread_create(pthread_t *ret_thread, void *(*run)(void *data),
                                             void *data);

/* ---- A step, and what else workers need that have several connections (queue) ---- */

/* Do what the connection wants next. Returns false if that needs waiting and it never waits. */
bool serve_blocking_step(struct serve_blocking *blocking);

/* For those who wait for it in another way: the events of poll to wait for, and until when. */
unsigned serve_blocking_events(const struct serve_blocking *blocking);
uint64_t serve_blocking_deadline(const struct serve_blocking *blocking);

/* These events have occurred; 0: none, but perhaps the deadline. */
void serve_blocking_ready(struct serve_blocking *blocking, unsigned events);

/* Close it if it is idle and its idle limit has passed. */
void serve_kernel_check_idle(struct serve_kernel *kernel, uint64_t now_ns);

/* ---- Between blocking.c and blocking_queue.c ---- */

/* When the server, HTTP or the idle limit ends the connection's next wait. */
uint64_t serve_blocking_wait_limit(const struct serve_blocking *blocking);

/* A wait has ended without what it was for. -ECANCELED: the next step drains. */
void serve_blocking_wait_failed(struct serve_blocking *blocking, ssize_t err);

#endif
