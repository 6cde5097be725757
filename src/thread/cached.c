/* Whether what is to be sent of a file is in memory, or would be waited for. cachestat (Linux 6.5) counts the pages, if the file is
 * the caller's own; that a page is there does not say that it was read yet, so the last one is read from without waiting. What was
 * found in memory is taken to be there for a while: asking costs as much as sending a page. */
#include "thread/files.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define PAGE ((off_t)4096)
#define WINDOW ((off_t)16 << 20)
#define TRUSTED_NS GS_SECOND

enum answer { NO, YES, UNKNOWN };

static enum answer are_counted(int fd, off_t from, off_t to)
{
    off_t start = from / PAGE * PAGE, pages = (to - start + PAGE - 1) / PAGE;
    struct gs_cachestat_range range = {(uint64_t)start, (uint64_t)(to - start)};
    struct gs_cachestat counts;
    if (gs_sys_cachestat(fd, &range, &counts))
        return UNKNOWN;
    return counts.cached >= (uint64_t)pages ? YES : NO;
}

static enum answer is_read(int fd, off_t at)
{
    char byte;
    const struct iovec part = {.iov_base = &byte, .iov_len = 1};
    ssize_t n = gs_sys_preadv2(fd, &part, 1, at, RWF_NOWAIT);
    return n == 1 ? YES : n == -EAGAIN ? NO : UNKNOWN;
}

static bool are_there(int fd, off_t from, off_t to)
{
    enum answer counted = are_counted(fd, from, to);
    enum answer last = counted == NO ? NO : is_read(fd, to - 1);
    if (last == NO || counted == YES)
        return last != NO;
    return last == YES && is_read(fd, from) == YES;
}

bool gs_file_is_cached(struct worker *worker, int fd, off_t from, size_t n)
{
    struct cached *known = &worker->cached[(unsigned)fd % CACHED_KNOWN];
    off_t to = from + (off_t)n, window_end = to - from < WINDOW ? from + WINDOW : to;
    struct stat stat;
    if (known->fd == fd && *worker->now_ns < known->until_ns && from >= known->from &&
        to <= known->to)
        return true;
    if (gs_sys_fstat(fd, &stat) || !S_ISREG(stat.st_mode) || from >= stat.st_size)
        return true; /* there is nothing to wait for, or the kernel says what is wrong */
    to = to < stat.st_size ? to : stat.st_size;
    window_end = window_end < stat.st_size ? window_end : stat.st_size;
    if (!are_there(fd, from, window_end))
        return window_end > to && are_there(fd, from, to);
    *known = (struct cached){fd, from, from + WINDOW, *worker->now_ns + TRUSTED_NS};
    return true;
}
