/* The parts of a dump of all threads. */
#ifndef GS_THREAD_DUMP_H
#define GS_THREAD_DUMP_H

#include "thread/report/backtrace.h"

/* ---- Groups of threads (dump_groups.c) ----
 * Their memory is bounded. It is guarded as the symbols are: the caller has opened them. */

enum dumped_state { DUMPED_RUNNING, DUMPED_CREATED, DUMPED_NEW, DUMPED_READY, DUMPED_WAITING };

/* A thread, as it was when the dump came to it. It may end before it is written. */
struct dumped {
    const struct gs_thread *thread;
    char name[NAME_SIZE];
    enum dumped_state state;
    unsigned worker;   /* which runs it, from 1 */
    char activity[64]; /* of that worker; empty: the thread calls for the dump */
    const struct wait_kind *kind; /* if it waits; else NULL, as the next two */
    const void *object;
    uint64_t waited_ns;
    size_t used; /* bytes of its stack */
};

void gs_dump_clear_groups(void);

/* Add the thread to the group with the same state, kind of wait and calls. One that runs is a group
 * of its own. */
void gs_dump_add(const struct dumped *dumped, const struct program_calls *calls);

/* Write the groups: threads that run, then the others, the largest group first. */
void gs_dump_print_groups(int fd);

/* ---- What a thread waits at (dump_object.c) ---- */

/* Describe it, after a space: the number of a descriptor with the address of its peer, the number
 * of a signal, or an address. Empty: nothing is known. */
void gs_dump_object(const struct wait_kind *kind, const void *object, char *ret_text, size_t size);

#endif
