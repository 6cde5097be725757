/* What a thread waits at. */
#include "thread/report/report.h"

#include <arpa/inet.h>
#include <gossamer/sys.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

union address {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    struct sockaddr_un un;
};

/* Write the address after `label`. */
static void print_address(const char *label, const union address *address, char *ret_text,
                          size_t size)
{
    char host[INET6_ADDRSTRLEN] = "";
    if (address->any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &address->in.sin_addr, host, sizeof host);
        snprintf(ret_text, size, "%s%s:%u", label, host, ntohs(address->in.sin_port));
    } else if (address->any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &address->in6.sin6_addr, host, sizeof host);
        snprintf(ret_text, size, "%s[%s]:%u", label, host, ntohs(address->in6.sin6_port));
    } else if (address->any.sa_family == AF_UNIX) {
        snprintf(ret_text, size, "%s%.*s", address->un.sun_path[0] ? label : ", a Unix socket",
                 (int)sizeof address->un.sun_path, address->un.sun_path);
    }
}

static void print_descriptor(int fd, char *ret_text, size_t size)
{
    union address address = {{0}};
    socklen_t length = sizeof address;
    const char *label = ", peer ";
    int n = snprintf(ret_text, size, " at descriptor %d", fd);
    int err = gs_sys_getpeername(fd, &address.any, &length);
    if (err) {
        label = ", bound to ";
        length = sizeof address;
        err = gs_sys_getsockname(fd, &address.any, &length);
    }
    if (!err && n > 0 && (size_t)n < size)
        print_address(label, &address, ret_text + n, size - (size_t)n);
}

void gs_dump_object(const struct wait_kind *kind, const void *object, char *ret_text, size_t size)
{
    ret_text[0] = 0;
    if (kind->at == AT_DESCRIPTOR)
        print_descriptor((int)(intptr_t)object, ret_text, size);
    else if (kind->at == AT_SIGNAL)
        snprintf(ret_text, size, " %d", (int)(intptr_t)object);
    else if (object)
        snprintf(ret_text, size, " at %p", object);
}
