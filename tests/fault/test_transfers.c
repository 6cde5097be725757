/* Faults in receiving and sending while the server serves. No client may notice retries and partial
 * transfers. */
#include "tests/fault/survive.h"

TEST(receiving_survives_failure_interruption_and_parts)
{
    SURVIVE(points_with_cache, {FAULT_RECV, -ECONNRESET}, {FAULT_RECV, -ENOMEM},
            {FAULT_RECV, -ETIMEDOUT}, {FAULT_RECV, -EHOSTUNREACH}, {FAULT_RECV, -ENOTCONN},
            {FAULT_RECV, -EINTR, FAULT_ALWAYS}, {FAULT_RECV, -EAGAIN, FAULT_ALWAYS},
            {FAULT_RECV, FAULT_SHORT, FAULT_ALWAYS});
}

TEST(sending_survives_failure_interruption_and_parts)
{
    SURVIVE(points_with_cache, {FAULT_SEND, -EPIPE}, {FAULT_SEND, -ECONNRESET},
            {FAULT_SEND, -ETIMEDOUT}, {FAULT_SEND, -EHOSTUNREACH}, {FAULT_SEND, -EPERM},
            {FAULT_SEND, -ENOBUFS, FAULT_ALWAYS}, {FAULT_SEND, -ENOMEM, FAULT_ALWAYS},
            {FAULT_SEND, -EINTR, FAULT_ALWAYS}, {FAULT_SEND, -EAGAIN, FAULT_ALWAYS},
            {FAULT_SEND, FAULT_SHORT, FAULT_ALWAYS});
}

TEST(sending_from_several_places_survives_failure_interruption_and_parts)
{
    SURVIVE(points_with_cache, {FAULT_SENDMSG, -EPIPE}, {FAULT_SENDMSG, -ECONNRESET},
            {FAULT_SENDMSG, -EHOSTUNREACH}, {FAULT_SENDMSG, -ENOMEM, FAULT_ALWAYS},
            {FAULT_SENDMSG, -ENOBUFS, FAULT_ALWAYS}, {FAULT_SENDMSG, -EINTR, FAULT_ALWAYS},
            {FAULT_SENDMSG, -EAGAIN, FAULT_ALWAYS}, {FAULT_SENDMSG, FAULT_SHORT, FAULT_ALWAYS});
}

TEST(sending_files_survives_failure_interruption_and_parts)
{
    SURVIVE(points_with_cache, {FAULT_SENDFILE, -EPIPE}, {FAULT_SENDFILE, -EIO},
            {FAULT_SENDFILE, -ECONNRESET}, {FAULT_SENDFILE, -ETIMEDOUT}, {FAULT_SENDFILE, -ESTALE},
            {FAULT_SENDFILE, -EOVERFLOW}, {FAULT_SENDFILE, -EINVAL, FAULT_ALWAYS},
            {FAULT_SENDFILE, -ENOBUFS, FAULT_ALWAYS}, {FAULT_SENDFILE, -ENOMEM, FAULT_ALWAYS},
            {FAULT_SENDFILE, FAULT_ENDED}, {FAULT_SENDFILE, -EINTR, FAULT_ALWAYS},
            {FAULT_SENDFILE, -EAGAIN, FAULT_ALWAYS}, {FAULT_SENDFILE, FAULT_SHORT, FAULT_ALWAYS},
            {FAULT_SENDFILE, -EPERM});
}

COUNT_FAULT_POINTS
