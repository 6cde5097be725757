#include "tests/libevent/bev.h"

#include <event2/listener.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

static struct sockaddr_in loopback(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

struct fixture {
    struct event_base *base;
    struct evconnlistener *listener;
    struct sockaddr_in address;
    int accepted[8], count;
};

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
                      int length, void *argument)
{
    struct fixture *f = argument;
    CHECK(listener == f->listener);
    note("accept %d %d;", address->sa_family, length);
    f->accepted[f->count++] = fd;
}

static void on_error(struct evconnlistener *listener, void *argument)
{
    note("error %s;", strerror(errno));
    struct fixture *f = argument;
    CHECK(listener == f->listener);
}

static void begin(struct fixture *f, evconnlistener_cb cb, unsigned flags)
{
    *f = (struct fixture){.base = event_base_new(), .address = loopback()};
    f->listener = evconnlistener_new_bind(f->base, cb, f, flags | LEV_OPT_CLOSE_ON_FREE, -1,
                                          (struct sockaddr *)&f->address, sizeof f->address);
    CHECK(f->listener);
    socklen_t length = sizeof f->address;
    int fd = evconnlistener_get_fd(f->listener);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&f->address, &length), 0);
}

static void end(struct fixture *f)
{
    for (int i = 0; i < f->count; i++)
        close(f->accepted[i]);
    if (f->listener)
        evconnlistener_free(f->listener);
    event_base_free(f->base);
}

static int dial(struct fixture *f)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&f->address, sizeof f->address), 0);
    return fd;
}

/* A connection that the listener has, too: it has acknowledged a byte. */
static int dial_and_wait(struct fixture *f)
{
    int fd = dial(f), left = 1;
    CHECK_EQ(write(fd, "x", 1), 1);
    while (left > 0) {
        CHECK_EQ(ioctl(fd, SIOCOUTQ, &left), 0);
        usleep(100);
    }
    return fd;
}

TEST(connections_are_passed_to_the_callback_all_that_wait)
{
    struct fixture f;
    begin(&f, on_accept, 0);
    CHECK(evconnlistener_get_base(f.listener) == f.base);
    int first = dial_and_wait(&f), second = dial_and_wait(&f);
    event_base_loop(f.base, EVLOOP_ONCE);
    CHECK_TRACE("accept 2 16;accept 2 16;");
    int flags = fcntl(f.accepted[0], F_GETFL), fd_flags = fcntl(f.accepted[0], F_GETFD);
    CHECK(flags & O_NONBLOCK);
    CHECK(!(fd_flags & FD_CLOEXEC));
    int fd = evconnlistener_get_fd(f.listener), on = 0;
    CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
    CHECK(!(fcntl(fd, F_GETFD) & FD_CLOEXEC));
    socklen_t length = sizeof on;
    CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &length), 0);
    CHECK(on);
    CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, &length), 0);
    CHECK(!on);
    close(first);
    close(second);
    end(&f);
    CHECK(!is_open(fd));
}

TEST(options_are_those_of_the_sockets)
{
    struct fixture f;
    begin(&f, on_accept,
          LEV_OPT_LEAVE_SOCKETS_BLOCKING | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE |
              LEV_OPT_REUSEABLE_PORT | LEV_OPT_DEFERRED_ACCEPT);
    int fd = evconnlistener_get_fd(f.listener), on = 0;
    socklen_t length = sizeof on;
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
    CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, &length), 0);
    CHECK(on);
    CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, &length), 0);
    CHECK(on);
    CHECK_EQ(getsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &on, &length), 0);
    CHECK(on);
    int client = dial(&f);
    CHECK_EQ(write(client, "x", 1), 1);
    event_base_loop(f.base, EVLOOP_ONCE);
    CHECK_TRACE("accept 2 16;");
    CHECK(!(fcntl(f.accepted[0], F_GETFL) & O_NONBLOCK));
    CHECK(fcntl(f.accepted[0], F_GETFD) & FD_CLOEXEC);
    close(client);
    end(&f);
}

