/* How a worker waits for answers.
 *
 * To be woken costs some microseconds, this thread and on loopback the server too: a client that
 * sleeps whenever it has dealt with one answer, and is woken for the next a little later, is slow
 * and slows the server down. So it depends on how soon events usually come:
 *
 *     later than it pays to wait for     sleep in the kernel until the next one
 *     sooner                             look for them again and again, for that time; if answers
 *                                        usually take long, with a nap between two looks
 *
 * Nobody is woken from a nap; it ends by itself, and several answers are there. It is at most a
 * 32nd of the usual response time, so that no more than that is added to any time measured. */
#ifndef GS_LOAD_PACE_H
#define GS_LOAD_PACE_H

#include <gossamer/loop.h>

/* Starts from zero. The averages are of the last 16 or so. */
struct load_pace {
    uint64_t usual_gap_ns;      /* waited for an event */
    uint64_t usual_response_ns; /* of an answer */
    uint64_t since_ns;          /* there is nothing to do; 0: there is */
    uint64_t idle_ns;           /* so long there was nothing to do, in all */
};

/* Have the calling kernel thread's naps end when they should, rather than when it suits the kernel. */
void gs_load_pace_begin(void);

/* An answer has come. */
void gs_load_pace_answer(struct load_pace *pace, uint64_t response_ns);

/* Nothing is to be done: wait, and have the callbacks called. As gs_threads_wait_fn: to be called
 * again if nothing has come. Returns how many were called, perhaps none, or -errno. */
GS_MUST_CHECK int gs_load_pace_wait(struct load_pace *pace, struct gs_loop *loop);

#endif
