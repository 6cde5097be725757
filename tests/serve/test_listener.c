#include "serve/accept/listener.h"

#include "tests/refused_call.h"
#include "tests/test.h"

#include <gossamer/sys.h>
#include <netinet/tcp.h>

static const struct serve_options options = {.backlog = 16, .defer_accept = true};

static struct serve_address loopback(void)
{
    struct serve_address address;
    const char *problem;
    CHECK_EQ(serve_address_parse("127.0.0.1:0", &address, &problem), 0);
    return address;
}

static unsigned port_of(const struct serve_address *address)
{
    return ntohs(((const struct sockaddr_in *)&address->storage)->sin_port);
}

static int option_of(int fd, int level, int name)
{
    int value = -1;
    socklen_t length = sizeof value;
    CHECK_EQ(getsockopt(fd, level, name, &value, &length), 0);
    return value;
}

TEST(port_0_is_replaced_by_the_port_that_was_taken)
{
    struct serve_address address = loopback();
    int fd = serve_listen(&address, &options, SERVE_ALONE);
    CHECK(fd >= 0);
    CHECK(port_of(&address) > 0);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(client, (struct sockaddr *)&address.storage, address.length), 0);
    close(client);
    close(fd);
}

TEST(a_listening_socket_does_not_block_and_is_not_inherited)
{
    struct serve_address address = loopback();
    int fd = serve_listen(&address, &options, SERVE_ALONE);
    CHECK(fd >= 0);
    CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
    CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
    CHECK(option_of(fd, SOL_SOCKET, SO_ACCEPTCONN));
    CHECK(option_of(fd, IPPROTO_TCP, TCP_NODELAY));
    close(fd);
}

TEST(accepting_is_deferred_only_where_that_is_wanted)
{
    struct serve_options at_once = options;
    at_once.defer_accept = false;
    struct serve_address one = loopback(), two = loopback();
    int first = serve_listen(&one, &options, SERVE_ALONE);
    int second = serve_listen(&two, &at_once, SERVE_ALONE);
    CHECK(option_of(first, IPPROTO_TCP, TCP_DEFER_ACCEPT) > 0);
    CHECK_EQ(option_of(second, IPPROTO_TCP, TCP_DEFER_ACCEPT), 0);
    close(first);
    close(second);
}

TEST(workers_share_an_address)
{
    struct serve_address address = loopback();
    int fds[4];
    for (int i = 0; i < 4; i++) {
        fds[i] = i ? serve_listen_again(&address, fds[0], &options)
                   : serve_listen(&address, &options, SERVE_FIRST);
        CHECK(fds[i] >= 0);
    }
    for (int i = 0; i < 4; i++)
        close(fds[i]);
}

TEST(workers_share_a_unix_socket)
{
    struct serve_address address;
    const char *problem;
    char folder[] = "/tmp/gossamer-listener-XXXXXX", word[64];
    CHECK(mkdtemp(folder));
    snprintf(word, sizeof word, "unix:%s/socket", folder);
    CHECK_EQ(serve_address_parse(word, &address, &problem), 0);
    int first = serve_listen(&address, &options, SERVE_FIRST);
    int second = serve_listen_again(&address, first, &options);
    CHECK(first >= 0 && second >= 0 && first != second);
    CHECK_EQ(fcntl(second, F_GETFD), FD_CLOEXEC);
    CHECK_EQ(serve_listen(&address, &options, SERVE_FIRST), -EADDRINUSE);
    close(first);
    int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(client, (struct sockaddr *)&address.storage, address.length), 0);
    int accepted = accept4(second, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    while (accepted < 0 && errno == EAGAIN)
        accepted = accept4(second, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    CHECK(accepted >= 0);
    close(accepted);
    close(client);
    close(second);
    unlink(word + strlen("unix:"));
    rmdir(folder);
}

TEST(an_address_that_another_server_has_is_not_shared)
{
    struct serve_address address = loopback();
    int first = serve_listen(&address, &options, SERVE_FIRST);
    int second = serve_listen(&address, &options, SERVE_JOIN);
    CHECK(first >= 0 && second >= 0);
    CHECK_EQ(serve_listen(&address, &options, SERVE_FIRST), -EADDRINUSE);
    CHECK_EQ(serve_listen(&address, &options, SERVE_ALONE), -EADDRINUSE);
    close(first);
    close(second);
    int alone = serve_listen(&address, &options, SERVE_ALONE);
    CHECK(alone >= 0);
    CHECK_EQ(serve_listen(&address, &options, SERVE_FIRST), -EADDRINUSE);
    close(alone);
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 64; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

TEST(whatever_fails_leaves_no_descriptor)
{
    static const long calls[] = {SYS_socket, SYS_setsockopt, SYS_bind, SYS_listen, SYS_getsockname};
    unsigned before = open_descriptors();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct serve_address address = loopback();
        struct refused_call refused = {calls[i], -ENOBUFS};
        gs_sys_set_fault(refuse_call, &refused);
        int result = serve_listen(&address, &options, SERVE_FIRST);
        gs_sys_set_fault(NULL, NULL);
        CHECK_EQ(result, -ENOBUFS);
        CHECK_EQ(open_descriptors(), before);
    }
}
