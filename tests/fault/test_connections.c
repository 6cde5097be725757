/* Faults in the calls that accept, watch and close connections, with each error that the kernel can
 * return. */
#include "tests/fault/survive.h"

TEST(connections_that_cannot_be_accepted_wait_until_they_can)
{
    SURVIVE(points_with_cache, {FAULT_ACCEPT, -EMFILE, FAULT_ALWAYS},
            {FAULT_ACCEPT, -ENFILE, FAULT_ALWAYS}, {FAULT_ACCEPT, -ENOMEM, FAULT_ALWAYS},
            {FAULT_ACCEPT, -ENOBUFS, FAULT_ALWAYS});
}

TEST(accepting_survives_errors_of_a_single_connection)
{
    SURVIVE(points_with_cache, {FAULT_ACCEPT, -ECONNABORTED, FAULT_ALWAYS},
            {FAULT_ACCEPT, -EINTR, FAULT_ALWAYS}, {FAULT_ACCEPT, -EAGAIN, FAULT_ALWAYS},
            {FAULT_ACCEPT, -EPROTO, FAULT_ALWAYS}, {FAULT_ACCEPT, -EPERM, FAULT_ALWAYS},
            {FAULT_ACCEPT, -ENETDOWN, FAULT_ALWAYS}, {FAULT_ACCEPT, -EHOSTUNREACH, FAULT_ALWAYS},
            {FAULT_ACCEPT, -EOPNOTSUPP, FAULT_ALWAYS});
}

TEST(waiting_survives_interruption_and_exhaustion_of_memory)
{
    SURVIVE(points_with_cache, {FAULT_EPOLL_CTL, -ENOMEM}, {FAULT_EPOLL_CTL, -ENOSPC},
            {FAULT_EPOLL_CTL, -EEXIST}, {FAULT_EPOLL_WAIT, -EINTR, FAULT_ALWAYS});
}

TEST(closing_survives_peers_that_have_disconnected)
{
    SURVIVE(points_with_cache, {FAULT_SHUTDOWN, -ENOTCONN, FAULT_ALWAYS},
            {FAULT_SETSOCKOPT, -ENOMEM}, {FAULT_IOCTL, -EINVAL, FAULT_ALWAYS});
}

TEST(closing_is_done_whatever_it_reports)
{
    SURVIVE(points_without_cache, {FAULT_CLOSE, -EINTR, FAULT_ALWAYS},
            {FAULT_CLOSE, -EIO, FAULT_ALWAYS});
}

COUNT_FAULT_POINTS