TEST(a_listener_can_be_disabled_and_enabled)
{
    struct fixture f;
    begin(&f, on_accept, LEV_OPT_DISABLED);
    int client = dial(&f);
    settle(f.base);
    CHECK_TRACE("");
    CHECK_EQ(event_base_loop(f.base, 0), 1);
    CHECK_EQ(evconnlistener_enable(f.listener), 0);
    event_base_loop(f.base, EVLOOP_ONCE);
    CHECK_TRACE("accept 2 16;");
    CHECK_EQ(evconnlistener_disable(f.listener), 0);
    int second = dial(&f);
    settle(f.base);
    CHECK_TRACE("");
    CHECK_EQ(evconnlistener_enable(f.listener), 0);
    event_base_loop(f.base, EVLOOP_ONCE);
    CHECK_TRACE("accept 2 16;");
    close(client);
    close(second);
    end(&f);
}

static void on_other(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
                     int length, void *argument)
{
    (void)listener;
    (void)address;
    (void)length;
    note("other %s;", (char *)argument);
    close(fd);
}

TEST(without_a_callback_it_waits_for_one)
{
    struct fixture f;
    begin(&f, NULL, 0);
    int client = dial(&f);
    settle(f.base);
    CHECK_EQ(event_base_loop(f.base, 0), 1);
    evconnlistener_set_cb(f.listener, on_other, "argument");
    event_base_loop(f.base, EVLOOP_ONCE);
    CHECK_TRACE("other argument;");
    close(client);
    client = dial(&f);
    evconnlistener_set_cb(f.listener, NULL, NULL);
    event_base_loop(f.base, EVLOOP_ONCE);
    CHECK_TRACE("");
    char byte;
    CHECK_EQ(read(client, &byte, 1), 0);
    close(client);
    end(&f);
}

static void disable_on_accept(struct evconnlistener *listener, evutil_socket_t fd,
                              struct sockaddr *address, int length, void *argument)
{
    (void)address;
    (void)length;
    (void)argument;
    note("accept;");
    close(fd);
    evconnlistener_disable(listener);
}

TEST(disabled_in_its_callback_it_accepts_no_more)
{
    struct fixture f;
    begin(&f, disable_on_accept, 0);
    int first = dial_and_wait(&f), second = dial_and_wait(&f);
    settle(f.base);
    CHECK_TRACE("accept;");
    evconnlistener_enable(f.listener);
    settle(f.base);
    CHECK_TRACE("accept;");
    close(first);
    close(second);
    end(&f);
}

static void free_on_accept(struct evconnlistener *listener, evutil_socket_t fd,
                           struct sockaddr *address, int length, void *argument)
{
    (void)address;
    (void)length;
    struct fixture *f = argument;
    note("accept;");
    close(fd);
    int listening = evconnlistener_get_fd(listener);
    evconnlistener_free(listener);
    f->listener = NULL;
    CHECK(is_open(listening));
}

TEST(it_may_be_freed_in_its_callback)
{
    struct fixture f;
    begin(&f, free_on_accept, 0);
    int fd = evconnlistener_get_fd(f.listener);
    int first = dial_and_wait(&f), second = dial_and_wait(&f);
    settle(f.base);
    CHECK_TRACE("accept;");
    CHECK(!is_open(fd));
    CHECK_EQ(event_base_loop(f.base, 0), 1);
    close(first);
    close(second);
    end(&f);
}

static void free_on_error(struct evconnlistener *listener, void *argument)
{
    struct fixture *f = argument;
    note("error %s;", strerror(errno));
    evconnlistener_free(listener);
    f->listener = NULL;
}

static int last_free_descriptor(void)
{
    int fd = dup(0);
    close(fd);
    return fd;
}

