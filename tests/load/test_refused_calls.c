/* The load generator under filters of system calls, as sandboxes and older kernels have them: each
 * newer call is refused with each error, and all are. */
#include "load/load.h"

#include "tests/load/remote.h"
#include "tests/load/run.h"
#include "tests/sandbox.h"

static void serve_ok(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    while (server_read(server, fd, text, sizeof text))
        server_write(fd, SERVER_OK);
}

static _Noreturn void load(const struct server *server)
{
    char *arguments[] = {"load", "-c", "4", "-n", "8", "--processes", "2", run_url_for(server),
                         NULL};
    if (!freopen("/dev/null", "w", stdout))
        _exit(1);
    _exit(gs_load_main(8, arguments));
}

/* In a process of its own, whose filter ends with it. */
static void check(const struct server *server, const unsigned *numbers, unsigned count,
                  unsigned error)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        if (refuse_calls(numbers, count, error))
            _exit(77);
        load(server);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (status == 77 << 8)
        SKIP("system calls cannot be refused here");
    if (status)
        TEST_FAIL("status %d with %u calls from %u: %s", status, count, numbers[0],
                  strerror((int)error));
}

TEST(each_newer_call_and_all_may_be_refused)
{
    static const unsigned errors[] = {EPERM, ENOSYS, EINVAL};
    struct remote remote;
    remote_start(&remote, serve_ok);
    for (unsigned j = 0; j < 3; j++) {
        for (unsigned i = 0; i < NEWER_CALLS; i++)
            check(&remote.server, &newer_calls[i], 1, errors[j]);
        check(&remote.server, newer_calls, NEWER_CALLS, errors[j]);
    }
    remote_stop(&remote);
}
