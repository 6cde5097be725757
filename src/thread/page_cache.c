/* Determines whether a range is in the page cache, so that sendfile would not wait for a disk.
 * cachestat (Linux 6.5) counts the pages, if the caller owns the file; a page may be present but
 * not yet read, so one byte of the last page is read without waiting. A range that was found is
 * assumed to stay for a while: the check costs as much as sending a page.
 *
 * Closing a file does not end this assumption. If its number is reused within CACHE_VALID_NS, the
 * new file is taken to be in the page cache, too: sendfile sends the right bytes, but may block the
 * worker until the disk has read them. */
#include "thread/files.h"
#include "thread/stacks.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define WINDOW ((off_t)16 << 20)
#define FROM_MAX (INT64_MAX - 2 * WINDOW) /* so that the end of a window is an offset, too */
#define CACHE_VALID_NS GS_SECOND

enum answer { NO, YES, UNKNOWN };

static enum answer are_pages_cached(int fd, off_t from, off_t to)
{
    off_t page = (off_t)gs_page_size;
    off_t start = from / page * page, pages = (to - start + page - 1) / page;
    struct gs_cachestat_range range = {(uint64_t)start, (uint64_t)(to - start)};
    struct gs_cachestat counts;
    if (gs_sys_cachestat(fd, &range, &counts))
        return UNKNOWN;
    return counts.cached >= (uint64_t)pages ? YES : NO;
}

static enum answer is_readable(int fd, off_t at)
{
    char byte;
    const struct iovec part = {.iov_base = &byte, .iov_len = 1};
    ssize_t n = gs_sys_preadv2(fd, &part, 1, at, RWF_NOWAIT);
    return n == 1 ? YES : n == -EAGAIN ? NO : UNKNOWN;
}

static bool is_range_cached(int fd, off_t from, off_t to)
{
    enum answer counted = are_pages_cached(fd, from, to);
    enum answer last = counted == NO ? NO : is_readable(fd, to - 1);
    if (last == NO || counted == YES)
        return last != NO;
    return last == YES && is_readable(fd, from) == YES;
}

bool gs_file_is_cached(struct worker *worker, int fd, off_t from, size_t n)
{
    if (from < 0 || from > FROM_MAX || !n)
        return true; /* sendfile returns the error, or 0 */
    struct cached_range *known = &worker->cached[(unsigned)fd % CACHED_RANGES];
    off_t to = from + (off_t)n, window_end = to - from < WINDOW ? from + WINDOW : to;
    struct stat stat;
    if (known->fd == fd && *worker->now_ns < known->until_ns && from >= known->from &&
        to <= known->to)
        return true;
    if (gs_sys_fstat(fd, &stat) || !S_ISREG(stat.st_mode) || from >= stat.st_size)
        return true; /* no waiting is involved, or sendfile returns the error */
    to = to < stat.st_size ? to : stat.st_size;
    window_end = window_end < stat.st_size ? window_end : stat.st_size;
    if (!is_range_cached(fd, from, window_end))
        return window_end > to && is_range_cached(fd, from, to);
    *known = (struct cached_range){fd, from, from + WINDOW, *worker->now_ns + CACHE_VALID_NS};
    return true;
}
