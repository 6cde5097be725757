#include "serve/operations/progress.h"

#include "serve/accept/accept.h"

#include <errno.h>
#include <stdlib.h>

/* How many looks there are in the time of the watchdog: a connection may just have come when one is
 * taken, or the next two. */
#define LOOKS 4

/* Each count only grows. */
static uint64_t counted(const struct serve_server *server, unsigned worker)
{
    const uint64_t *counts = (const uint64_t *)&server->counts[worker].http;
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof server->counts[worker].http / sizeof *counts; i++)
        sum += __atomic_load_n(&counts[i], __ATOMIC_RELAXED);
    return sum;
}

/* Workers that share their sockets are looked at together. */
static bool has_own_sockets(const struct serve_server *server)
{
    for (unsigned i = 0; i < server->address_count; i++) {
        unsigned inherited = server->addresses[i].inherited;
        if (inherited && inherited < server->set_count)
            return false;
    }
    return server->set_count > 1;
}

static uint64_t counted_by_set(const struct serve_server *server, unsigned set)
{
    uint64_t sum = 0;
    if (has_own_sockets(server))
        return counted(server, set);
    for (unsigned i = 0; i < server->workers; i++)
        sum += counted(server, i);
    return sum;
}

static bool is_connection_pending(const struct serve_server *server, unsigned set)
{
    const int *listeners = server->listeners + (size_t)set * server->address_count;
    for (unsigned i = 0; i < server->address_count; i++)
        if (listeners[i] >= 0 && serve_is_connection_pending(listeners[i]))
            return true;
    return false;
}

bool serve_progress_look(struct serve_progress *progress)
{
    const struct serve_server *server = progress->server;
    bool is_stuck = false;
    for (unsigned set = 0; set < server->set_count; set++) {
        uint64_t count = counted_by_set(server, set);
        is_stuck |= count == progress->seen[set] && is_connection_pending(server, set);
        progress->seen[set] = count;
    }
    return !is_stuck;
}

static void on_time(struct gs_timer *timer)
{
    struct serve_progress *progress = timer->watcher.data;
    const struct serve_notify *notify = &progress->server->notify;
    if (serve_progress_look(progress))
        serve_notify_send(notify, "WATCHDOG=1");
    (void)!gs_timer_start(timer, gs_loop_now(timer->watcher.loop) + notify->watchdog_ns / LOOKS);
}

int serve_progress_start(struct serve_progress *progress, struct serve_server *server,
                         struct gs_loop *loop)
{
    if (!server->notify.watchdog_ns)
        return 0;
    progress->server = server;
    progress->seen = calloc(server->set_count, sizeof *progress->seen);
    if (!progress->seen)
        return -ENOMEM;
    gs_timer_init(&progress->timer, loop, on_time);
    progress->timer.watcher.data = progress;
    return gs_timer_start(&progress->timer, gs_loop_now(loop));
}

void serve_progress_stop(struct serve_progress *progress)
{
    if (!progress->seen)
        return;
    gs_timer_stop(&progress->timer);
    free(progress->seen);
    progress->seen = NULL;
}
