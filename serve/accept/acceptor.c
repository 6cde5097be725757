/* Accepting by readiness. */
#include "serve/accept/acceptor.h"

#include "serve/connection/descriptors.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <sys/resource.h>

/* In one iteration of the loop, so that open connections are served, too. */
#define BATCH_MAX 64

/* The timer is active from start to stop, mostly for GS_NEVER: so setting it needs no memory when
 * memory may be exhausted. */
static void set_pause(struct serve_acceptor *acceptor, uint64_t deadline_ns)
{
    (void)!gs_timer_start(&acceptor->pause, deadline_ns);
}

static int start(struct serve_acceptor *acceptor)
{
    if (!serve_acceptor_is_idle(acceptor))
        return 0;
    if (!serve_acceptor_may_accept_ahead(acceptor))
        return gs_io_start(&acceptor->io);
    gs_io_stop(&acceptor->io);
    return serve_acceptor_start_ring(acceptor);
}

void serve_acceptor_resume(struct serve_acceptor *acceptor)
{
    if (start(acceptor))
        set_pause(acceptor, gs_loop_now(acceptor->io.watcher.loop) + SERVE_ACCEPT_PAUSE_NS);
}

static void pause_for(struct serve_acceptor *acceptor, uint64_t ns)
{
    gs_io_stop(&acceptor->io);
    set_pause(acceptor, gs_loop_now(acceptor->io.watcher.loop) + ns);
}

void serve_acceptor_pause(struct serve_acceptor *acceptor)
{
    pause_for(acceptor, SERVE_ACCEPT_PAUSE_NS);
}

static void on_pause_over(struct gs_timer *timer)
{
    struct serve_acceptor *acceptor = timer->watcher.data;
    set_pause(acceptor, GS_NEVER);
    acceptor->waits_for_slot = false;
    serve_acceptor_resume(acceptor);
}

/* A free slot does not end a pause. */
static void on_slot(struct gs_async *async)
{
    struct serve_acceptor *acceptor = async->watcher.data;
    if (acceptor->waits_for_slot)
        set_pause(acceptor, GS_NEVER);
    acceptor->waits_for_slot = false;
    if (acceptor->pause.deadline_ns == GS_NEVER)
        serve_acceptor_resume(acceptor);
}

/* Room that is made may be there at once, or later. */
static bool have_descriptors(struct serve_acceptor *acceptor)
{
    if (!serve_descriptors_are_short())
        return true;
    if (acceptor->make_room && serve_is_connection_pending(acceptor->io.fd))
        acceptor->make_room(acceptor->data);
    if (!serve_descriptors_are_short())
        return true;
    pause_for(acceptor, SERVE_DESCRIPTORS_PAUSE_NS);
    return false;
}

/* Room that is made may be free at once, or later; if none can be made now, it is tried again after
 * a pause. While no client waits, the listener stays watched. */
static bool acquire_slot(struct serve_acceptor *acceptor)
{
    if (!acceptor->extra_below && !have_descriptors(acceptor))
        return false;
    if (serve_slots_acquire(acceptor->slots))
        return true;
    if (acceptor->extra_below) {
        serve_slots_acquire_extra(acceptor->slots);
        return true;
    }
    if (acceptor->make_room) {
        if (!serve_is_connection_pending(acceptor->io.fd))
            return false;
        acceptor->make_room(acceptor->data);
        if (serve_slots_acquire(acceptor->slots))
            return true;
        acceptor->waits_for_slot = true;
        set_pause(acceptor, gs_loop_now(acceptor->io.watcher.loop) + SERVE_ACCEPT_PAUSE_NS);
    }
    gs_io_stop(&acceptor->io);
    serve_slots_wait(acceptor->slots, &acceptor->waiter);
    return false;
}