TEST(without_descriptors_the_error_callback_is_called_until_there_are_some)
{
    struct fixture f;
    begin(&f, on_accept, 0);
    evconnlistener_set_error_cb(f.listener, on_error);
    int client = dial(&f);
    struct rlimit limit, old;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
    limit = (struct rlimit){(rlim_t)last_free_descriptor(), old.rlim_max};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    event_base_loop(f.base, EVLOOP_ONCE);
    event_base_loop(f.base, EVLOOP_ONCE);
    CHECK_TRACE("error Too many open files;error Too many open files;");
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
    event_base_loop(f.base, EVLOOP_ONCE);
    CHECK_TRACE("accept 2 16;");
    int second = dial(&f);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    evconnlistener_set_error_cb(f.listener, free_on_error);
    event_base_loop(f.base, EVLOOP_ONCE);
    CHECK_TRACE("error Too many open files;");
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
    close(client);
    close(second);
    end(&f);
}

TEST(a_socket_of_the_caller_is_listened_at)
{
    struct fixture f = {.base = event_base_new(), .address = loopback()};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&f.address, sizeof f.address), 0);
    socklen_t length = sizeof f.address;
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&f.address, &length), 0);
    CHECK_EQ(listen(fd, 3), 0);
    f.listener = evconnlistener_new(f.base, on_accept, &f, 0, 0, fd);
    int client = dial(&f);
    event_base_loop(f.base, EVLOOP_ONCE);
    CHECK_TRACE("accept 2 16;");
    close(client);
    end(&f);
    CHECK(is_open(fd));
    close(fd);
    f = (struct fixture){.base = event_base_new()};
    CHECK(!evconnlistener_new(f.base, on_accept, &f, 0, 3, fd));
    event_base_free(f.base);
}

TEST(what_cannot_be_bound_gives_no_listener)
{
    struct event_base *base = event_base_new();
    struct sockaddr_in address = loopback();
    CHECK(!evconnlistener_new_bind(base, on_accept, NULL, 0, 0, (struct sockaddr *)&address,
                                   sizeof address));
    address.sin_addr.s_addr = htonl(0xC0000201); /* 192.0.2.1 is nobody's */
    errno = 0;
    CHECK(!evconnlistener_new_bind(base, on_accept, NULL, 0, -1, (struct sockaddr *)&address,
                                   sizeof address));
    CHECK_EQ(errno, EADDRNOTAVAIL);
    address.sin_family = 77;
    CHECK(!evconnlistener_new_bind(base, on_accept, NULL, 0, -1, (struct sockaddr *)&address,
                                   sizeof address));
    CHECK(!evconnlistener_new_bind(base, on_accept, NULL, 0, -1, NULL, 0));
    event_base_free(base);
}

TEST(unix_sockets_can_be_listened_at)
{
    struct fixture f = {.base = event_base_new()};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int n = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "gossamer-listener-%d",
                     getpid());
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    f.listener = evconnlistener_new_bind(f.base, on_accept, &f, LEV_OPT_CLOSE_ON_FREE, 4,
                                         (struct sockaddr *)&address, (int)length);
    CHECK(f.listener);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&address, length), 0);
    event_base_loop(f.base, EVLOOP_ONCE);
    CHECK_TRACE("accept 1 2;");
    close(fd);
    end(&f);
}

TEST(an_ipv6_socket_can_be_for_ipv6_only)
{
    struct event_base *base = event_base_new();
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    struct evconnlistener *listener = evconnlistener_new_bind(
        base, on_accept, NULL, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_BIND_IPV6ONLY, -1,
        (struct sockaddr *)&address, sizeof address);
    if (!listener && errno == EAFNOSUPPORT) {
        event_base_free(base);
        return;
    }
    CHECK(listener);
    int on = 0;
    socklen_t length = sizeof on;
    CHECK_EQ(getsockopt(evconnlistener_get_fd(listener), IPPROTO_IPV6, IPV6_V6ONLY, &on, &length),
             0);
    CHECK(on);
    evconnlistener_free(listener);
    event_base_free(base);
}
