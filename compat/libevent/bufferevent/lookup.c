/* A lookup is started by a callback in the loop, because other threads may ask for it, and its
 * result is passed on by another one.
 *
 *     scheduled --start_work--> in the pool --on_worked--> scheduled --finish--> freed
 *         all of these --abandon--> freed
 */
#include "compat/libevent/bufferevent/lookup.h"
#include "compat/libevent/event/base.h"
#include "compat/libevent/event/callback.h"
#include "compat/libevent/event/memory.h"

#include <gossamer/list.h>
#include <gossamer/loop_work.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

struct lookup {
    struct gs_work work;
    struct event_callback callback;
    struct gs_ev_task task; /* the base waits for a lookup as it does for events */
    struct event_base *base;
    char *host;
    int family, port;
    int error;
    struct evutil_addrinfo *addresses;
    gs_lookup_fn *fn;
    void *argument;
};

static int resolve(const struct gs_lookup_target *target, int flags, struct evutil_addrinfo **ret)
{
    char port[16];
    snprintf(port, sizeof port, "%d", target->port);
    const struct evutil_addrinfo hints = {
        .ai_flags = flags,
        .ai_family = target->family,
        .ai_socktype = SOCK_STREAM,
        .ai_protocol = IPPROTO_TCP,
    };
    return evutil_getaddrinfo(target->host, port, &hints, ret);
}

static void end(struct lookup *lookup, int error)
{
    lookup->fn(lookup->argument, error, lookup->addresses);
    if (lookup->addresses)
        evutil_freeaddrinfo(lookup->addresses);
    gs_ev_free(lookup->host);
    gs_ev_free(lookup);
}

static void finish(struct event_callback *callback, void *argument)
{
    (void)callback;
    struct lookup *lookup = argument;
    gs_ev_task_end(lookup->base, &lookup->task);
    end(lookup, lookup->error);
}

static void abandon(struct gs_ev_task *task)
{
    end(gs_container_of(task, struct lookup, task), GS_LOOKUP_ABANDONED);
}

static void schedule(struct lookup *lookup, gs_ev_callback_fn *fn)
{
    unsigned priority = (unsigned)event_base_get_npriorities(lookup->base) / 2;
    gs_ev_callback_init(&lookup->callback, priority, fn, lookup);
    gs_ev_callback_schedule(lookup->base, &lookup->callback);
}

/* In another kernel thread. */
static void run(struct gs_work *work)
{
    struct lookup *lookup = gs_container_of(work, struct lookup, work);
    const struct gs_lookup_target target = {lookup->host, lookup->family, lookup->port};
    lookup->error = resolve(&target, 0, &lookup->addresses);
}

/* canceled: in the child of a fork. */
static void on_worked(struct gs_work *work, int result)
{
    struct lookup *lookup = gs_container_of(work, struct lookup, work);
    if (result < 0) {
        lookup->error = EVUTIL_EAI_CANCEL;
        lookup->addresses = NULL;
    }
    schedule(lookup, finish);
}

static void start_work(struct event_callback *callback, void *argument)
{
    struct lookup *lookup = argument;
    gs_work_init(&lookup->work, lookup->base->loop, on_worked);
    if (gs_work_start(&lookup->work, run) < 0) {
        lookup->error = EVUTIL_EAI_MEMORY;
        finish(callback, lookup);
    }
}

static bool start_numeric(const struct gs_lookup_target *target, gs_lookup_fn *fn, void *argument)
{
    struct evutil_addrinfo *addresses = NULL;
    if (resolve(target, EVUTIL_AI_NUMERICHOST, &addresses))
        return false;
    fn(argument, 0, addresses);
    evutil_freeaddrinfo(addresses);
    return true;
}

void gs_lookup_start(struct event_base *base, const struct gs_lookup_target *target,
                     gs_lookup_fn *fn, void *argument)
{
    if (start_numeric(target, fn, argument))
        return;
    struct lookup *lookup = gs_ev_calloc(1, sizeof *lookup);
    char *host = gs_ev_strdup(target->host);
    if (!lookup || !host) {
        gs_ev_free(lookup);
        gs_ev_free(host);
        fn(argument, EVUTIL_EAI_MEMORY, NULL);
        return;
    }
    lookup->base = base;
    lookup->host = host;
    lookup->family = target->family;
    lookup->port = target->port;
    lookup->fn = fn;
    lookup->argument = argument;
    lookup->task.abandon = abandon;
    gs_ev_task_begin(base, &lookup->task);
    schedule(lookup, start_work);
}
