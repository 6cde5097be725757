/* gs_resolve: getaddrinfo at once, if nothing has to be looked up; the worker's resolver, if there
 * is one and only name servers are to be asked; otherwise getaddrinfo in the pool. A look-up that
 * takes too long is abandoned.
 *
 * A resolver finds addresses only. The types of sockets and the ports for the service come from
 * getaddrinfo, which is called for 127.0.0.1 before: at once if the service is a number, otherwise
 * in the pool, by the kernel threads for names of this machine. */
#include "thread/net/resolve.h"

#include "dns/dns.h"
#include "thread/io/blocking.h"
#include "thread/schedule/off_stack.h"

#include <errno.h>
#include <gossamer/io.h>

struct name_wait {
    struct look_up_waiter waiter;
    struct blocking_wait wait;
    bool is_for_resolver;
};

/* Returns NULL if there is none. */
static struct gs_dns *dns_of(struct worker *worker)
{
    if (!&gs_dns_operations)
        return NULL;
    return worker->dns || !gs_dns_operations.new(worker->loop, &worker->dns) ? worker->dns : NULL;
}

static void complete(struct look_up_waiter *waiter)
{
    gs_blocking_complete(&gs_container_of(waiter, struct name_wait, waiter)->wait);
}

/* The thread does not migrate from here on: the resolver is that of its worker. */
static int start(struct blocking_wait *wait)
{
    struct name_wait *name = gs_container_of(wait, struct name_wait, wait);
    struct gs_dns *dns = name->is_for_resolver ? dns_of(wait->worker) : NULL;
    return gs_look_up_start(&name->waiter, gs_blocking_user(),
                            dns ? gs_dns_operations.resolver(dns) : NULL);
}

static bool withdraw(struct blocking_wait *wait)
{
    return gs_look_up_leave(&gs_container_of(wait, struct name_wait, wait)->waiter);
}

struct choice {
    struct look_up *look_up;
    bool is_for_resolver;
};

/* The worker's stack has room for getaddrinfo. */
static void *choose(void *choice_)
{
    struct choice *choice = choice_;
    gs_look_up_classify(choice->look_up);
    if (!gs_look_up_is_foreign(choice->look_up))
        return NULL;
    struct gs_dns *dns = dns_of(worker_current());
    choice->is_for_resolver =
        dns && gs_dns_operations.suits(dns, gs_look_up_resolution(choice->look_up));
    return NULL;
}

static int wait_for(const struct choice *choice, uint64_t deadline_ns, struct look_up **ret_look_up)
{
    struct off_stack off = {.thread = thread_current()};
    struct name_wait local = {
        .waiter = {.look_up = choice->look_up, .complete = complete},
        .wait = {start, withdraw, .at = (const void *)(uintptr_t)gs_resolve},
        .is_for_resolver = choice->is_for_resolver,
    };
    struct name_wait *name = off_stack_in(&off, &local, sizeof local);
    int err = off.err ? off.err : gs_blocking_wait(&name->wait, deadline_ns);
    *ret_look_up = name->waiter.look_up;
    off_stack_end(&off);
    return err;
}

/* Make the look-up, or join another one. On success the caller releases what it gets; otherwise it
 * is released. */
static int find(const struct choice *choice, uint64_t deadline_ns, struct look_up **ret_look_up)
{
    struct look_up *look_up = choice->look_up;
    int err = 0;
    if (!gs_look_up_is_done(look_up))
        err = wait_for(choice, deadline_ns, &look_up);
    if (!err)
        err = gs_look_up_result(look_up);
    if (err)
        gs_look_up_release(look_up);
    else
        *ret_look_up = look_up;
    return err;
}

static int find_services(struct resolution *resolution, uint64_t deadline_ns)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST |
                                               (resolution->hints.ai_flags & AI_NUMERICSERV),
                                   .ai_family = AF_INET,
                                   .ai_socktype = resolution->hints.ai_socktype,
                                   .ai_protocol = resolution->hints.ai_protocol};
    struct choice choice = {.look_up = gs_look_up_new("127.0.0.1", resolution->service, &hints)};
    struct look_up *services;
    if (!choice.look_up)
        return -ENOMEM;
    gs_thread_call_on_worker_stack(choose, &choice);
    int err = find(&choice, deadline_ns, &services);
    if (err)
        return err;
    err = gs_look_up_take(services, &resolution->services);
    gs_look_up_release(services);
    return err;
}

int gs_resolve_name(const char *node, const char *service, const struct addrinfo *hints,
                    uint64_t deadline_ns, struct look_up **ret_look_up)
{
    struct choice choice = {.look_up = gs_look_up_new(node, service, hints)};
    if (!choice.look_up)
        return -ENOMEM;
    gs_thread_call_on_worker_stack(choose, &choice);
    int err = 0;
    if (choice.is_for_resolver)
        err = find_services(gs_look_up_resolution(choice.look_up), deadline_ns);
    if (!err)
        return find(&choice, deadline_ns, ret_look_up);
    gs_look_up_release(choice.look_up);
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
