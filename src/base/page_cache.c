/* cachestat (Linux 6.5) counts the pages of a range, if the caller owns the file; a page may be
 * present but not yet read, so one byte of the last page is read without waiting. A range that was
 * found is assumed to stay for a while: the check costs as much as sending a page. */
#include <gossamer/page_cache.h>

#include <errno.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <linux/magic.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#define WINDOW ((off_t)16 << 20)
#define FROM_MAX (INT64_MAX - 2 * WINDOW) /* so that the end of a window is an offset, too */
#define VALID_NS GS_SECOND

enum answer { NO, YES, UNKNOWN };

static enum answer are_pages_cached(int fd, off_t from, off_t to)
{
    off_t page = (off_t)getauxval(AT_PAGESZ);
    off_t start = from / page * page, pages = (to - start + page - 1) / page;
    struct gs_cachestat_range range = {(uint64_t)start, (uint64_t)(to - start)};
    struct gs_cachestat counts;
    if (gs_sys_cachestat(fd, &range, &counts))
        return UNKNOWN;
    return counts.cached >= (uint64_t)pages ? YES : NO;
}

/* On tmpfs and ramfs nothing else is there to be read from. */
static bool is_in_memory(int fd)
{
    struct statfs file_system;
    return !fstatfs(fd, &file_system) &&
           (file_system.f_type == TMPFS_MAGIC || file_system.f_type == RAMFS_MAGIC);
}

/* Also false where the file system cannot tell: FUSE and NFS do not support RWF_NOWAIT, nor does
 * tmpfs. */
static bool is_readable(int fd, off_t at)
{
    char byte;
    const struct iovec part = {.iov_base = &byte, .iov_len = 1};
    ssize_t n = gs_sys_preadv2(fd, &part, 1, at, RWF_NOWAIT);
    return n == 1 || (n == -EOPNOTSUPP && is_in_memory(fd));
}

static bool is_range_cached(int fd, off_t from, off_t to)
{
    enum answer counted = are_pages_cached(fd, from, to);
    if (counted == NO || !is_readable(fd, to - 1))
        return false;
    return counted == YES || is_readable(fd, from);
}

static bool is_known(const struct gs_page_cache_range *range, const struct stat *stat, off_t from,
                     off_t to, uint64_t now_ns)
{
    return range->inode == stat->st_ino && range->device == stat->st_dev &&
           now_ns < range->until_ns && from >= range->from && to <= range->to;
}

bool gs_page_cache_has(struct gs_page_cache *known, int fd, off_t offset, size_t n, uint64_t now_ns)
{
    struct stat stat;
    const struct gs_page_cache_file file = {fd, &stat};
    return gs_sys_fstat(fd, &stat) || gs_page_cache_has_file(known, &file, offset, n, now_ns);
}

bool gs_page_cache_has_file(struct gs_page_cache *known, const struct gs_page_cache_file *file,
                            off_t offset, size_t n, uint64_t now_ns)
{
    const struct stat *stat = file->stat;
    if (offset < 0 || offset > FROM_MAX || !n)
        return true; /* the call returns the error, or 0 */
    off_t to = n < (size_t)(INT64_MAX - offset) ? offset + (off_t)n : INT64_MAX;
    off_t window_end = to - offset < WINDOW ? offset + WINDOW : to;
    if (!S_ISREG(stat->st_mode) || offset >= stat->st_size)
        return true; /* no waiting is involved, or the call returns the error */
    struct gs_page_cache_range *range = &known->ranges[stat->st_ino % GS_PAGE_CACHE_RANGES];
    if (is_known(range, stat, offset, to, now_ns))
        return true;
    off_t end = window_end < stat->st_size ? window_end : stat->st_size;
    to = to < end ? to : end;
    if (!is_range_cached(file->fd, offset, end))
        return end > to && is_range_cached(file->fd, offset, to);
    *range = (struct gs_page_cache_range){stat->st_dev, stat->st_ino, offset, window_end,
                                          now_ns + VALID_NS};
    return true;
}
