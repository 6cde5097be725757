#include "serve/accepting.h"

#include "serve/acceptor.h"

#include <errno.h>
#include <gossamer/io.h>

/* In one turn, so that those who are connected already get theirs. */
#define TAKE_MOST 64

/* Without waiting; there is a place. Returns 0 or -errno. */
static int take(struct serve_accepting *accepting)
{
    struct sockaddr_storage storage;
    struct sockaddr *address = accepting->wants_address ? (struct sockaddr *)&storage : NULL;
    socklen_t length = sizeof storage;
    int fd = gs_accept(accepting->listener, address, address ? &length : NULL, SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    int err = accepting->arrived(accepting->data, fd, address);
    if (!err)
        return 0;
    gs_close(fd);
    return -ECONNABORTED;
}

/* After an error, until it may go better. */
static int wait_for_better(struct serve_accepting *accepting, int err)
{
    if (err == -ETIMEDOUT)
        err = gs_wait_readable(accepting->listener, GS_NEVER);
    if (!err || err == -ECANCELED)
        return err;
    if (serve_accept_concerns_one(err))
        return 0;
    uint64_t now_ns = gs_clock_now();
    serve_accept_complain(&accepting->said_ns, err, now_ns);
    return gs_thread_sleep(now_ns + SERVE_ACCEPT_PAUSE_NS);
}

static void *run(void *argument)
{
    struct serve_accepting *accepting = argument;
    unsigned most = accepting->favor == SERVE_FAVOR_CONNECTIONS ? 1 : TAKE_MOST;
    unsigned taken = 0;
    /* Once, so that there is memory for the timer when there is none for connections. */
    int err = gs_thread_sleep(gs_clock_now() + GS_MILLISECOND);
    while (err != -ECANCELED && !gs_semaphore_wait(accepting->places, GS_NEVER)) {
        err = take(accepting);
        if (err) {
            gs_semaphore_post(accepting->places);
            err = wait_for_better(accepting, err);
        } else if (++taken % most == 0) {
            gs_thread_yield();
        }
    }
    return NULL;
}

int serve_accepting_start(struct serve_accepting *accepting)
{
    static const enum gs_priority priorities[] = {
        [SERVE_FAVOR_NONE] = GS_PRIORITY_NORMAL,
        [SERVE_FAVOR_CONNECTIONS] = GS_PRIORITY_LOW,
        [SERVE_FAVOR_ACCEPT] = GS_PRIORITY_HIGH,
    };
    const struct gs_thread_attributes attributes = {.name = "accepting",
                                                    .priority = priorities[accepting->favor],
                                                    .worker = accepting->worker,
                                                    .migrates = !accepting->worker};
    return gs_thread_spawn(&attributes, run, accepting, &accepting->thread);
}

void serve_accepting_finish(struct serve_accepting *accepting)
{
    int err;
    gs_thread_cancel(accepting->thread);
    (void)!gs_thread_join(accepting->thread, GS_NEVER, NULL);
    gs_forget(accepting->listener); /* no worker may have heard of them yet: the kernel is asked */
    do {
        if (gs_semaphore_wait(accepting->places, 0))
            return;
        err = take(accepting);
        if (err)
            gs_semaphore_post(accepting->places);
    } while (!err || serve_accept_concerns_one(err));
    gs_forget(accepting->listener);
}
