/* Fallbacks for kernels without a system call; the fault hook simulates such kernels. */
#include "tests/test.h"

#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <linux/openat2.h>
#include <sys/epoll.h>

static char root[] = "/tmp/gossamer-older-XXXXXX";
static int root_fd, descriptors;

static unsigned exact_waits;

static long lacking(long number, void *data)
{
    (void)data;
    exact_waits += number == SYS_ppoll;
    return number == SYS_openat2 || number == SYS_epoll_pwait2 || number == SYS_preadv2 ||
                   number == SYS_pwritev2
               ? -ENOSYS
               : 0;
}

static int count_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void make_file(const char *path)
{
    int fd = openat(root_fd, path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, path, 1) != 1 || close(fd)) {
        perror(path);
        exit(1);
    }
}

static void set_up(void)
{
    strcpy(root + sizeof root - 7, "XXXXXX");
    if (!mkdtemp(root) || (root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0 ||
        mkdirat(root_fd, "a", 0755) || mkdirat(root_fd, "a/b", 0755) ||
        symlinkat("file", root_fd, "a/link") || symlinkat("a", root_fd, "folder") ||
        symlinkat("/etc", root_fd, "out")) {
        perror(root);
        exit(1);
    }
    make_file("a/file");
    make_file("a/b/f");
    descriptors = count_descriptors();
    gs_sys_set_fault(lacking, NULL);
}

static void tear_down(void)
{
    gs_sys_set_fault(NULL, NULL);
    static const char *const files[] = {"a/b/f", "a/file", "a/link", "folder", "out"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlinkat(root_fd, files[i], 0);
    unlinkat(root_fd, "a/b", AT_REMOVEDIR);
    unlinkat(root_fd, "a", AT_REMOVEDIR);
    close(root_fd);
    rmdir(root);
}

/* Returns 0, or the error of opening the path. */
static int open_beneath(const char *path)
{
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC, .resolve = RESOLVE_BENEATH};
    int fd = gs_sys_openat2(root_fd, path, &how);
    return fd < 0 ? fd : gs_sys_close(fd);
}

TEST(files_and_directories_beneath_are_opened)
{
    static const char *const paths[] = {"a/file", "a//b/./f", "./a/b/f", "a", "a/b/", ".", "a/."};
    set_up();
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        CHECK_EQ(open_beneath(paths[i]), 0);
    CHECK_EQ(count_descriptors(), descriptors);
    tear_down();
}

TEST(nothing_else_is_opened)
{
    char too_long[300];
    memset(too_long, 'a', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = 0;
    set_up();
    CHECK_EQ(open_beneath("/etc/passwd"), -EXDEV);
    CHECK_EQ(open_beneath("a/../a/file"), -EXDEV);
    CHECK_EQ(open_beneath(".."), -EXDEV);
    CHECK_EQ(open_beneath("a/link"), -EXDEV);
    CHECK_EQ(open_beneath("folder/file"), -EXDEV);
    CHECK_EQ(open_beneath("out/passwd"), -EXDEV);
    CHECK_EQ(open_beneath("a/file/"), -ENOTDIR);
    CHECK_EQ(open_beneath("a/none"), -ENOENT);
    CHECK_EQ(open_beneath(""), -ENOENT);
    CHECK_EQ(open_beneath(too_long), -ENAMETOOLONG);
    CHECK_EQ(count_descriptors(), descriptors);
    tear_down();
}

TEST(any_path_is_opened_without_resolve_beneath)
{
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC};
    set_up();
    int fd = gs_sys_openat2(root_fd, "folder/link", &how);
    CHECK(fd >= 0);
    CHECK_EQ(gs_sys_close(fd), 0);
    tear_down();
}

TEST(wait_for_events_is_not_shorter_than_its_timeout_nor_in_milliseconds)
{
    struct epoll_event event;
    gs_sys_set_fault(lacking, NULL);
    int fd = gs_sys_epoll_create(EPOLL_CLOEXEC);
    uint64_t start_ns = gs_clock_now();
    CHECK_EQ(gs_sys_epoll_wait(fd, &event, 1, 0), 0);
    CHECK_EQ(gs_sys_epoll_wait(fd, &event, 1, GS_MILLISECOND + 1), 0);
    CHECK(gs_clock_now() - start_ns > GS_MILLISECOND);
    CHECK_EQ(exact_waits, 1);
    event = (struct epoll_event){.events = EPOLLOUT};
    int pair[2];
    CHECK_EQ(gs_sys_pipe2(pair, O_CLOEXEC), 0);
    CHECK_EQ(gs_sys_epoll_ctl(fd, EPOLL_CTL_ADD, pair[1], &event), 0);
    CHECK_EQ(gs_sys_epoll_wait(fd, &event, 1, 3600 * GS_SECOND + 1), 1);
    gs_sys_set_fault(NULL, NULL);
    gs_sys_close(pair[0]);
    gs_sys_close(pair[1]);
    gs_sys_close(fd);
}

TEST(files_are_read_and_written_without_flags)
{
    char bytes[4] = "abc";
    struct iovec part = {bytes, 3};
    set_up();
    struct open_how how = {.flags = O_RDWR | O_CLOEXEC, .resolve = RESOLVE_BENEATH};
    int fd = gs_sys_openat2(root_fd, "a/file", &how);
    CHECK(fd >= 0);
    CHECK_EQ(gs_sys_pwritev2(fd, &part, 1, -1, 0), 3);
    CHECK_EQ(gs_sys_pwritev2(fd, &part, 1, 1, 0), 3);
    CHECK_EQ(gs_sys_preadv2(fd, &part, 1, 0, 0), 3);
    CHECK_STR(bytes, "aab");
    CHECK_EQ(gs_sys_preadv2(fd, &part, 1, -1, 0), 1);
    CHECK_STR(bytes, "cab");
    CHECK_EQ(gs_sys_preadv2(fd, &part, 1, 0, RWF_NOWAIT), -EOPNOTSUPP);
    CHECK_EQ(gs_sys_pwritev2(fd, &part, 1, 0, RWF_NOWAIT), -EOPNOTSUPP);
    CHECK_EQ(gs_sys_close(fd), 0);
    tear_down();
}
