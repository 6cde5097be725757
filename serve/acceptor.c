#include "serve/acceptor.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdio.h>
#include <string.h>

/* In one turn of the loop, so that those who are connected already get theirs. */
#define TAKE_MOST 64

/* The kernel begins to accept by itself when so many places are free, and stops at half of that, which is what an accept queue
 * usually holds. */
#define AHEAD 8192u

/* The timer is active from start to stop, mostly for GS_NEVER: so it needs no memory when there may
 * be none. */
static void set_pause(struct serve_acceptor *acceptor, uint64_t deadline_ns)
{
    (void)!gs_timer_start(&acceptor->pause, deadline_ns);
}

static int start_either(struct serve_acceptor *acceptor)
{
    if (gs_op_is_under_way(&acceptor->each))
        return 0;
    if (!acceptor->by_completions || !serve_places_are_free(acceptor->places, AHEAD))
        return gs_io_start(&acceptor->io);
    gs_io_stop(&acceptor->io);
    return gs_op_accept_each(&acceptor->each, acceptor->io.fd, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static void resume(struct serve_acceptor *acceptor)
{
    if (start_either(acceptor))
        set_pause(acceptor, gs_loop_now(acceptor->io.watcher.loop) + SERVE_ACCEPT_PAUSE_NS);
}

static void on_pause_over(struct gs_timer *timer)
{
    struct serve_acceptor *acceptor = timer->watcher.data;
    set_pause(acceptor, GS_NEVER);
    resume(acceptor);
}

/* A pause goes on to its end. */
static void on_place(struct gs_async *async)
{
    struct serve_acceptor *acceptor = async->watcher.data;
    if (acceptor->pause.deadline_ns == GS_NEVER)
        resume(acceptor);
}

void serve_accept_complain(uint64_t *said_ns, int err, uint64_t now_ns)
{
    if (*said_ns && now_ns - *said_ns < 10 * GS_SECOND)
        return;
    *said_ns = now_ns;
    fprintf(stderr, "gossamer serve: can't accept, new connections wait: %s\n", strerror(-err));
}

static void pause_for_lack(struct serve_acceptor *acceptor, int err)
{
    uint64_t now_ns = gs_loop_now(acceptor->io.watcher.loop);
    gs_io_stop(&acceptor->io);
    set_pause(acceptor, now_ns + SERVE_ACCEPT_PAUSE_NS);
    serve_accept_complain(&acceptor->said_ns, err, now_ns);
}

bool serve_accept_concerns_one(int err)
{
    switch (-err) {
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case EPERM:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
        return true;
    default:
        return false;
    }
}

static bool take_place(struct serve_acceptor *acceptor)
{
    if (serve_places_take(acceptor->places))
        return true;
    gs_io_stop(&acceptor->io);
    serve_places_wait(acceptor->places, &acceptor->waiter);
    return false;
}

unsigned serve_acceptor_take(struct serve_acceptor *acceptor, unsigned most)
{
    struct sockaddr_storage storage;
    struct sockaddr *address = acceptor->wants_address ? (struct sockaddr *)&storage : NULL;
    unsigned taken = 0;
    for (unsigned tries = 0; tries < most && take_place(acceptor); tries++) {
        socklen_t length = sizeof storage;
        int fd = gs_sys_accept(acceptor->io.fd, address, address ? &length : NULL,
                               SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            acceptor->accepted(acceptor->data, fd, address);
            taken++;
            continue;
        }
        serve_places_leave(acceptor->places);
        if (fd == -EAGAIN)
            break;
        if (!serve_accept_concerns_one(fd)) {
            pause_for_lack(acceptor, fd);
            break;
        }
    }
    return taken;
}

static void on_ready(struct gs_io *io, unsigned events)
{
    struct serve_acceptor *acceptor = io->watcher.data;
    if (events & GS_FAILED)
        pause_for_lack(acceptor, gs_io_error(io));
    else
        serve_acceptor_take(acceptor, acceptor->most);
    if (acceptor->by_completions && io->watcher.active)
        resume(acceptor);
}

/* ---- By completions ---- */

/* A place was free when the kernel was asked, or nearly so. */
static void take_accepted(struct serve_acceptor *acceptor, int fd)
{
    struct sockaddr_storage storage;
    struct sockaddr *address = acceptor->wants_address ? (struct sockaddr *)&storage : NULL;
    socklen_t length = sizeof storage;
    /* Without a name, it is gone. */
    if (acceptor->is_over || (address && gs_sys_getpeername(fd, address, &length))) {
        gs_sys_close(fd);
        return;
    }
    serve_places_exceed(acceptor->places);
    acceptor->accepted(acceptor->data, fd, address);
}

static void on_each(struct gs_op *each, int64_t result)
{
    struct serve_acceptor *acceptor = each->io.watcher.data;
    if (result >= 0) {
        take_accepted(acceptor, (int)result);
        if (!serve_places_are_free(acceptor->places, AHEAD / 2))
            gs_op_cancel(each);
    } else if (acceptor->is_ceasing) {
        return;
    } else if (result == -ECANCELED || serve_accept_concerns_one((int)result)) {
        resume(acceptor);
    } else {
        pause_for_lack(acceptor, (int)result);
    }
}

void serve_acceptor_cease(struct serve_acceptor *acceptor)
{
    acceptor->is_ceasing = true;
    gs_op_cancel(&acceptor->each);
}

bool serve_acceptor_is_quiet(const struct serve_acceptor *acceptor)
{
    return !gs_op_is_under_way(&acceptor->each);
}

/* ---- Life ---- */

void serve_acceptor_init(struct serve_acceptor *acceptor, struct gs_loop *loop,
                         struct serve_places *places, serve_accepted_fn *accepted, void *data)
{
    *acceptor = (struct serve_acceptor){
        .places = places, .accepted = accepted, .data = data, .most = TAKE_MOST};
    gs_io_init(&acceptor->io, loop, on_ready);
    gs_op_init(&acceptor->each, loop, on_each);
    gs_timer_init(&acceptor->pause, loop, on_pause_over);
    gs_async_init(&acceptor->waiter.async, loop, on_place);
    acceptor->io.watcher.data = acceptor->each.io.watcher.data = acceptor;
    acceptor->pause.watcher.data = acceptor;
    acceptor->waiter.async.watcher.data = acceptor;
}

int serve_acceptor_start(struct serve_acceptor *acceptor, int fd, bool wants_address)
{
    acceptor->wants_address = wants_address;
    gs_io_set(&acceptor->io, fd, GS_READ);
    gs_async_start(&acceptor->waiter.async);
    int err = gs_timer_start(&acceptor->pause, GS_NEVER);
    return err ? err : start_either(acceptor);
}

void serve_acceptor_stop(struct serve_acceptor *acceptor)
{
    serve_acceptor_cease(acceptor);
    acceptor->is_over = true;
    gs_io_stop(&acceptor->io);
    gs_timer_stop(&acceptor->pause);
    serve_places_forget(acceptor->places, &acceptor->waiter);
    gs_async_stop(&acceptor->waiter.async);
}
