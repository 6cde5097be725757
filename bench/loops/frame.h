/* What the programs of bench/loops share: frame.c measures, the other files say the same thing in the words of a library each.
 *
 *     PROGRAM pairs WAY PAIRS ACTIVE TIMEOUTS     total, setup and poll, us: of the second iteration, and the least later
 *     PROGRAM timers COUNT                        adding, re-arming, expiring, ns each
 *     PROGRAM wake COUNT                          a wake-up from another thread and its answer, ns
 *     PROGRAM signals COUNT                       a signal from kill to callback, ns
 *     PROGRAM quiet COUNT                         an iteration with one active descriptor and so many quiet ones, ns
 *     PROGRAM memory COUNT                        of an I/O watcher and of a timer, bytes
 *
 * What a library lacks is status 3. */
#ifndef BENCH_LOOPS_FRAME_H
#define BENCH_LOOPS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a watcher that is stopped is started again. */
enum way {
    WAY_AGAIN,      /* as it is */
    WAY_ANEW,       /* with its descriptor set anew */
    WAY_CHANGELIST, /* as it is, in libevent's mode that gathers changes */
};

/* ---- What each library's file defines ---- */

/* A loop with storage for so many I/O watchers and timers. */
void subject_open(enum way the_way, unsigned io_count, unsigned timer_count);

/* Watch fd for reading; a watcher that is active is stopped and started again. */
void subject_watch(unsigned i, int fd);

/* Start a timer, or move an active one. */
void subject_set_timer(unsigned i, uint64_t delay_ns);

/* Let the second thread wake the loop, and let a signal be caught. */
void subject_open_wake(void);
void subject_wake(void);
void subject_open_signal(int number);

/* One iteration. */
void subject_step(bool waits);

/* ---- What its callbacks call ---- */

void frame_readable(unsigned i);
void frame_fired(void);
void frame_woken(void);

/* Whether callbacks move their watcher's timer, and a random 10 to 11 s to move it by. */
extern bool frame_has_timeouts;
uint64_t frame_timeout_ns(void);

/* ---- For both ---- */

/* Ends the program with status 1 unless it holds. */
void frame_must(bool condition, const char *what);

/* Ends the program with status 3: the library has no such thing. */
_Noreturn void frame_lacks(void);

/* Zeroed, at a multiple of a cache line. */
void *frame_storage(size_t count, size_t size);

#endif
