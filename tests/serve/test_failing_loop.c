/* If a loop fails permanently, the server exits with an error. */
#include "serve/serve.h"

#include "tests/test.h"

#include <gossamer/sys.h>

#define PATIENCE_SECONDS 60

/* whether the main thread's loop fails, or all others */
static bool fails_in_main;

static long fail_waits(long number, void *data)
{
    bool is_main = gs_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0) == getpid();
    (void)data;
    return number == SYS_epoll_pwait2 && is_main == fails_in_main ? -EBADF : 0;
}

static _Noreturn void serve(char *arch)
{
    char folder[] = "/tmp";
    char *arguments[] = {"serve", "--arch",   arch,          "--workers",
                         "2",     "--listen", "127.0.0.1:0", folder};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(PATIENCE_SECONDS);
    setenv("GS_POLLER", "epoll", 1); /* whose call fails */
    if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
        _exit(99);
    gs_sys_set_fault(fail_waits, NULL);
    _exit(gs_serve_main(8, arguments));
}

static void check_ends_with_an_error(char *arch)
{
    int status;
    fflush(NULL);
    pid_t server = fork();
    CHECK(server >= 0);
    if (!server)
        serve(arch);
    CHECK_EQ(waitpid(server, &status, 0), server);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 1);
}

TEST(user_ends_with_an_error_when_a_loop_fails)
{
    fails_in_main = true;
    check_ends_with_an_error("user");
}

TEST(event_ends_with_an_error_when_a_loop_fails)
{
    fails_in_main = false;
    check_ends_with_an_error("event");
}

TEST(quad_ends_with_an_error_when_a_loop_fails)
{
    fails_in_main = false;
    check_ends_with_an_error("quad");
}

TEST(stage_ends_with_an_error_when_a_loop_fails)
{
    fails_in_main = false;
    check_ends_with_an_error("stage");
}
