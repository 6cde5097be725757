/* Child processes that serve: they are forked, watched, replaced if they crash, and waited for at
 * the end.
 *
 * A child is killed when its parent ends. */
#ifndef GS_SERVE_CHILDREN_H
#define GS_SERVE_CHILDREN_H

#include "serve/accept/admission.h"

#include <sys/types.h>

/* In the caller's storage, zeroed except the first members. */
struct serve_children_group {
    struct serve_admission *admission;
    unsigned count;

    /* In each child: serve until the listeners are shut down. Returns its exit status. */
    int (*serve)(void *data, unsigned index);

    /* In the parent: a child has crashed. May be NULL. */
    void (*crashed)(void *data, unsigned index);
    void *data;

    pid_t *members;       /* from here on private; 0: not running */
    uint64_t *started_ns; /* GS_NEVER: given up */
    unsigned alive, given_up;
    int result;
};

/* Fork them, call serve_wait, drain, and wait for all of them. Returns 0 or -errno. */
GS_MUST_CHECK int serve_children_run(struct serve_children_group *group);

/* Fork the calling process, which has one thread. Returns as fork. */
GS_MUST_CHECK pid_t serve_fork_child(void);

/* Reap a child that has ended, if any, and report it if it has crashed. Returns its process id; 0:
 * none has ended; -ECHILD: there is no child. */
GS_MUST_CHECK pid_t serve_reap_child(bool *ret_crashed);

/* Wait for SIGCHLD, which is blocked, until a time. */
void serve_wait_for_child(uint64_t until_ns);

#endif
