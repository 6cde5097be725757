/* The load generator under filters of system calls, as sandboxes and older kernels have them. */
#ifndef GS_TESTS_LOAD_REFUSED_H
#define GS_TESTS_LOAD_REFUSED_H

#include "load/load.h"

#include "tests/load/remote.h"
#include "tests/load/run.h"
#include "tests/sandbox.h"

/* In a process of its own, whose filter ends with it. */
static inline void refused_check(char **arguments, const unsigned *numbers, unsigned count,
                                 unsigned error)
{
    int status, argc = 0;
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        while (arguments[argc])
            argc++;
        if (refuse_calls(numbers, count, error))
            _exit(77);
        if (!freopen("/dev/null", "w", stdout))
            _exit(1);
        _exit(gs_load_main(argc, arguments));
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (status == 77 << 8)
        SKIP("system calls cannot be refused here");
    if (status)
        TEST_FAIL("status %d with %u calls from %u: %s", status, count, numbers[0],
                  strerror((int)error));
}

/* Load the server eight times while each newer call is refused with each error, and while all are.
 * protocol: an option; NULL: none. */
static inline void refused_check_each(serve_fn *serve, char *protocol)
{
    static const unsigned errors[] = {EPERM, ENOSYS, EINVAL};
    struct remote remote;
    remote_start(&remote, serve);
    char *arguments[] = {"load",   "-c",          "4", "-n",
                         "8",      "--processes", "2", run_url_for(&remote.server),
                         protocol, NULL};
    for (unsigned j = 0; j < 3; j++) {
        for (unsigned i = 0; i < NEWER_CALLS; i++)
            refused_check(arguments, &newer_calls[i], 1, errors[j]);
        refused_check(arguments, newer_calls, NEWER_CALLS, errors[j]);
    }
    remote_stop(&remote);
}

#endif
