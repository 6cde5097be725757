/* Child processes that serve: they are begun, watched, begun anew if they crash, and waited for in the end.
 *
 * A child dies with the process that began it. */
#ifndef GS_SERVE_FAMILY_H
#define GS_SERVE_FAMILY_H

#include "serve/gate.h"

#include <sys/types.h>

/* In the caller's storage, zeroed but for the first members. */
struct serve_family {
    struct serve_gate *gate;
    unsigned count;

    /* In each child: serve until the gate is closed. Returns its exit status. */
    int (*serve)(void *data, unsigned index);

    /* In the parent: a child has crashed. May be NULL. */
    void (*crashed)(void *data, unsigned index);
    void *data;

    pid_t *members; /* from here on private; 0: none */
    uint64_t *begun_ns;
    unsigned alive;
    int result;
};

/* Begin them, call serve_wait, let the gate drain, and wait for all of them. Returns 0 or -errno. */
GS_MUST_CHECK int serve_family_run(struct serve_family *family);

/* A child of the calling process, which has one thread: as fork. */
GS_MUST_CHECK pid_t serve_begin_child(void);

/* Reap a child that has ended, if there is one, and report it if it has crashed. Returns its process id; 0: none has ended; -ECHILD: there
 * is none at all. */
GS_MUST_CHECK pid_t serve_reap_child(bool *ret_crashed);

/* Wait for a signal that a child has ended, which is blocked, until a time. */
void serve_wait_for_child(uint64_t until_ns);

#endif
