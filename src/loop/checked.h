/* Checks of the use of loops and watchers, in the library gossamer_checked only (base/checked.h).
 * A table has the addresses of all loops and active watchers. */
#ifndef GS_LOOP_CHECKED_H
#define GS_LOOP_CHECKED_H

#include "base/checked.h"

#ifdef GS_CHECKED

struct gs_io;
struct gs_loop;
struct gs_watcher;

/* ---- Loops ---- */

struct gs_loop_state {
    uint64_t magic;
    int runner; /* the kernel thread that runs the loop; 0: none */
    int owner;  /* with io_uring: the one that ran it first; 0: none yet */
    unsigned depth;
    struct gs_call call; /* the outermost one that runs it */
};

void gs_checked_new_loop(struct gs_loop *loop);
#define CHECKED_NEW_LOOP(loop_) gs_checked_new_loop(loop_)

/* Forget the loop and its watchers. */
void gs_checked_forget_loop(struct gs_loop *loop);
#define CHECKED_FORGET_LOOP(loop_) gs_checked_forget_loop(loop_)

/* The loop exists, and no other kernel thread runs it. */
void gs_checked_loop(struct gs_call call, struct gs_loop *loop);
#define CHECKED_LOOP(loop_) gs_checked_loop(THIS_CALL, loop_)

/* The loop exists. Any thread, and signal handlers. */
void gs_checked_any_loop(struct gs_call call, struct gs_loop *loop);
#define CHECKED_ANY_LOOP(loop_) gs_checked_any_loop(THIS_CALL, loop_)

/* The caller runs the loop until it leaves the block. */
struct gs_loop *gs_checked_enter(struct gs_call call, struct gs_loop *loop);
void gs_checked_leave(struct gs_loop **loop);
#define CHECKED_RUN(loop_)                                                                         \
    __attribute__((cleanup(gs_checked_leave))) struct gs_loop *checked_loop =                      \
        gs_checked_enter(THIS_CALL, loop_)

/* In the child process: the caller runs the loop, if its parent did. */
void gs_checked_loop_after_fork(struct gs_loop *loop);
#define CHECKED_LOOP_AFTER_FORK(loop_) gs_checked_loop_after_fork(loop_)

/* The loop is not running. Keep it for a while. Returns a loop that may be freed, or NULL. */
void gs_checked_free(struct gs_call call, struct gs_loop *loop);
#define CHECKED_FREE(loop_) gs_checked_free(THIS_CALL, loop_)
struct gs_loop *gs_quarantine_loop(struct gs_loop *loop);

/* A deadline on the loop's clock, which a test may have replaced. */
void gs_checked_loop_deadline(struct gs_call call, const struct gs_loop *loop,
                              uint64_t deadline_ns);
#define CHECKED_LOOP_DEADLINE(loop_, deadline_ns_)                                                 \
    gs_checked_loop_deadline(THIS_CALL, loop_, deadline_ns_)

/* ---- Watchers ---- */

/* It is not active. The memory may be uninitialised. */
void gs_checked_init(struct gs_call call, const struct gs_watcher *watcher);
#define CHECKED_INIT(watcher_) gs_checked_init(THIS_CALL, watcher_)

/* It was initialised, its loop exists and is not run by another kernel thread; if it is active, it
 * was not moved since. kind: enum kind */
void gs_checked_start(struct gs_call call, const struct gs_watcher *watcher, unsigned kind);
#define CHECKED_START(watcher_, kind_) gs_checked_start(THIS_CALL, watcher_, kind_)

/* The same if it is active. */
void gs_checked_stop(struct gs_call call, const struct gs_watcher *watcher);
#define CHECKED_STOP(watcher_) gs_checked_stop(THIS_CALL, watcher_)

/* It was started, or stopped. */
void gs_checked_activate(const struct gs_watcher *watcher);
void gs_checked_deactivate(const struct gs_watcher *watcher);
#define CHECKED_ACTIVATE(watcher_) gs_checked_activate(watcher_)
#define CHECKED_DEACTIVATE(watcher_) gs_checked_deactivate(watcher_)

/* ---- Descriptors ---- */

/* A file, as far as fstat tells: eventfds and the like are all the same. */
struct gs_file_identity {
    uint64_t device, inode;
};

/* Returns 0 or -errno. */
int gs_file_identify(int fd, struct gs_file_identity *ret_identity);

/* Called before changes are registered: a descriptor that has changed, and has a watcher for which
 * it was registered before, still refers to the same file. */
void gs_checked_changes(struct gs_loop *loop);
#define CHECKED_CHANGES(loop_) gs_checked_changes(loop_)

/* The watcher was started, and was not set before: its descriptor must refer to the file that is
 * registered. */
void gs_checked_unverified(const struct gs_io *io);
#define CHECKED_UNVERIFIED(io_) gs_checked_unverified(io_)

#else
#define CHECKED_CHANGES(loop_) ((void)0)
#define CHECKED_UNVERIFIED(io_) ((void)0)
#define CHECKED_NEW_LOOP(loop_) ((void)0)
#define CHECKED_FORGET_LOOP(loop_) ((void)0)
#define CHECKED_LOOP(loop_) ((void)0)
#define CHECKED_ANY_LOOP(loop_) ((void)0)
#define CHECKED_RUN(loop_) ((void)0)
#define CHECKED_LOOP_AFTER_FORK(loop_) ((void)0)
#define CHECKED_FREE(loop_) ((void)0)
#define CHECKED_LOOP_DEADLINE(loop_, deadline_ns_) ((void)0)
#define CHECKED_INIT(watcher_) ((void)0)
#define CHECKED_START(watcher_, kind_) ((void)0)
#define CHECKED_STOP(watcher_) ((void)0)
#define CHECKED_ACTIVATE(watcher_) ((void)0)
#define CHECKED_DEACTIVATE(watcher_) ((void)0)
#endif

#endif
