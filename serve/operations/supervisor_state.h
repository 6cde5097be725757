/* What the parts of the supervisor share: supervisor.c has its loop, supervisor_start.c starts a
 * generation, and supervisor_resume.c carries all of this over to a new program. */
#ifndef GS_SERVE_SUPERVISOR_STATE_H
#define GS_SERVE_SUPERVISOR_STATE_H

#include "serve/operations/generation.h"
#include "serve/operations/kept_sockets.h"
#include "serve/operations/notify.h"

#include <sys/types.h>

#define SERVE_NO_PLACE UINT32_MAX

/* The life of one: starting (its place is `starting`), serving, draining. */
struct serve_supervised {
    uint64_t number; /* 0: the place is free */
    pid_t pid;
    int control_fd;
    bool is_late;
    uint64_t since_ns;                 /* when it was started, or became ready */
    struct serve_kept_sockets offered; /* until it is ready */
};

struct serve_supervisor {
    char **arguments, **environment; /* of the program */
    uint64_t start_timeout_ns;
    struct serve_notify notify;
    int signal_fd, page_fd;
    struct serve_generation_page *page;
    struct serve_kept_sockets activated; /* opened by a service manager */
    struct serve_kept_sockets bound;     /* by the generation that serves */
    struct serve_supervised places[SERVE_GENERATIONS_MAX];
    uint64_t last_number;
    unsigned serving, starting; /* places, or SERVE_NO_PLACE */
    bool wants_reload, wants_upgrade, wants_reopen;
    bool is_upgrading; /* what starts is a new program */
    bool is_ending, has_served;
    uint64_t restart_ns, backoff_ns; /* after a crash; GS_NEVER: none is due */
    int status;
};

/* Fork and execute a generation into this free place: of the program that runs, or, for an upgrade,
 * of the one on disk. Returns 0 or -errno. */
GS_MUST_CHECK int serve_supervisor_start(struct serve_supervisor *supervisor, unsigned place,
                                         bool is_upgrade);

/* Execute the program on disk. Returns -errno if that fails: then all is as before. */
int serve_supervisor_execute(struct serve_supervisor *supervisor);

/* Take over what the program before has left. Returns 0 or -errno. */
GS_MUST_CHECK int serve_supervisor_take_over(struct serve_supervisor *supervisor);

/* Map the page of page_fd. Returns 0 or -errno. */
GS_MUST_CHECK int serve_supervisor_map(struct serve_supervisor *supervisor);

#define SERVE_SUPERVISOR_VARIABLE "GOSSAMER_SUPERVISOR"

/* The environment without what is meant for one process, followed by the `added` strings. Returns
 * NULL if there is no memory. */
char **serve_supervisor_make_environment(char *const *environment, char *const *added,
                                         unsigned count);

#endif
