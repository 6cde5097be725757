/* gs_resolve: getaddrinfo in the pool. A look-up that takes too long is abandoned. */
#include "base/resolution.h"
#include "thread/io/blocking.h"

#include <errno.h>
#include <gossamer/io.h>
#include <stdlib.h>

struct look_up {
    struct blocking_call call;
    struct resolution *resolution;
};

static void run_resolve(void *argument)
{
    gs_resolution_run(((struct look_up *)argument)->resolution);
}

static void discard(struct job *job)
{
    struct look_up *look_up = gs_container_of(job, struct look_up, call.job);
    gs_resolution_free(look_up->resolution);
    free(look_up);
}

int gs_resolve(const char *node, const char *service, const struct addrinfo *hints,
               uint64_t deadline_ns, struct addrinfo **ret_addresses)
{
    CHECKED_WAIT(deadline_ns);
    struct look_up *look_up = malloc(sizeof *look_up);
    if (!look_up)
        return -ENOMEM;
    *look_up = (struct look_up){
        .call.job = {.kind = JOB_NAME, .fn = run_resolve, .argument = look_up, .discard = discard},
        .resolution = gs_resolution_new(node, service, hints),
    };
    if (!look_up->resolution) {
        free(look_up);
        return -ENOMEM;
    }
    int err = gs_blocking_run(&look_up->call, deadline_ns);
    if (err)
        return err;
    err = gs_resolution_take(look_up->resolution, ret_addresses);
    free(look_up);
    return err;
}
