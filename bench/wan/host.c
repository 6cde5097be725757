#include "bench/wan/host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#define SERVER_NAME "gs-wan%d"
#define HOST_NAME "wan%d"
#define SERVER_PREFIX_LENGTH 6 /* "gs-wan" */

enum { NETS = 256, QUEUE_LENGTH = 10000 };

static in_addr_t address_of(unsigned net, unsigned last)
{
    return htonl(198u << 24 | 18u << 16 | net << 8 | last);
}

static int open_own_namespace(void)
{
    return gs_sys_openat(AT_FDCWD, "/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC, 0);
}

/* Configure the device that `request` names; address 0: only bring it up. */
static int configure(struct ifreq *request, in_addr_t address)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = address};
    int fd = gs_sys_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int err = fd < 0 ? fd : 0;
    if (!err && address) {
        memcpy(&request->ifr_addr, &in, sizeof in);
        err = gs_sys_ioctl(fd, SIOCSIFADDR, request);
        in.sin_addr.s_addr = htonl(0xffffff00);
        memcpy(&request->ifr_netmask, &in, sizeof in);
        err = err ? err : gs_sys_ioctl(fd, SIOCSIFNETMASK, request);
        request->ifr_qlen = QUEUE_LENGTH;
        err = err ? err : gs_sys_ioctl(fd, SIOCSIFTXQLEN, request);
    }
    request->ifr_flags = IFF_UP | IFF_RUNNING;
    err = err ? err : gs_sys_ioctl(fd, SIOCSIFFLAGS, request);
    if (fd >= 0)
        gs_sys_close(fd);
    return err;
}

/* Create a device and store its name in *request. Returns its descriptor or -errno. */
static int open_device(const char *pattern, struct ifreq *request)
{
    int fd = gs_sys_openat(AT_FDCWD, "/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd < 0)
        return fd == -EACCES ? -EPERM : fd;
    *request = (struct ifreq){.ifr_flags = IFF_TUN | IFF_NO_PI};
    strncpy(request->ifr_name, pattern, sizeof request->ifr_name - 1);
    int err = gs_sys_ioctl(fd, TUNSETIFF, request);
    if (!err)
        return fd;
    gs_sys_close(fd);
    return err;
}

int host_init_server(struct host *server, unsigned *ret_net)
{
    struct ifreq device;
    int err = open_own_namespace();
    if (err < 0)
        return err;
    server->netns_fd = err;
    server->tun_fd = err = open_device(SERVER_NAME, &device);
    if (err < 0)
        goto close_netns;
    /* The kernel chooses a unique number for the device. */
    unsigned long net = strtoul(device.ifr_name + SERVER_PREFIX_LENGTH, NULL, 10);
    err = net < NETS ? 0 : -EADDRNOTAVAIL;
    server->address = address_of((unsigned)net, 1);
    if (!err)
        err = configure(&device, server->address);
    if (err)
        goto close_tun;
    *ret_net = (unsigned)net;
    return 0;

close_tun:
    gs_sys_close(server->tun_fd);
close_netns:
    gs_sys_close(server->netns_fd);
    return err;
}

int host_init(struct host *host, const struct host *server, unsigned net, unsigned number)
{
    struct ifreq device, loopback = {.ifr_name = "lo"};
    int err = (int)gs_syscall(SYS_unshare, CLONE_NEWNET, 0, 0, 0, 0, 0);
    if (err)
        return err;
    host->netns_fd = err = open_own_namespace();
    if (err < 0)
        return err;
    host->tun_fd = err = open_device(HOST_NAME, &device);
    if (err < 0)
        goto close_netns;
    host->address = address_of(net, number + 2);
    err = configure(&loopback, 0);
    err = err ? err : configure(&device, host->address);
    if (!err)
        err = (int)gs_syscall(SYS_setns, server->netns_fd, CLONE_NEWNET, 0, 0, 0, 0);
    if (!err)
        return 0;

    gs_sys_close(host->tun_fd);
close_netns:
    gs_sys_close(host->netns_fd);
    return err;
}

void host_done(struct host *host)
{
    gs_sys_close(host->tun_fd);
    gs_sys_close(host->netns_fd);
}
