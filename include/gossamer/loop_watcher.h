/* What all watchers of an event loop have in common. Part of gossamer/loop.h, which tells how a
 * loop calls them. */
#ifndef GOSSAMER_LOOP_WATCHER_H
#define GOSSAMER_LOOP_WATCHER_H

#include <gossamer/api.h>
#include <gossamer/list.h>
#include <stdbool.h>
#include <stdint.h>

struct gs_loop;

/* A bit for each kind. */
enum gs_kind {
    GS_KIND_IO = 1 << 0,
    GS_KIND_CHILD = 1 << 1,
    GS_KIND_EMBED = 1 << 2,
    GS_KIND_OP = 1 << 3,
    GS_KIND_TIMER = 1 << 4,
    GS_KIND_PERIODIC = 1 << 5,
    GS_KIND_SIGNAL = 1 << 6,
    GS_KIND_FILE = 1 << 7,
    GS_KIND_IDLE = 1 << 8,
    GS_KIND_PREPARE = 1 << 9,
    GS_KIND_CHECK = 1 << 10,
    GS_KIND_ASYNC = 1 << 11,
    GS_KIND_FORK = 1 << 12,
    GS_KIND_CLEANUP = 1 << 13,
};
#define GS_KINDS_ALL ((1u << 14) - 1)

/* What all watchers begin with. Its members belong to the functions below, except `data`, which is
 * the caller's. */
struct gs_watcher {
    struct gs_loop *loop;
    void *data;
    struct gs_list pending; /* among those to be called; of an async: among those sent */
    uint32_t index;         /* timer, periodic: place in the heap; async: whether it was sent */
    uint8_t kind;           /* the number of its bit */
    bool active : 1;
    bool unreferenced : 1;
    bool is_internal : 1; /* the loop's own */
    int8_t priority;      /* -2 to 2, 0 at first */
    uint8_t events;       /* that are pending */
};

/* Started and not stopped since. A watcher that fires once (a timer, a periodic, a child) is
 * inactive when its callback is called, and so is a descriptor's that is called with GS_FAILED. */
static inline bool gs_watcher_is_active(const struct gs_watcher *watcher)
{
    return watcher->active;
}

static inline enum gs_kind gs_watcher_kind(const struct gs_watcher *watcher)
{
    return (enum gs_kind)(1u << watcher->kind);
}

/* priority: -2 (last) to 2 (first). Only while inactive. */
GS_API void gs_watcher_set_priority(struct gs_watcher *watcher, int priority);

/* An unreferenced active watcher does not keep gs_loop_run from returning. Once for each; undone by
 * gs_watcher_ref. Fork and cleanup watchers begin unreferenced. */
GS_API void gs_watcher_unref(struct gs_watcher *watcher);
GS_API void gs_watcher_ref(struct gs_watcher *watcher);

/* Make the watcher pending, as if `events` had happened (of a descriptor or a file; others have
 * none). What happens once is then over: the watcher is stopped before its call, as ever. A child
 * that has not ended, and an embedded loop that has nothing to do, are called all the same. Does
 * nothing when inactive. */
GS_API void gs_watcher_feed(struct gs_watcher *watcher, unsigned events);

/* Call `visit` for each active watcher of `kinds` (bits of enum gs_kind): first those of
 * descriptors, by number, then the other kinds, one after the other. It may stop and start
 * watchers, and end the life of the one that it visits, but of no other; what was stopped meanwhile
 * is not visited, nor what was started. Returns how many were visited, or -ENOMEM before the first.
 */
typedef void gs_walk_fn(struct gs_watcher *watcher, void *data);
GS_API GS_MUST_CHECK int gs_loop_walk(struct gs_loop *loop, unsigned kinds, gs_walk_fn *visit,
                                      void *data);

#endif
