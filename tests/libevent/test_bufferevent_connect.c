#include "tests/libevent/bev.h"

#include <event2/bufferevent_struct.h>
#include <event2/dns.h>

/* While nobody listens there, connections are refused, and the port is not another's. */
static int bind_at(struct sockaddr_in *ret_address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK_EQ(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    socklen_t length = sizeof *ret_address;
    CHECK_EQ(getsockname(fd, (struct sockaddr *)ret_address, &length), 0);
    return fd;
}

static int listen_at(struct sockaddr_in *ret_address)
{
    int fd = bind_at(ret_address);
    CHECK_EQ(listen(fd, 5), 0);
    return fd;
}

/* A test of a bufferevent `bev` without a socket, and a listener at `address`. */
#define CONNECT_TEST(name_)                                                                        \
    static void name_##_body(struct event_base *base, struct bufferevent *bev, int listener,       \
                             struct sockaddr_in address);                                          \
    TEST(name_)                                                                                    \
    {                                                                                              \
        struct event_base *base = event_base_new();                                                \
        struct sockaddr_in address = {0};                                                          \
        int listener = listen_at(&address);                                                        \
        struct bufferevent *bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);         \
        note_all(bev, "b");                                                                        \
        name_##_body(base, bev, listener, address);                                                \
        bufferevent_free(bev);                                                                     \
        event_base_free(base);                                                                     \
        close(listener);                                                                           \
    }                                                                                              \
    static void name_##_body(struct event_base *base, struct bufferevent *bev,                     \
                             __attribute__((unused)) int listener, struct sockaddr_in address)

CONNECT_TEST(a_socket_is_made_and_connected)
{
    CHECK_EQ(bufferevent_socket_connect(bev, (struct sockaddr *)&address, sizeof address), 0);
    int fd = bufferevent_getfd(bev);
    CHECK(fd >= 0);
    CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
    CHECK_TRACE("");
    CHECK_EQ(bufferevent_get_enabled(bev), EV_WRITE);
    run_until_noted(base, "connected");
    settle(base);
    CHECK_TRACE("b:event  connected;");
}

CONNECT_TEST(what_is_written_while_connecting_follows_the_connection)
{
    CHECK_EQ(bufferevent_write(bev, "one", 3), 0);
    CHECK_EQ(bufferevent_enable(bev, EV_READ), 0);
    CHECK_EQ(bufferevent_socket_connect(bev, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_EQ(bufferevent_write(bev, "two", 3), 0);
    run_until_noted(base, "write");
    CHECK_TRACE("b:event  connected;b:write 0;");
    int fd = accept(listener, NULL, NULL);
    char text[8];
    CHECK_EQ(read(fd, text, sizeof text), 6);
    CHECK_EQ(write(fd, "answer", 6), 6);
    run_until_noted(base, "read");
    CHECK_TRACE("b:read 6;");
    close(fd);
    run_until_noted(base, "eof");
    CHECK_TRACE("b:event R eof;");
}

CONNECT_TEST(disabled_writing_does_not_hold_up_a_connection)
{
    CHECK_EQ(bufferevent_socket_connect(bev, (struct sockaddr *)&address, sizeof address), 0);
    bufferevent_write(bev, "x", 1);
    bufferevent_disable(bev, EV_WRITE);
    run_until_noted(base, "connected");
    settle(base);
    CHECK_TRACE("b:event  connected;");
    CHECK_EQ(output_length(bev), 1);
    bufferevent_enable(bev, EV_WRITE);
    run_until_noted(base, "write");
    CHECK_TRACE("b:write 0;");
}

static void note_socket_error(struct bufferevent *bev, short what, void *unused)
{
    (void)bev;
    (void)unused;
    note("event %s %s;", what_text(what), strerror(errno));
}

TEST(a_refused_connection_is_an_error_event)
{
    struct event_base *base = event_base_new();
    struct sockaddr_in address = {0};
    int bound = bind_at(&address);
    struct bufferevent *bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(bev, note_read, note_write, note_socket_error, NULL);
    bufferevent_enable(bev, EV_READ);
    CHECK_EQ(bufferevent_socket_connect(bev, (struct sockaddr *)&address, sizeof address), 0);
    run_until_noted(base, "error");
    settle(base);
    CHECK_TRACE("event  error Connection refused;");
    note("enabled %d;", bufferevent_get_enabled(bev));
    note("pending %d %d;", event_pending(&bev->ev_read, EV_READ, NULL) != 0,
         event_pending(&bev->ev_write, EV_WRITE, NULL) != 0);
    CHECK_TRACE("enabled 6;pending 0 0;");
    bufferevent_free(bev);
    event_base_free(base);
    close(bound);
}

TEST(an_address_that_cannot_be_connected_to_fails_at_once)
{
    struct event_base *base = event_base_new();
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_BROADCAST);
    address.sin_port = htons(80);
    struct bufferevent *bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(bev, note_read, note_write, note_socket_error, NULL);
    note("%d;", bufferevent_socket_connect(bev, (struct sockaddr *)&address, sizeof address));
    note("%d;", bufferevent_getfd(bev));
    settle(base);
    CHECK_TRACE("-1;-1;");
    CHECK_EQ(bufferevent_socket_connect(bev, NULL, 0), -1);
    address.sin_family = 77;
    CHECK_EQ(bufferevent_socket_connect(bev, (struct sockaddr *)&address, sizeof address), -1);
    CHECK_EQ(bufferevent_getfd(bev), -1);
    settle(base);
    CHECK_TRACE("");
    bufferevent_free(bev);
    event_base_free(base);
}

TEST(a_pair_cannot_be_connected)
{
    struct event_base *base = event_base_new();
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct bufferevent *pair[2];
    CHECK_EQ(bufferevent_pair_new(base, 0, pair), 0);
    CHECK_EQ(bufferevent_setfd(pair[0], 3), -1);
    CHECK_EQ(bufferevent_getfd(pair[0]), -1);
    bufferevent_free(pair[0]);
    bufferevent_free(pair[1]);
    event_base_free(base);
    (void)address;
}

TEST(a_connection_that_the_caller_has_begun_is_reported)
{
    struct event_base *base = event_base_new();
    struct sockaddr_in address = {0};
    int listener = listen_at(&address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) < 0 && errno == EINPROGRESS);
    struct bufferevent *bev = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
    note_all(bev, "b");
    CHECK_EQ(bufferevent_socket_connect(bev, NULL, 0), 0);
    run_until_noted(base, "connected");
    settle(base);
    CHECK_TRACE("b:event  connected;");
    bufferevent_free(bev);
    event_base_free(base);
    close(listener);
}

