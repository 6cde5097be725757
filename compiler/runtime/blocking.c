/* Calls of the C library that block: a kernel thread of the pool makes them. */
#include "compiler/runtime/thread.h"

#include <gossamer/io.h>
#include <netdb.h>

struct blocking {
    struct thread *self;
    void (*call)(void *);
    void *box;
    int err, h_err;
};

static void make_call(void *argument)
{
    struct blocking *blocking = argument;
    errno = blocking->err;
    blocking->call(blocking->box);
    blocking->err = errno;
    blocking->h_err = h_errno;
}

static void wait_on_stack(void *argument)
{
    struct blocking *blocking = argument;
    int err = gs_run_blocking(make_call, blocking, GS_NEVER);
    if (err)
        make_call(blocking); /* no kernel thread: the worker waits with it */
    gs_cc_state.self = blocking->self;
}

/* What it waits for is kept in its progress meanwhile. */
void gs_cc___blocking(void (*call)(void *box), void *box)
{
    struct thread *self = thread_self();
    if (!self) {
        call(box);
        return;
    }
    struct blocking *blocking = (struct blocking *)self->progress;
    if (self->stack || self->phase == PHASE_NEW) {
        blocking = gs_cc_box(sizeof *blocking);
        *blocking = (struct blocking){self, call, box, errno, 0};
        self->progress = self->stack ? 0 : (size_t)blocking;
    }
    gs_cc___on_stack(wait_on_stack, blocking);
    if (gs_cc_state.suspending)
        return;
    errno = blocking->err;
    h_errno = blocking->h_err;
    gs_cc_box_free(blocking, sizeof *blocking);
}