/* Returns whether to go on. */
static bool handle_accept_error(struct serve_acceptor *acceptor, int err)
{
    uint64_t now_ns = gs_loop_now(acceptor->io.watcher.loop);
    serve_slots_release(acceptor->slots);
    enum serve_accept_action action = serve_accept_failed(err, &acceptor->warned_ns, now_ns);
    if (action == SERVE_ACCEPT_PAUSE)
        serve_acceptor_pause(acceptor);
    return action == SERVE_ACCEPT_AGAIN;
}

unsigned serve_acceptor_take(struct serve_acceptor *acceptor, unsigned max)
{
    struct serve_accepted accepted = {.is_tls = acceptor->is_tls,
                                      .has_address = acceptor->wants_address};
    struct sockaddr *address = accepted.has_address ? (struct sockaddr *)&accepted.address : NULL;
    unsigned taken = 0, known = 1;
    for (unsigned tries = 0; tries < max; tries++) {
        socklen_t length = sizeof accepted.address;
        if (!known)
            known = gs_sys_accept_queue(acceptor->io.fd);
        if (!known-- || !acquire_slot(acceptor))
            break;
        int fd = gs_sys_accept(acceptor->io.fd, address, address ? &length : NULL,
                               SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            if (fd >= acceptor->extra_below)
                acceptor->extra_below = 0;
            serve_descriptors_accepted();
            accepted.fd = fd;
            acceptor->accepted(acceptor->data, &accepted);
            taken++;
        } else if (!handle_accept_error(acceptor, fd)) {
            break;
        }
    }
    return taken;
}

void serve_acceptor_take_all(struct serve_acceptor *acceptor, unsigned max)
{
    struct rlimit limit = {.rlim_cur = 0};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    acceptor->extra_below = (int)((limit.rlim_cur < INT_MAX ? limit.rlim_cur : INT_MAX) / 2);
    serve_acceptor_take(acceptor, max);
}

static void on_ready(struct gs_io *io, unsigned events)
{
    struct serve_acceptor *acceptor = io->watcher.data;
    if (events & GS_FAILED) {
        serve_accept_failed(gs_io_error(io), &acceptor->warned_ns, gs_loop_now(io->watcher.loop));
        serve_acceptor_pause(acceptor);
    } else {
        serve_acceptor_take(acceptor, acceptor->max_batch);
    }
    if (acceptor->by_completions && io->watcher.active)
        serve_acceptor_resume(acceptor);
}

void serve_acceptor_init(struct serve_acceptor *acceptor, struct gs_loop *loop,
                         struct serve_slots *slots, serve_accepted_fn *accepted, void *data)
{
    *acceptor = (struct serve_acceptor){
        .slots = slots, .accepted = accepted, .data = data, .max_batch = BATCH_MAX};
    gs_io_init(&acceptor->io, loop, on_ready);
    gs_timer_init(&acceptor->pause, loop, on_pause_over);
    gs_async_init(&acceptor->waiter.async, loop, on_slot);
    acceptor->io.watcher.data = acceptor->pause.watcher.data = acceptor;
    acceptor->waiter.async.watcher.data = acceptor;
    serve_acceptor_init_ring(acceptor, loop);
}

int serve_acceptor_start(struct serve_acceptor *acceptor, int fd, bool wants_address)
{
    acceptor->wants_address = wants_address;
    gs_io_set(&acceptor->io, fd, GS_READ);
    gs_async_start(&acceptor->waiter.async);
    int err = gs_timer_start(&acceptor->pause, GS_NEVER);
    return err ? err : start(acceptor);
}

void serve_acceptor_stop(struct serve_acceptor *acceptor)
{
    if (acceptor->is_stopped)
        return;
    serve_acceptor_cancel(acceptor);
    acceptor->is_stopped = true;
    gs_io_stop(&acceptor->io);
    gs_timer_stop(&acceptor->pause);
    serve_slots_cancel_wait(acceptor->slots, &acceptor->waiter);
    gs_async_stop(&acceptor->waiter.async);
}
