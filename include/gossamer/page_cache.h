/* Whether a part of a file is in memory, so that reading or sending it does not wait for a disk.
 *
 *     static struct gs_page_cache known;                      one for each kernel thread
 *
 *     if (gs_page_cache_has(&known, fd, offset, n, gs_loop_now(loop)))
 *         n = gs_sys_sendfile(socket, fd, &offset, n);
 *     else
 *         err = gs_work_start(&request->work, send_part);     (loop_work.h)
 *
 * User threads do not need this: gs_sendfile and gs_pread do the same check.
 */
#ifndef GOSSAMER_PAGE_CACHE_H
#define GOSSAMER_PAGE_CACHE_H

#include <gossamer/api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

GS_BEGIN_DECLS

struct stat;

/* Ranges of files that were found in the page cache, and are assumed to stay there for a second.
 * Initially zero; the members are private. */
#define GS_PAGE_CACHE_RANGES 16
struct gs_page_cache {
    struct gs_page_cache_range {
        dev_t device;
        ino_t inode;
        off_t from, to;
        uint64_t until_ns;
    } ranges[GS_PAGE_CACHE_RANGES];
};

/* Returns whether n bytes can be read from the offset without waiting for a disk. false if the
 * kernel cannot tell (FUSE, NFS); true if there is nothing to wait for, because the range is beyond
 * the end of the file or fd is not a regular file. The function calls fstat, which may wait for a
 * network file system. now_ns: the current time; it may be some milliseconds old. */
GS_API bool gs_page_cache_has(struct gs_page_cache *known, int fd, off_t offset, size_t n,
                              uint64_t now_ns);

/* A file whose state (fstat) is known. */
struct gs_page_cache_file {
    int fd;
    const struct stat *stat;
};

/* Returns the same as gs_page_cache_has, without calling fstat. */
GS_API bool gs_page_cache_has_file(struct gs_page_cache *known,
                                   const struct gs_page_cache_file *file, off_t offset, size_t n,
                                   uint64_t now_ns);

GS_END_DECLS

#endif
