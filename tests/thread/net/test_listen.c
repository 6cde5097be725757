#include "tests/refused_call.h"
#include "tests/thread/fixture.h"

#include <gossamer/net.h>

static unsigned port_of(int fd, sa_family_t *ret_family)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    CHECK_EQ(gs_sys_getsockname(fd, (struct sockaddr *)&address, &length), 0);
    *ret_family = address.ss_family;
    return ntohs(((struct sockaddr_in *)&address)->sin_port);
}

static bool accepts(const char *host, unsigned port)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    bool is_four = inet_pton(AF_INET, host, &four.sin_addr) == 1;
    CHECK(is_four || inet_pton(AF_INET6, host, &six.sin6_addr) == 1);
    int fd = socket(is_four ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int err = fd < 0    ? fd
              : is_four ? connect(fd, (struct sockaddr *)&four, sizeof four)
                        : connect(fd, (struct sockaddr *)&six, sizeof six);
    if (fd >= 0)
        close(fd);
    return !err;
}

static bool has_ipv6(void)
{
    int fd = gs_listen("[::1]:0", NULL);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

TEST(empty_host_is_every_address_of_both_families)
{
    sa_family_t family;
    int fd = gs_listen(":0", NULL);
    CHECK(fd >= 0);
    unsigned port = port_of(fd, &family);
    CHECK_EQ(family, has_ipv6() ? AF_INET6 : AF_INET);
    CHECK(accepts("127.0.0.1", port));
    CHECK_EQ(accepts("::1", port), has_ipv6());
    close(fd);
}

TEST(numeric_address_is_listened_at)
{
    sa_family_t family;
    int fd = gs_listen("127.0.0.1:0", NULL);
    CHECK(fd >= 0);
    unsigned port = port_of(fd, &family);
    CHECK_EQ(family, AF_INET);
    CHECK(accepts("127.0.0.1", port));
    CHECK(!accepts("::1", port));
    CHECK_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
    close(fd);
    if (!has_ipv6())
        return;
    fd = gs_listen("[::]:0", NULL);
    CHECK(fd >= 0);
    port = port_of(fd, &family);
    CHECK(accepts("::1", port));
    CHECK(!accepts("127.0.0.1", port));
    close(fd);
}

static long without_ipv6(long number, void *data)
{
    unsigned *count = data;
    return number == SYS_socket && !(*count)++ ? -EAFNOSUPPORT : 0;
}

TEST(empty_host_is_every_address_of_ipv4_without_ipv6)
{
    sa_family_t family;
    unsigned count = 0;
    gs_sys_set_fault(without_ipv6, &count);
    int fd = gs_listen(":0", NULL);
    gs_sys_set_fault(NULL, NULL);
    CHECK(fd >= 0);
    CHECK(accepts("127.0.0.1", port_of(fd, &family)));
    CHECK_EQ(family, AF_INET);
    close(fd);
}

TEST(what_is_no_address_of_this_machine_is_refused)
{
    const char *invalid[] = {
        "",    "80",     "localhost:80", "127.0.0.1:http", "[::1]", ":",         ":65536",
        ":-1", "::1:80", "unix:",        "[]:1",           "*:80",  "127.0.0.1:"};
    char path[300] = "unix:/tmp/";
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++)
        CHECK_EQ(gs_listen(invalid[i], NULL), -EINVAL);
    memset(path + strlen(path), 'x', sizeof path - 1 - strlen(path));
    CHECK_EQ(gs_listen(path, NULL), -ENAMETOOLONG);
    CHECK_EQ(gs_listen("192.0.2.1:0", NULL), -EADDRNOTAVAIL);
    CHECK_EQ(gs_listen("unix:/tmp/gossamer-no-such/folder", NULL), -ENOENT);
}

TEST(port_is_shared_only_if_both_ask_for_it)
{
    const struct gs_listen_options sharing = {.shares_port = true, .backlog = 10};
    sa_family_t family;
    char address[32];
    int first = gs_listen("127.0.0.1:0", &sharing);
    CHECK(first >= 0);
    snprintf(address, sizeof address, "127.0.0.1:%u", port_of(first, &family));
    int second = gs_listen(address, &sharing);
    CHECK(second >= 0);
    CHECK_EQ(gs_listen(address, NULL), -EADDRINUSE);
    close(first);
    close(second);
}

/* ---- Unix sockets ---- */

static char folder[] = "/tmp/gossamer-listen-XXXXXX", path[64], unix_address[80];

static void name_socket(void)
{
    if (strstr(folder, "XXXXXX"))
        CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/socket", folder);
    snprintf(unix_address, sizeof unix_address, "unix:%s", path);
}

TEST(unix_socket_of_a_server_that_has_ended_is_replaced)
{
    name_socket();
    for (int i = 0; i < 2; i++) {
        int fd = gs_listen(unix_address, NULL);
        CHECK(fd >= 0);
        CHECK_EQ(gs_listen(unix_address, NULL), -EADDRINUSE);
        CHECK_EQ(access(path, F_OK), 0);
        close(fd);
    }
    unlink(path);
}

TEST(file_that_is_no_socket_is_kept)
{
    name_socket();
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    CHECK_EQ(gs_listen(unix_address, NULL), -EADDRINUSE);
    CHECK_EQ(access(path, F_OK), 0);
    unlink(path);
}

TEST(socket_without_a_path_is_bound_as_by_the_system_call)
{
    const struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(gs_bind_unix(fd, (const struct sockaddr *)&name, sizeof name.sun_family), 0);
    close(fd);
}

/* ---- Closing a listener while no user threads run ---- */

static void *wait_for_clients(void *listener)
{
    CHECK_EQ(gs_accept(*(int *)listener, NULL, NULL, 0, after(1)), -ETIMEDOUT);
    return NULL;
}

TEST(listener_is_closed_before_a_run_and_after_one)
{
    int fd = gs_listen("127.0.0.1:0", NULL);
    gs_forget(fd);
    CHECK_EQ(gs_close(fd), 0);
    CHECK_EQ(gs_close(fd), -EBADF);
    fd = gs_listen("127.0.0.1:0", NULL);
    CHECK_EQ(gs_threads_run(NULL, wait_for_clients, &fd, NULL), 0);
    gs_forget(fd);
    CHECK_EQ(gs_close(fd), 0);
    CHECK_EQ(gs_close(fd), -EBADF);
}

/* ---- Lack of descriptors, and other failures ---- */

TEST(listening_fails_with_each_of_its_calls_and_leaves_no_descriptor)
{
    static const long numbers[] = {SYS_socket, SYS_setsockopt, SYS_bind, SYS_listen};
    name_socket();
    int next = dup(0);
    close(next);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct refused_call refused = {numbers[i], -EMFILE};
        gs_sys_set_fault(refuse_call, &refused);
        int err = gs_listen("127.0.0.1:0", NULL);
        int unix_err = numbers[i] == SYS_setsockopt ? err : gs_listen(unix_address, NULL);
        gs_sys_set_fault(NULL, NULL);
        CHECK_EQ(err, -EMFILE);
        CHECK_EQ(unix_err, -EMFILE);
        unlink(path);
    }
    int after_all = dup(0);
    CHECK_EQ(after_all, next);
    close(after_all);
    rmdir(folder);
}
