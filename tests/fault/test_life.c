/* Faults at any time in the life of a server: while it starts, serves, reopens its log and
 * stops. */
#include "tests/fault/survive.h"

static void live(const struct fault *faults, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *problem = points_survive_life(&faults[i]);
        if (problem)
            TEST_FAIL("%s", problem);
    }
    CHECK_EQ(fault_unlisted(), 0);
}

#define LIVE(...)                                                                                  \
    do {                                                                                           \
        static const struct fault faults[] = {__VA_ARGS__};                                        \
        live(faults, sizeof faults / sizeof *faults);                                              \
    } while (0)

TEST(server_without_memory_or_threads_serves_or_reports_the_error)
{
    LIVE({FAULT_ALLOCATION, -ENOMEM}, {FAULT_MMAP, -ENOMEM}, {FAULT_THREAD, -EAGAIN},
         {FAULT_ADDRESS, -ENOMEM});
}

TEST(server_without_sockets_serves_or_reports_the_error)
{
    LIVE({FAULT_SOCKET, -EMFILE}, {FAULT_SOCKET, -ENFILE}, {FAULT_SOCKET, -ENOBUFS},
         {FAULT_SOCKET, -EACCES}, {FAULT_SOCKET, -EAFNOSUPPORT}, {FAULT_BIND, -EADDRNOTAVAIL},
         {FAULT_BIND, -EADDRINUSE}, {FAULT_BIND, -EACCES}, {FAULT_BIND, -ENOMEM},
         {FAULT_LISTEN, -EADDRINUSE}, {FAULT_GETSOCKNAME, -ENOBUFS}, {FAULT_SETSOCKOPT, -ENOMEM},
         {FAULT_SETSOCKOPT, -ENOPROTOOPT});
}

TEST(server_without_pollers_serves_or_reports_the_error)
{
    LIVE({FAULT_EPOLL_CREATE, -EMFILE}, {FAULT_EPOLL_CREATE, -ENFILE},
         {FAULT_EPOLL_CREATE, -ENOMEM}, {FAULT_EPOLL_CTL, -ENOMEM}, {FAULT_EPOLL_CTL, -ENOSPC},
         {FAULT_EPOLL_WAIT, -EINTR}, {FAULT_EVENTFD, -EMFILE}, {FAULT_EVENTFD, -ENFILE},
         {FAULT_EVENTFD, -ENOMEM}, {FAULT_EVENTFD, -ENODEV}, {FAULT_EPOLL_CREATE, -EPERM},
         {FAULT_FCNTL, -EBADF});
}

TEST(server_without_files_serves_or_reports_the_error)
{
    LIVE({FAULT_OPENAT2, -EMFILE}, {FAULT_OPENAT2, -ENFILE}, {FAULT_OPENAT2, -ENOMEM},
         {FAULT_OPENAT2, -EIO}, {FAULT_OPENAT2, -EINTR}, {FAULT_DUP, -EINTR}, {FAULT_DUP, -EBUSY},
         {FAULT_DUP, -EMFILE}, {FAULT_OPENAT2, -EACCES}, {FAULT_FSTATAT, -EACCES},
         {FAULT_FSTAT, -EIO}, {FAULT_FSTATAT, -EIO}, {FAULT_PREAD, -EIO});
}

TEST(connections_that_break_at_any_time_leave_nothing)
{
    LIVE({FAULT_ACCEPT, -EMFILE}, {FAULT_ACCEPT, -ECONNABORTED}, {FAULT_RECV, -ECONNRESET},
         {FAULT_SENDMSG, -EPIPE}, {FAULT_CLOSE, -EINTR}, {FAULT_CLOSE, -EIO},
         {FAULT_WRITE, -ENOSPC}, {FAULT_WRITE, -EINTR});
}

COUNT_FAULT_POINTS
