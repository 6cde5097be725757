#include "serve/accept/unix_socket.h"

#include "tests/refused_call.h"
#include "tests/test.h"

#include <gossamer/sys.h>

static char folder[] = "/tmp/gossamer-unix-XXXXXX", path[64];

static struct serve_address address_in_folder(void)
{
    char word[80];
    struct serve_address address;
    const char *problem;
    if (strstr(folder, "XXXXXX"))
        CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/socket", folder);
    snprintf(word, sizeof word, "unix:%s", path);
    CHECK_EQ(serve_address_parse(word, &address, &problem), 0);
    CHECK_EQ(address.file_fd, -1);
    return address;
}

static bool is_there(void)
{
    return access(path, F_OK) == 0;
}

static int bound_socket(struct serve_address *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(serve_unix_socket_bind(fd, address), 0);
    CHECK_EQ(listen(fd, 1), 0);
    return fd;
}

static int bind_again(void)
{
    struct serve_address address = address_in_folder();
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int err = serve_unix_socket_bind(fd, &address);
    close(fd);
    CHECK_EQ(address.file_fd >= 0, err == 0);
    if (!err)
        close(address.file_fd);
    return err;
}

TEST(a_file_is_removed_by_the_server_that_created_it)
{
    struct serve_address address = address_in_folder();
    int fd = bound_socket(&address);
    CHECK(address.file_fd >= 0);
    close(fd);
    CHECK(is_there());
    serve_unix_socket_remove(&address);
    CHECK(!is_there());
    serve_unix_socket_remove(&address);
}

TEST(the_file_of_another_server_is_not_removed)
{
    struct serve_address mine = address_in_folder(), unbound = mine, other = mine;
    int first = bound_socket(&mine);
    char moved[80];
    snprintf(moved, sizeof moved, "%s/moved", folder);
    CHECK_EQ(rename(path, moved), 0);
    int second = bound_socket(&other);
    serve_unix_socket_remove(&mine);
    serve_unix_socket_remove(&unbound);
    CHECK(is_there());
    serve_unix_socket_remove(&other);
    CHECK(!is_there());
    unlink(moved);
    close(first);
    close(second);
}

/* A file system may give the inode of a file that was removed to the next one. */
TEST(a_file_that_replaced_that_of_a_server_that_drains_is_not_removed)
{
    struct serve_address mine = address_in_folder(), other = mine;
    close(bound_socket(&mine));
    int second = bound_socket(&other);
    serve_unix_socket_remove(&mine);
    CHECK(is_there());
    serve_unix_socket_remove(&other);
    CHECK(!is_there());
    close(second);
}

TEST(the_file_of_a_server_that_was_killed_is_replaced)
{
    struct serve_address address = address_in_folder();
    close(bound_socket(&address));
    CHECK_EQ(bind_again(), 0);
    CHECK(is_there());
    unlink(path);
}

TEST(the_file_of_a_running_server_is_kept_even_if_its_accept_queue_is_full)
{
    struct serve_address address = address_in_folder();
    int fd = bound_socket(&address), clients[4];
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(bind_again(), -EADDRINUSE);
        clients[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        int err = connect(clients[i], (struct sockaddr *)&address.storage, address.length);
        CHECK(err == 0 || errno == EAGAIN);
    }
    CHECK_EQ(errno, EAGAIN);
    CHECK(is_there());
    for (int i = 0; i < 4; i++)
        close(clients[i]);
    close(fd);
    unlink(path);
}

TEST(a_file_that_is_no_socket_is_kept)
{
    address_in_folder();
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    CHECK_EQ(bind_again(), -EADDRINUSE);
    CHECK(is_there());
    unlink(path);
    CHECK_EQ(symlink("nothing", path), 0);
    CHECK_EQ(bind_again(), -EADDRINUSE);
    struct stat link;
    CHECK_EQ(lstat(path, &link), 0);
    unlink(path);
}

TEST(a_file_is_kept_if_its_server_cannot_be_asked)
{
    static const long calls[] = {SYS_socket, SYS_connect, SYS_newfstatat};
    struct serve_address address = address_in_folder();
    close(bound_socket(&address));
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct refused_call refused = {calls[i], -EIO};
        gs_sys_set_fault(refuse_call, &refused);
        int err = bind_again();
        gs_sys_set_fault(NULL, NULL);
        CHECK_EQ(err, -EADDRINUSE);
        CHECK(is_there());
    }
    unlink(path);
    rmdir(folder);
}
