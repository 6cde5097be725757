/* What shared libraries call to wait for processes: a kernel thread of the pool waits, if no child
 * has ended yet. */
#include "compiler/runtime/libraries/library_calls.h"
#include "compiler/runtime/threads/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

struct call {
    void (*function)(struct call *call);
    union {
        pid_t process;
        id_t id;
        FILE *stream;
    };
    idtype_t type;
    int *ret_status;
    int options;
    struct rusage *ret_usage;
    siginfo_t *ret_information;
    int result, err;
};

static void make_call(void *argument)
{
    struct call *call = argument;
    errno = call->err;
    call->function(call);
    call->err = errno;
}

static int run(void (*function)(struct call *), struct call *call)
{
    call->function = function;
    call->err = errno;
    gs_cc_run_in_pool(make_call, call, POOL_BOTH);
    errno = call->err;
    gs_cc_end_in_pool(thread_self());
    return call->result;
}

/* ---- Children ---- */

static void wait_for_child(struct call *call)
{
    call->result = wait4(call->process, call->ret_status, call->options, call->ret_usage);
}

static pid_t library_wait4(pid_t process, int *ret_status, int options, struct rusage *ret_usage)
{
    struct call call = {
        .process = process, .ret_status = ret_status, .options = options, .ret_usage = ret_usage};
    pid_t ended =
        wait4(process, ret_status, options | (thread_on_stack() ? WNOHANG : 0), ret_usage);
    bool waits = !ended && !(options & WNOHANG);
    return waits ? run(wait_for_child, &call) : ended;
}

static pid_t library_wait3(int *ret_status, int options, struct rusage *ret_usage)
{
    return library_wait4(-1, ret_status, options, ret_usage);
}

static pid_t library_waitpid(pid_t process, int *ret_status, int options)
{
    return library_wait4(process, ret_status, options, NULL);
}

static pid_t library_wait(int *ret_status)
{
    return library_wait4(-1, ret_status, 0, NULL);
}

static void wait_for_state(struct call *call)
{
    call->result = waitid(call->type, call->id, call->ret_information, call->options);
}

static int library_waitid(idtype_t type, id_t id, siginfo_t *ret_information, int options)
{
    struct call call = {
        .id = id, .type = type, .options = options, .ret_information = ret_information};
    if (!thread_on_stack() || options & WNOHANG)
        return waitid(type, id, ret_information, options);
    return run(wait_for_state, &call);
}

/* ---- Commands ---- */

/* NOLINTNEXTLINE(cert-env33-c): the library calls it */
RUNTIME(int, system, (const char *command), command)

static void close_stream(struct call *call)
{
    call->result = pclose(call->stream);
}

static int library_pclose(FILE *stream)
{
    struct call call = {.stream = stream};
    return thread_on_stack() ? run(close_stream, &call) : pclose(stream);
}

/* In the order of strcmp. */
static const struct gs_cc_replacement replacements[] = {
    REPLACED(pclose), REPLACED(system), REPLACED(wait),    REPLACED(wait3),
    REPLACED(wait4),  REPLACED(waitid), REPLACED(waitpid),
};
const struct gs_cc_replacements gs_cc_library_processes = REPLACEMENTS(replacements);
