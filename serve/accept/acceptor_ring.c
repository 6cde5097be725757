/* Accepting by completions: one request to the kernel (multishot), which then accepts by itself. */
#include "serve/accept/acceptor.h"

#include "serve/connection/descriptors.h"

#include <errno.h>
#include <gossamer/sys.h>

/* The kernel begins to accept ahead when so many slots are free, and stops at half of that, which
 * is what an accept queue usually holds. */
#define AHEAD 8192u

/* A slot was free when the kernel was asked, or nearly so. */
static void take_accepted(struct serve_acceptor *acceptor, int fd)
{
    struct serve_accepted accepted = {
        .fd = fd, .is_tls = acceptor->is_tls, .has_address = acceptor->wants_address};
    struct sockaddr *address = accepted.has_address ? (struct sockaddr *)&accepted.address : NULL;
    socklen_t length = sizeof accepted.address;
    /* A peer without a name has closed its connection. */
    if (acceptor->is_stopped || (address && gs_sys_getpeername(fd, address, &length))) {
        gs_sys_close(fd);
        return;
    }
    serve_slots_acquire_extra(acceptor->slots);
    serve_descriptors_accepted();
    acceptor->accepted(acceptor->data, &accepted);
}

static void on_multishot(struct gs_op *multishot, int64_t result)
{
    struct serve_acceptor *acceptor = multishot->io.watcher.data;
    uint64_t now_ns = gs_loop_now(multishot->io.watcher.loop);
    if (result >= 0) {
        take_accepted(acceptor, (int)result);
        if (!serve_slots_have_free(acceptor->slots, AHEAD / 2))
            gs_op_cancel(multishot);
    } else if (acceptor->is_canceled) {
        return;
    } else if (result == -ECANCELED || serve_accept_failed((int)result, &acceptor->warned_ns,
                                                           now_ns) != SERVE_ACCEPT_PAUSE) {
        serve_acceptor_resume(acceptor);
    } else {
        serve_acceptor_pause(acceptor);
    }
}

void serve_acceptor_init_ring(struct serve_acceptor *acceptor, struct gs_loop *loop)
{
    gs_op_init(&acceptor->multishot, loop, on_multishot);
    acceptor->multishot.io.watcher.data = acceptor;
}

bool serve_acceptor_may_accept_ahead(const struct serve_acceptor *acceptor)
{
    return acceptor->by_completions && serve_slots_have_free(acceptor->slots, AHEAD) &&
           !serve_descriptors_are_short();
}

int serve_acceptor_start_ring(struct serve_acceptor *acceptor)
{
    return gs_op_accept_multishot(&acceptor->multishot, acceptor->io.fd,
                                  SOCK_NONBLOCK | SOCK_CLOEXEC);
}

void serve_acceptor_cancel(struct serve_acceptor *acceptor)
{
    acceptor->is_canceled = true;
    gs_op_cancel(&acceptor->multishot);
}

bool serve_acceptor_is_idle(const struct serve_acceptor *acceptor)
{
    return !gs_op_is_active(&acceptor->multishot);
}
