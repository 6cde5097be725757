/* Faults in system calls on files while the server serves. */
#include "tests/fault/survive.h"

TEST(files_that_cannot_be_opened_are_refused_and_opened_later)
{
    SURVIVE(points_without_cache, {FAULT_OPENAT2, -EMFILE}, {FAULT_OPENAT2, -ENFILE},
            {FAULT_OPENAT2, -ENOMEM}, {FAULT_OPENAT2, -EIO}, {FAULT_OPENAT2, -EACCES},
            {FAULT_OPENAT2, -EXDEV}, {FAULT_OPENAT2, -EINVAL}, {FAULT_OPENAT2, -ESTALE},
            {FAULT_OPENAT2, -EPERM}, {FAULT_OPENAT2, -EINTR, 3},
            {FAULT_OPENAT2, -ENOSYS, FAULT_ALWAYS}, {FAULT_OPENAT2, -EAGAIN, 3});
}

TEST(files_whose_fstat_fails_are_refused_and_closed)
{
    SURVIVE(points_without_cache, {FAULT_FSTAT, -EIO}, {FAULT_FSTAT, -ENOMEM},
            {FAULT_FSTAT, -ESTALE});
}

TEST(files_that_cannot_be_read_are_refused_and_closed)
{
    SURVIVE(points_without_cache, {FAULT_PREAD, -EIO}, {FAULT_PREAD, -ENOMEM},
            {FAULT_PREAD, -ESTALE}, {FAULT_PREAD, -EAGAIN},
            {FAULT_PREAD, FAULT_ENDED, FAULT_ALWAYS}, {FAULT_PREAD, -EINTR, FAULT_ALWAYS},
            {FAULT_PREAD, FAULT_SHORT, FAULT_ALWAYS});
}

TEST(cache_survives_files_that_cannot_be_reloaded)
{
    SURVIVE(points_with_cache, {FAULT_OPENAT2, -EMFILE}, {FAULT_OPENAT2, -EIO}, {FAULT_FSTAT, -EIO},
            {FAULT_PREAD, -EIO}, {FAULT_PREAD, FAULT_ENDED, FAULT_ALWAYS});
}

TEST(log_that_cannot_be_written_loses_whole_lines_and_nothing_else)
{
    SURVIVE(points_with_cache, {FAULT_WRITE, -ENOSPC, FAULT_ALWAYS},
            {FAULT_WRITE, -EIO, FAULT_ALWAYS}, {FAULT_WRITE, -EDQUOT, FAULT_ALWAYS},
            {FAULT_WRITE, -EFBIG, FAULT_ALWAYS}, {FAULT_WRITE, -EAGAIN, FAULT_ALWAYS},
            {FAULT_WRITE, -EPIPE, FAULT_ALWAYS}, {FAULT_WRITE, -EINTR, FAULT_ALWAYS},
            {FAULT_WRITE, FAULT_SHORT, FAULT_ALWAYS}, {FAULT_WRITE, FAULT_FILLS_UP, FAULT_ALWAYS});
}

COUNT_FAULT_POINTS
