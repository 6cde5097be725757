/* What shared libraries call to wait for processes: a kernel thread of the pool waits, if no child
 * has ended yet. */
#include "compiler/runtime/libraries/library_calls.h"
#include "compiler/runtime/threads/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* ---- Children ---- */

static pid_t library_wait4(pid_t process, int *ret_status, int options, struct rusage *ret_usage)
{
    const long at[CALL_ARGUMENTS] = {process, (long)ret_status, options, (long)ret_usage};
    pid_t ended =
        wait4(process, ret_status, options | (thread_on_stack() ? WNOHANG : 0), ret_usage);
    bool waits = !ended && !(options & WNOHANG);
    return waits ? (pid_t)gs_cc_call_in_pool(POOL_BOTH, SYS_wait4, at) : ended;
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

static int library_waitid(idtype_t type, id_t id, siginfo_t *ret_information, int options)
{
    const long at[CALL_ARGUMENTS] = {type, id, (long)ret_information, options};
    if (!thread_on_stack() || options & WNOHANG)
        return waitid(type, id, ret_information, options);
    return (int)gs_cc_call_in_pool(POOL_BOTH, SYS_waitid, at);
}

/* ---- Commands ---- */

/* NOLINTNEXTLINE(cert-env33-c): the library calls it */
RUNTIME(int, system, (const char *command), command)

struct closing {
    FILE *stream;
    int result, err;
};

static void close_stream(void *argument)
{
    struct closing *closing = argument;
    errno = closing->err;
    closing->result = pclose(closing->stream);
    closing->err = errno;
}

static int library_pclose(FILE *stream)
{
    struct closing closing = {.stream = stream, .err = errno};
    if (!thread_on_stack())
        return pclose(stream);
    gs_cc_run_in_pool(close_stream, &closing, POOL_BOTH);
    errno = closing.err;
    gs_cc_end_in_pool(thread_self());
    return closing.result;
}

/* In the order of strcmp. */
static const struct gs_cc_replacement replacements[] = {
    REPLACED(pclose), REPLACED(system), REPLACED(wait),    REPLACED(wait3),
    REPLACED(wait4),  REPLACED(waitid), REPLACED(waitpid),
};
const struct gs_cc_replacements gs_cc_library_processes = REPLACEMENTS(replacements);
