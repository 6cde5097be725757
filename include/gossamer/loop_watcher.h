/* What all watchers of an event loop share. Part of gossamer/loop.h, which describes how a loop
 * calls them. */
#ifndef GOSSAMER_LOOP_WATCHER_H
#define GOSSAMER_LOOP_WATCHER_H

#include <gossamer/api.h>
#include <gossamer/list.h>
#include <stdbool.h>
#include <stdint.h>

GS_BEGIN_DECLS

struct gs_loop;

/* The kinds of watchers, as bits: gs_loop_walk takes a set of them. */
enum gs_watcher_kind {
    GS_WATCHER_IO = 1 << 0,
    GS_WATCHER_CHILD = 1 << 1,
    GS_WATCHER_EMBED = 1 << 2,
    GS_WATCHER_OP = 1 << 3,
    GS_WATCHER_TIMER = 1 << 4,
    GS_WATCHER_PERIODIC = 1 << 5,
    GS_WATCHER_SIGNAL = 1 << 6,
    GS_WATCHER_FILE = 1 << 7,
    GS_WATCHER_IDLE = 1 << 8,
    GS_WATCHER_PREPARE = 1 << 9,
    GS_WATCHER_CHECK = 1 << 10,
    GS_WATCHER_ASYNC = 1 << 11,
    GS_WATCHER_FORK = 1 << 12,
    GS_WATCHER_CLEANUP = 1 << 13,
    GS_WATCHER_WORK = 1 << 14,
};
#define GS_WATCHERS_ALL ((1u << 15) - 1)

/* The first member of every watcher. Only `data` belongs to the caller; `loop` may be read, and so
 * may the `fd`, `pid` or `number` of the watcher around it. */
struct gs_watcher {
    struct gs_loop *loop;
    void *data;
    struct gs_list pending; /* in a list of pending watchers; of an async: of sent asyncs */
    uint32_t index;         /* timer, periodic: index in the heap; async: whether it was sent */
    uint8_t kind;           /* the number of its bit in enum gs_watcher_kind */
    bool active : 1;
    bool unreferenced : 1;
    bool is_internal : 1; /* used by the loop itself */
    int8_t priority;      /* -2 to 2; 0 is the default */
    uint8_t events;       /* pending events */
};

/* Returns whether the watcher was started and not stopped since. A watcher that fires once (a
 * timer, a periodic, a child) is inactive when its callback is called, and so is a descriptor
 * watcher that is called with GS_FAILED. */
static inline bool gs_watcher_is_active(const struct gs_watcher *watcher)
{
    return watcher->active;
}

/* Returns the kind of the watcher. */
static inline enum gs_watcher_kind gs_watcher_kind(const struct gs_watcher *watcher)
{
    return (enum gs_watcher_kind)(1u << watcher->kind);
}

/* priority: -2 (called last) to 2 (called first). Only while inactive. */
GS_API void gs_watcher_set_priority(struct gs_watcher *watcher, int priority);

/* gs_loop_run returns when no referenced watcher is active. All watchers are referenced by default,
 * except fork and cleanup watchers. This is a flag, not a count. */
GS_API void gs_watcher_unref(struct gs_watcher *watcher);
GS_API void gs_watcher_ref(struct gs_watcher *watcher);

/* Make the watcher pending, as if `events` had occurred (of a descriptor or a file; the other kinds
 * have no events). A watcher that fires once is stopped before its call, as usual. The watchers of
 * a child that has not ended, and of an embedded loop that has nothing to do, are called too. Has
 * no effect on an inactive watcher, nor on work.
 *
 * If the only watcher of a descriptor is fed right after its start, the descriptor is passed to the
 * kernel only after the callback. A server can thus feed the watcher of each accepted connection,
 * whose request has usually arrived: if the callback answers and closes the connection, no system
 * call registers it. */
GS_API void gs_watcher_feed(struct gs_watcher *watcher, unsigned events);

/* ---- The walk over the active watchers of a loop ----
 *
 *     int timers = gs_loop_walk(loop, GS_WATCHER_TIMER | GS_WATCHER_PERIODIC, print, NULL);
 */

/* Call `visit` for each active watcher of `kinds` (bits of enum gs_watcher_kind): first descriptor
 * watchers, by number, then the other kinds in turn. `visit` may stop and start watchers, and may
 * free the watcher that it visits, but no other one. Watchers that were stopped or started during
 * the walk are not visited. Returns the number of watchers visited, or -ENOMEM before the first
 * visit. */
typedef void gs_walk_fn(struct gs_watcher *watcher, void *data);
GS_API GS_MUST_CHECK int gs_loop_walk(struct gs_loop *loop, unsigned kinds, gs_walk_fn *visit,
                                      void *data);

GS_END_DECLS

#endif
