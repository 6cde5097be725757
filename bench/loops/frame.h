/* The framework of the programs in bench/loops: frame.c measures, and each of the other files
 * adapts one library.
 *
 *     PROGRAM pairs MODE PAIRS ACTIVE TIMEOUTS    total, setup and poll of the second iteration,
 *                                                 and their minima of later ones, us; calls of
 *                                                 epoll_ctl for a watcher in the setup
 *     PROGRAM timers COUNT                        adding, re-arming, expiring, ns each
 *     PROGRAM memory COUNT                        memory of an I/O watcher and of a timer, bytes
 *
 * The exit status is 3 if the library does not support the measurement. */
#ifndef BENCH_LOOPS_FRAME_H
#define BENCH_LOOPS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a stopped watcher is started again; MODE is same or set. */
enum restart_mode {
    RESTART_SAME, /* unchanged */
    RESTART_SET,  /* after its descriptor was set again */
};

/* ---- Defined by each library's file ---- */

/* Create a loop, and storage for this number of I/O watchers and timers. */
void subject_open(enum restart_mode mode, unsigned io_count, unsigned timer_count);

/* Watch fd for reading; if the watcher is active, stop it and start it again. timeout_ns: idle
 * timeout of the watcher, which its callback restarts; 0: none. A library whose I/O watchers have
 * no timeouts uses the timer of the same number. */
void subject_watch(unsigned i, int fd, uint64_t timeout_ns);

/* Start a timer, or move an active one. */
void subject_set_timer(unsigned i, uint64_t delay_ns);

/* Run one iteration, without waiting. */
void subject_step(void);

/* ---- Called by the callbacks of each library's file ---- */

void frame_readable(unsigned i);
void frame_fired(void);

/* Whether callbacks restart their watcher's timeout, and a random timeout of 10 to 11 s. */
extern bool frame_has_timeouts;
uint64_t frame_timeout_ns(void);

/* The subject does not call the C library's epoll_ctl, so that its calls cannot be counted. */
void frame_hides_control_calls(void);

/* ---- Common functions ---- */

/* Exit with status 1 unless the condition holds. */
void frame_must(bool condition, const char *what);

/* Exit with status 3, because the library does not support the measurement. */
_Noreturn void frame_unsupported(void);

/* Returns zeroed memory, aligned to a cache line. */
void *frame_storage(size_t count, size_t size);

#endif
