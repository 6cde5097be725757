/* Adaptive busy polling: how a worker waits for events.
 *
 * A wakeup costs some microseconds, in this thread and on the loopback interface also in the
 * server: a client that sleeps after each response, and is woken for the next one soon afterwards,
 * slows both down. The strategy therefore depends on the average gap between events:
 *
 *     longer than a wakeup costs     block in the kernel until the next event
 *     shorter                        poll repeatedly for the cost of a wakeup; if responses take
 *                                    long on average, with a short sleep between two polls
 *
 * A short sleep ends by its timer, without a wakeup by the server, and several responses are ready
 * then. It lasts at most 1/32 of the average response time, which bounds the error it adds to any
 * measured time. */
#ifndef GS_LOAD_BUSY_POLL_H
#define GS_LOAD_BUSY_POLL_H

#include <gossamer/loop.h>

/* Starts zeroed. The averages are moving averages with weight 1/16. */
struct load_busy_poll {
    uint64_t average_gap_ns;      /* between events while the worker is idle */
    uint64_t average_response_ns; /* of responses */
    uint64_t idle_since_ns;       /* 0: not idle */
    uint64_t idle_ns;             /* total idle time */
};

/* Minimize the timer slack of the calling kernel thread, so that short sleeps end on time. */
void gs_load_busy_poll_set_timer_slack(void);

void gs_load_busy_poll_record_response(struct load_busy_poll *poll, uint64_t response_ns);

/* Wait for events and run their callbacks, as gs_threads_wait_fn: the runtime calls it again if no
 * event occurred. Returns the number of callbacks, which may be 0, or -errno. */
GS_MUST_CHECK int gs_load_busy_poll_wait(struct load_busy_poll *poll, struct gs_loop *loop);

#endif
