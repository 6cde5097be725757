#include "serve/operations/notify.h"

#include "serve/log/error_log.h"
#include "serve/operations/number.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* How long a message waits for room in the queue of the service manager. */
#define PATIENCE_NS (100 * GS_MILLISECOND)

/* "@" stands for the byte 0 of an abstract address. Returns its length; 0: it is none. */
static socklen_t parse_address(const char *word, struct sockaddr_un *name)
{
    size_t n = strlen(word);
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (n < 2 || n >= sizeof name->sun_path || (word[0] != '/' && word[0] != '@'))
        return 0;
    memcpy(name->sun_path, word, n);
    bool is_abstract = word[0] == '@';
    if (is_abstract)
        name->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + !is_abstract);
}

/* Returns the descriptor or -errno. */
static int connect_to(const char *word)
{
    struct sockaddr_un name;
    socklen_t length = parse_address(word, &name);
    if (!length)
        return -EINVAL;
    int fd = gs_sys_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fd;
    int err = gs_sys_connect(fd, (struct sockaddr *)&name, length);
    if (!err)
        return fd;
    gs_sys_close(fd);
    return err;
}

static uint64_t watchdog_time(void)
{
    const char *pid = getenv("WATCHDOG_PID");
    uint64_t us, number;
    if (!serve_is_number(getenv("WATCHDOG_USEC"), UINT64_MAX / GS_MICROSECOND - 1, &us))
        return 0;
    if (pid && (!serve_is_number(pid, INT32_MAX, &number) || number != (uint64_t)getpid()))
        return 0;
    return us * GS_MICROSECOND;
}

void serve_notify_open(struct serve_notify *notify, int fd)
{
    const char *word = getenv("NOTIFY_SOCKET");
    *notify = (struct serve_notify){.fd = -1};
    if (fd >= 0) {
        fd = gs_sys_fcntl(fd, F_DUPFD_CLOEXEC, 0);
    } else if (word && *word) {
        fd = connect_to(word);
        if (fd < 0)
            serve_warn("NOTIFY_SOCKET %s: %s", word, strerror(-fd));
    }
    notify->fd = fd < 0 ? -1 : fd;
    if (notify->fd >= 0)
        notify->watchdog_ns = watchdog_time();
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

void serve_notify_close(struct serve_notify *notify)
{
    if (notify->fd >= 0)
        gs_sys_close(notify->fd);
    notify->fd = -1;
}

void serve_notify_send(const struct serve_notify *notify, const char *state)
{
    struct pollfd poll = {.fd = notify->fd, .events = POLLOUT};
    if (notify->fd < 0)
        return;
    ssize_t n = gs_sys_send(notify->fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n != -EAGAIN)
        return;
    gs_sys_poll(&poll, 1, PATIENCE_NS);
    gs_sys_send(notify->fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void serve_notify_reloading(const struct serve_notify *notify)
{
    char state[64];
    snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%llu",
             (unsigned long long)(gs_clock_now() / GS_MICROSECOND));
    serve_notify_send(notify, state);
}
