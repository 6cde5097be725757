/* A call that a sandbox refuses is tried once. */
#include "tests/sandbox.h"
#include "tests/test.h"

#include <gossamer/sys.h>
#include <linux/openat2.h>
#include <sys/epoll.h>

static const unsigned refused[] = {SYS_openat2, SYS_epoll_pwait2};
static unsigned tries;

static long count(long number, void *data)
{
    (void)data;
    tries += number == (long)refused[0] || number == (long)refused[1];
    return 0;
}

TEST(refused_calls_are_not_made_again)
{
    struct epoll_event event;
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC};
    int epoll = gs_sys_epoll_create(EPOLL_CLOEXEC);
    if (refuse_calls(refused, 2, EPERM))
        SKIP("system calls cannot be refused here");
    gs_sys_set_fault(count, NULL);
    for (int i = 0; i < 3; i++) {
        int fd = gs_sys_openat2(AT_FDCWD, "/", &how);
        CHECK(fd >= 0 && !gs_sys_close(fd));
        CHECK_EQ(gs_sys_epoll_wait(epoll, &event, 1, 0), 0);
    }
    gs_sys_set_fault(NULL, NULL);
    CHECK_EQ(tries, 2);
    CHECK_EQ(gs_sys_close(epoll), 0);
}
