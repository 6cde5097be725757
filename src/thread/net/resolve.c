/* gs_resolve: getaddrinfo in the pool, or, if nothing has to be looked up, at once. A look-up that
 * takes too long is abandoned. */
#include "thread/net/resolve.h"

#include "thread/io/blocking.h"
#include "thread/schedule/off_stack.h"

#include <errno.h>
#include <gossamer/io.h>

struct name_wait {
    struct look_up_waiter waiter;
    struct blocking_wait wait;
};

static void complete(struct look_up_waiter *waiter)
{
    gs_blocking_complete(&gs_container_of(waiter, struct name_wait, waiter)->wait);
}

static int start(struct blocking_wait *wait)
{
    struct name_wait *name = gs_container_of(wait, struct name_wait, wait);
    return gs_look_up_start(&name->waiter, gs_blocking_user());
}

static bool withdraw(struct blocking_wait *wait)
{
    return gs_look_up_leave(&gs_container_of(wait, struct name_wait, wait)->waiter);
}

/* The worker's stack has room for getaddrinfo. */
static void *classify(void *look_up)
{
    gs_look_up_classify(look_up);
    return NULL;
}

static int wait_for(struct look_up *look_up, uint64_t deadline_ns, struct look_up **ret_look_up)
{
    struct off_stack off = {.thread = thread_current()};
    struct name_wait local = {
        .waiter = {.look_up = look_up, .complete = complete},
        .wait = {start, withdraw, .at = (const void *)(uintptr_t)gs_resolve},
    };
    struct name_wait *name = off_stack_in(&off, &local, sizeof local);
    int err = off.err ? off.err : gs_blocking_wait(&name->wait, deadline_ns);
    *ret_look_up = name->waiter.look_up;
    off_stack_end(&off);
    return err;
}

int gs_resolve_name(const char *node, const char *service, const struct addrinfo *hints,
                    uint64_t deadline_ns, struct look_up **ret_look_up)
{
    struct look_up *look_up = gs_look_up_new(node, service, hints);
    if (!look_up)
        return -ENOMEM;
    gs_thread_call_on_worker_stack(classify, look_up);
    int err = 0;
    if (!gs_look_up_is_done(look_up))
        err = wait_for(look_up, deadline_ns, &look_up);
    if (!err)
        err = gs_look_up_result(look_up);
    if (err)
        gs_look_up_release(look_up);
    else
        *ret_look_up = look_up;
    return err;
}

int gs_resolve(const char *node, const char *service, const struct addrinfo *hints,
               uint64_t deadline_ns, struct addrinfo **ret_addresses)
{
    CHECKED_WAIT(deadline_ns);
    struct look_up *look_up;
    int err = gs_resolve_name(node, service, hints, deadline_ns, &look_up);
    if (err)
        return err;
    err = gs_look_up_take(look_up, ret_addresses);
    gs_look_up_release(look_up);
    return err;
}