TEST(a_given_descriptor_is_connected)
{
    struct event_base *base = event_base_new();
    struct sockaddr_in address = {0};
    int listener = listen_at(&address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct bufferevent *bev = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
    note_all(bev, "b");
    CHECK_EQ(bufferevent_socket_connect(bev, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_EQ(bufferevent_getfd(bev), fd);
    run_until_noted(base, "connected");
    settle(base);
    CHECK_TRACE("b:event  connected;");
    bufferevent_free(bev);
    event_base_free(base);
    close(listener);
}

static socklen_t unix_address(struct sockaddr_un *address, const char *name)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "gossamer-%s-%d", name,
                     getpid());
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

TEST(a_connection_that_is_there_at_once_calls_back_later)
{
    struct event_base *base = event_base_new();
    struct sockaddr_un address;
    socklen_t length = unix_address(&address, "at-once");
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(listener, (struct sockaddr *)&address, length), 0);
    CHECK_EQ(listen(listener, 5), 0);
    struct bufferevent *bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    note_all(bev, "b");
    CHECK_EQ(bufferevent_socket_connect(bev, (struct sockaddr *)&address, (int)length), 0);
    CHECK_TRACE("");
    note("%d;", event_pending(&bev->ev_write, EV_WRITE, NULL) != 0);
    settle(base);
    CHECK_TRACE("1;b:write 0;b:event  connected;");
    bufferevent_free(bev);
    settle(base);
    bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    note_all(bev, "b");
    bufferevent_write(bev, "xyz", 3);
    CHECK_EQ(bufferevent_socket_connect(bev, (struct sockaddr *)&address, (int)length), 0);
    settle(base);
    CHECK_TRACE("b:event  connected;b:write 0;");
    bufferevent_free(bev);
    event_base_free(base);
    close(listener);
}

TEST(a_refusal_that_is_there_at_once_is_an_event)
{
    struct event_base *base = event_base_new();
    struct sockaddr_un address;
    socklen_t length = unix_address(&address, "nobody");
    struct bufferevent *bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(bev, note_read, note_write, note_socket_error, NULL);
    bufferevent_enable(bev, EV_READ);
    CHECK_EQ(bufferevent_socket_connect(bev, (struct sockaddr *)&address, (int)length), 0);
    CHECK_TRACE("");
    note("%d %d;", bufferevent_getfd(bev) >= 0, bufferevent_get_enabled(bev));
    settle(base);
    CHECK_TRACE("1 0;event  error Connection refused;");
    bufferevent_free(bev);
    event_base_free(base);
}

CONNECT_TEST(a_host_is_named_by_its_numeric_address)
{
    int port = ntohs(address.sin_port);
    CHECK_EQ(bufferevent_socket_connect_hostname(bev, NULL, 77, "127.0.0.1", port), -1);
    CHECK_EQ(bufferevent_socket_connect_hostname(bev, NULL, AF_INET, "127.0.0.1", 0), -1);
    CHECK_EQ(bufferevent_socket_connect_hostname(bev, NULL, AF_INET, "127.0.0.1", 65536), -1);
    CHECK_EQ(bufferevent_socket_connect_hostname(bev, NULL, AF_INET, "127.0.0.1", port), 0);
    CHECK_EQ(bufferevent_socket_get_dns_error(bev), 0);
    CHECK(bufferevent_getfd(bev) >= 0);
    run_until_noted(base, "connected");
    settle(base);
    CHECK_TRACE("b:event  connected;");
}

CONNECT_TEST(a_host_is_found_by_its_name)
{
    bufferevent_enable(bev, EV_READ);
    bufferevent_write(bev, "hello", 5);
    int port = ntohs(address.sin_port);
    CHECK_EQ(bufferevent_socket_connect_hostname(bev, NULL, AF_INET, "localhost", port), 0);
    run_until_noted(base, "write");
    settle(base);
    CHECK_TRACE("b:event  connected;b:write 0;");
    CHECK_EQ(bufferevent_socket_get_dns_error(bev), 0);
    CHECK(bufferevent_getfd(bev) >= 0);
}

TEST(a_name_that_does_not_exist_is_an_error_event)
{
    struct event_base *base = event_base_new();
    struct bufferevent *bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    note_all(bev, "b");
    bufferevent_enable(bev, EV_READ);
    CHECK_EQ(bufferevent_socket_connect_hostname(bev, NULL, AF_INET, "no such name", 80), 0);
    run_until_noted(base, "error");
    settle(base);
    note("%d %d %d;", bufferevent_getfd(bev), bufferevent_socket_get_dns_error(bev) != 0,
         bufferevent_get_enabled(bev));
    CHECK_TRACE("b:event  error;-1 1 6;");
    bufferevent_free(bev);
    event_base_free(base);
}

TEST(it_may_be_freed_while_its_name_is_looked_up)
{
    struct event_base *base = event_base_new();
    struct bufferevent *bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    CHECK_EQ(bufferevent_socket_connect_hostname(bev, NULL, AF_INET, "localhost", 1), 0);
    bufferevent_free(bev);
    CHECK_EQ(event_base_loop(base, 0), 1);
    event_base_free(base);
}

/* A socket that is not connected, and belongs to a bufferevent that is freed with its base. */
static void free_base_in_lookup(int iterations)
{
    struct event_base *base = event_base_new();
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct bufferevent *bev = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
    CHECK_EQ(bufferevent_socket_connect_hostname(bev, NULL, AF_INET, "localhost", 1), 0);
    for (int i = 0; i < iterations; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
    bufferevent_free(bev);
    event_base_free(base);
    CHECK(!is_open(fd));
}

TEST(its_base_may_be_freed_while_its_name_is_looked_up)
{
    free_base_in_lookup(0);
    free_base_in_lookup(1);
    free_base_in_lookup(2);
}

TEST(the_base_of_one_that_lives_on_may_be_freed_while_its_name_is_looked_up)
{
    struct event_base *base = event_base_new();
    struct bufferevent *bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    note_all(bev, "b");
    CHECK_EQ(bufferevent_socket_connect_hostname(bev, NULL, AF_INET, "localhost", 1), 0);
    bufferevent_incref(bev);
    bufferevent_free(bev);
    bufferevent_decref(bev);
    event_base_free(base);
    CHECK_TRACE("");
}

TEST(one_that_is_freed_while_its_name_is_looked_up_leaves_no_socket)
{
    struct sockaddr_in address = {0};
    int listener = listen_at(&address);
    int lowest = dup(listener);
    close(lowest);
    struct event_base *base = event_base_new();
    struct bufferevent *bev = bufferevent_socket_new(base, -1, 0);
    int port = ntohs(address.sin_port);
    CHECK_EQ(bufferevent_socket_connect_hostname(bev, NULL, AF_INET, "localhost", port), 0);
    int fd = bufferevent_getfd(bev); /* libevent's is there already */
    bufferevent_free(bev);
    CHECK_EQ(event_base_loop(base, 0), 1);
    event_base_free(base);
    if (fd >= 0)
        close(fd);
    CHECK(!is_open(lowest));
    close(listener);
}
