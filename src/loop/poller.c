/* The table of pollers, and what they share. */
#include "loop/poller.h"

#include "loop/state.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct poller *const pollers[] = {
    &gs_loop_poller_epoll,
    &gs_loop_poller_io_uring,
    &gs_loop_poller_poll,
    &gs_loop_poller_select,
};

const struct poller *gs_loop_find_poller(const char *name)
{
    if (!name)
        name = getenv("GS_POLLER");
    if (!name || !*name)
        return pollers[0];
    for (size_t i = 0; i < sizeof pollers / sizeof *pollers; i++)
        if (!strcmp(pollers[i]->name, name))
            return pollers[i];
    return NULL;
}

int gs_loop_init_poller(struct gs_loop *loop)
{
    int err = loop->poller->init(loop);
    if (err != -ENOSYS && err != -EPERM)
        return err;
    loop->poller = pollers[0];
    return loop->poller->init(loop);
}

void gs_loop_drain_wake_fd(struct gs_loop *loop)
{
    uint64_t count;
    (void)gs_sys_read(loop->wake_fd, &count, sizeof count);
}

int gs_loop_check_pollable(int fd)
{
    struct stat stat;
    int err = gs_sys_fstat(fd, &stat);
    if (err)
        return err;
    return S_ISREG(stat.st_mode) || S_ISDIR(stat.st_mode) ? -EPERM : 0;
}
