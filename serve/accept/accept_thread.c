#include "serve/accept/accept_thread.h"

#include "serve/connection/descriptors.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>

/* In one turn, so that open connections get theirs. */
#define BATCH_MAX 64

/* Accept without waiting; the caller has a slot. Returns 0, -errno, or 1: a connection was closed
 * at once, because there is no memory or no stack for it. */
static int take(struct serve_accept_thread *acceptor)
{
    struct serve_accepted accepted = {.is_tls = acceptor->is_tls,
                                      .has_address = acceptor->wants_address};
    struct sockaddr *address = accepted.has_address ? (struct sockaddr *)&accepted.address : NULL;
    socklen_t length = sizeof accepted.address;
    accepted.fd = gs_accept(acceptor->listener, address, address ? &length : NULL, SOCK_CLOEXEC, 0);
    if (accepted.fd < 0)
        return accepted.fd;
    serve_descriptors_accepted();
    if (!acceptor->accepted(acceptor->data, &accepted))
        return 0;
    gs_close(accepted.fd);
    serve_descriptors_closed(false);
    return 1;
}

static int pause_accepting(void)
{
    return gs_thread_sleep(gs_clock_now() + SERVE_ACCEPT_PAUSE_NS);
}

/* Returns 0 once it may be tried again, or -ECANCELED. */
static int handle_accept_error(struct serve_accept_thread *acceptor, int err)
{
    if (err == -ECANCELED)
        return err;
    enum serve_accept_action action =
        serve_accept_failed(err, &acceptor->warned_ns, gs_clock_now());
    if (action == SERVE_ACCEPT_WAIT) {
        err = gs_wait_readable(acceptor->listener, GS_NEVER);
        if (!err || err == -ECANCELED)
            return err;
        action = serve_accept_failed(err, &acceptor->warned_ns, gs_clock_now());
    }
    return action == SERVE_ACCEPT_PAUSE ? pause_accepting() : 0;
}

static int wait_for_client(struct serve_accept_thread *acceptor)
{
    gs_forget(acceptor->listener); /* so that the kernel is asked */
    int err = gs_wait_readable(acceptor->listener, GS_NEVER);
    return err && err != -ECANCELED ? pause_accepting() : err;
}

/* Returns 0 or -ECANCELED. */
static int wait_for_descriptors(struct serve_accept_thread *acceptor)
{
    int err = 0;
    while (!err && serve_descriptors_are_short()) {
        if (serve_is_connection_pending(acceptor->listener)) {
            if (acceptor->make_room)
                acceptor->make_room(acceptor->data);
            err = gs_thread_sleep(gs_clock_now() + SERVE_DESCRIPTORS_PAUSE_NS);
        } else {
            err = wait_for_client(acceptor);
        }
        err = err == -ECANCELED ? err : 0;
    }
    return err;
}

/* Room is made only for a client that waits; if none can be made, it is tried again after a pause.
 * Returns 0 or -errno. */
static int acquire_slot(struct serve_accept_thread *acceptor)
{
    int err = wait_for_descriptors(acceptor);
    if (!err)
        err = gs_semaphore_wait(acceptor->slots, acceptor->make_room ? 0 : GS_NEVER);
    while (err == -ETIMEDOUT && acceptor->make_room) {
        uint64_t until_ns = 0;
        if (serve_is_connection_pending(acceptor->listener)) {
            acceptor->make_room(acceptor->data);
            until_ns = gs_clock_now() + SERVE_ACCEPT_PAUSE_NS;
        } else {
            err = wait_for_client(acceptor);
        }
        if (err != -ECANCELED)
            err = gs_semaphore_wait(acceptor->slots, until_ns);
    }
    return err;
}

static void *run(void *argument)
{
    struct serve_accept_thread *acceptor = argument;
    unsigned batch = acceptor->priority == SERVE_PRIORITY_CONNECTIONS ? 1 : BATCH_MAX, tries = 0;
    /* Once, so that there is memory for the timer when there is none for connections. */
    int err = gs_thread_sleep(gs_clock_now() + GS_MILLISECOND);
    while (err != -ECANCELED && !gs_thread_is_canceled() && !acquire_slot(acceptor)) {
        err = take(acceptor);
        if (err) {
            gs_semaphore_post(acceptor->slots);
            err = handle_accept_error(acceptor, err < 0 ? err : -ENOMEM);
        }
        if (++tries % batch == 0)
            gs_thread_yield();
    }
    return NULL;
}

int serve_accept_thread_start(struct serve_accept_thread *acceptor)
{
    static const enum gs_priority priorities[] = {
        [SERVE_PRIORITY_NONE] = GS_PRIORITY_NORMAL,
        [SERVE_PRIORITY_CONNECTIONS] = GS_PRIORITY_LOW,
        [SERVE_PRIORITY_ACCEPT] = GS_PRIORITY_HIGH,
    };
    const struct gs_thread_attributes attributes = {
        .name = "accept", .priority = priorities[acceptor->priority], .migrates = true};
    return gs_thread_spawn(&attributes, run, acceptor, &acceptor->thread);
}

void serve_accept_thread_finish(struct serve_accept_thread *acceptor, uint64_t max,
                                uint64_t until_ns)
{
    int err = 0;
    gs_thread_cancel(acceptor->thread);
    (void)!gs_thread_join(acceptor->thread, GS_NEVER, NULL);
    gs_forget(acceptor->listener); /* so that the kernel is asked, whatever was last reported */
    for (uint64_t i = 0; i < max && serve_is_connection_pending(acceptor->listener); i++) {
        if (gs_semaphore_wait(acceptor->slots, until_ns))
            break;
        err = take(acceptor);
        if (err)
            gs_semaphore_post(acceptor->slots);
        if (err < 0 &&
            serve_accept_failed(err, &acceptor->warned_ns, gs_clock_now()) != SERVE_ACCEPT_AGAIN)
            break;
    }
    gs_forget(acceptor->listener);
}
