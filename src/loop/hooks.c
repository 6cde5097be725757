/* Idle, prepare, check, fork and cleanup watchers. Each kind has a list, sorted by priority and
 * then in the order of start; that of cleanup watchers is in reverse order of start. */
#include "loop/state.h"

/* watcher_of works for all of them. */
_Static_assert(offsetof(struct gs_idle, link) == offsetof(struct gs_prepare, link), "prepare");
_Static_assert(offsetof(struct gs_idle, link) == offsetof(struct gs_check, link), "check");
_Static_assert(offsetof(struct gs_idle, link) == offsetof(struct gs_fork, link), "fork");
_Static_assert(offsetof(struct gs_idle, link) == offsetof(struct gs_loop_cleanup, link), "cleanup");

static struct gs_watcher *watcher_of(struct gs_list *link)
{
    return &gs_container_of(link, struct gs_idle, link)->watcher;
}

/* Insert the link after the others of its priority. */
static void insert(struct gs_list *list, struct gs_list *link)
{
    struct gs_list *position = list->previous;
    while (position != list && watcher_of(position)->priority < watcher_of(link)->priority)
        position = position->previous;
    gs_list_insert_before(position->next, link);
}

static void start(struct gs_watcher *watcher, struct gs_list *link, struct gs_list *list)
{
    if (watcher->active)
        return;
    insert(list, link);
    gs_loop_activate(watcher);
}

static void stop(struct gs_watcher *watcher, struct gs_list *link)
{
    if (!watcher->active)
        return;
    gs_list_remove(link);
    gs_loop_deactivate(watcher);
}

void gs_idle_init(struct gs_idle *idle, struct gs_loop *loop, gs_idle_fn *callback)
{
    CHECKED_INIT(&idle->watcher);
    *idle = (struct gs_idle){.watcher = {.loop = loop, .kind = KIND_IDLE}, .callback = callback};
}

void gs_idle_start(struct gs_idle *idle)
{
    CHECKED_START(&idle->watcher, KIND_IDLE);
    start(&idle->watcher, &idle->link, &idle->watcher.loop->idles);
}

void gs_idle_stop(struct gs_idle *idle)
{
    CHECKED_STOP(&idle->watcher);
    stop(&idle->watcher, &idle->link);
}

void gs_loop_collect_idles(struct gs_loop *loop)
{
    GS_LIST_FOREACH (link, &loop->idles)
        gs_loop_set_pending(watcher_of(link), 0);
}

void gs_prepare_init(struct gs_prepare *prepare, struct gs_loop *loop, gs_prepare_fn *callback)
{
    CHECKED_INIT(&prepare->watcher);
    *prepare =
        (struct gs_prepare){.watcher = {.loop = loop, .kind = KIND_PREPARE}, .callback = callback};
}

void gs_prepare_start(struct gs_prepare *prepare)
{
    CHECKED_START(&prepare->watcher, KIND_PREPARE);
    start(&prepare->watcher, &prepare->link, &prepare->watcher.loop->prepares);
}

void gs_prepare_stop(struct gs_prepare *prepare)
{
    CHECKED_STOP(&prepare->watcher);
    stop(&prepare->watcher, &prepare->link);
}

void gs_check_init(struct gs_check *check, struct gs_loop *loop, gs_check_fn *callback)
{
    CHECKED_INIT(&check->watcher);
    *check = (struct gs_check){.watcher = {.loop = loop, .kind = KIND_CHECK}, .callback = callback};
}

void gs_check_start(struct gs_check *check)
{
    CHECKED_START(&check->watcher, KIND_CHECK);
    start(&check->watcher, &check->link, &check->watcher.loop->checks);
}

void gs_check_stop(struct gs_check *check)
{
    CHECKED_STOP(&check->watcher);
    stop(&check->watcher, &check->link);
}

/* Each watcher is moved back to its list before its call. So a callback may stop its watcher, start
 * others, which are not called in this iteration, and run a nested iteration, which calls the
 * remaining ones first. */
void gs_loop_call_prepares(struct gs_loop *loop)
{
    gs_list_append_all(&loop->preparing, &loop->prepares);
    while (!gs_list_is_empty(&loop->preparing)) {
        struct gs_list *link = gs_list_first(&loop->preparing);
        struct gs_prepare *prepare = gs_container_of(link, struct gs_prepare, link);
        gs_list_remove(link);
        insert(&loop->prepares, link);
        loop->counts.callbacks++;
        prepare->callback(prepare);
    }
}

/* In reverse order, so that the first one ends up first. */
void gs_loop_collect_checks(struct gs_loop *loop)
{
    for (struct gs_list *link = loop->checks.previous; link != &loop->checks; link = link->previous)
        gs_loop_set_pending_first(watcher_of(link));
}

void gs_fork_init(struct gs_fork *fork, struct gs_loop *loop, gs_fork_fn *callback)
{
    CHECKED_INIT(&fork->watcher);
    *fork = (struct gs_fork){
        .watcher = {.loop = loop, .kind = KIND_FORK, .unreferenced = true},
        .callback = callback,
    };
}

void gs_fork_start(struct gs_fork *fork)
{
    CHECKED_START(&fork->watcher, KIND_FORK);
    start(&fork->watcher, &fork->link, &fork->watcher.loop->forks);
}

void gs_fork_stop(struct gs_fork *fork)
{
    CHECKED_STOP(&fork->watcher);
    stop(&fork->watcher, &fork->link);
}

/* As for prepare watchers. */
void gs_loop_call_forks(struct gs_loop *loop)
{
    struct gs_list calling;
    gs_list_init(&calling);
    gs_list_append_all(&calling, &loop->forks);
    while (!gs_list_is_empty(&calling)) {
        struct gs_list *link = gs_list_first(&calling);
        struct gs_fork *fork = gs_container_of(link, struct gs_fork, link);
        gs_list_remove(link);
        insert(&loop->forks, link);
        loop->counts.callbacks++;
        fork->callback(fork);
    }
}

void gs_loop_cleanup_init(struct gs_loop_cleanup *cleanup, struct gs_loop *loop,
                          gs_loop_cleanup_fn *callback)
{
    CHECKED_INIT(&cleanup->watcher);
    *cleanup = (struct gs_loop_cleanup){
        .watcher = {.loop = loop, .kind = KIND_CLEANUP, .unreferenced = true},
        .callback = callback,
    };
}

void gs_loop_cleanup_start(struct gs_loop_cleanup *cleanup)
{
    CHECKED_START(&cleanup->watcher, KIND_CLEANUP);
    if (cleanup->watcher.active)
        return;
    gs_list_prepend(&cleanup->watcher.loop->cleanups, &cleanup->link);
    gs_loop_activate(&cleanup->watcher);
}

void gs_loop_cleanup_stop(struct gs_loop_cleanup *cleanup)
{
    CHECKED_STOP(&cleanup->watcher);
    stop(&cleanup->watcher, &cleanup->link);
}

void gs_loop_call_cleanups(struct gs_loop *loop)
{
    while (!gs_list_is_empty(&loop->cleanups)) {
        struct gs_list *link = gs_list_first(&loop->cleanups);
        struct gs_loop_cleanup *cleanup = gs_container_of(link, struct gs_loop_cleanup, link);
        gs_loop_cleanup_stop(cleanup);
        cleanup->callback(cleanup);
    }
}
