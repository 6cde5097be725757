/* File watchers: they report changes of the file that a path names. Part of gossamer/loop.h.
 *
 *     gs_file_init(&file, loop, on_change);
 *     gs_file_start(&file, "/etc/service.conf", 5 * GS_SECOND);
 *
 * The path is watched, not the file that it names at the start: the file need not exist, and may be
 * removed, created again, or replaced by a rename. Symbolic links are followed. The kernel reports
 * changes of the file and of its directory; one call may report several. Where the kernel cannot
 * report them, the file is polled once per interval: on network file systems and others that do not
 * notify, if the directory is missing or may not be watched, if a symbolic link is dangling, and if
 * the limit of inotify watches is reached. A rename of a directory further up is noticed at the
 * next event.
 */
#ifndef GOSSAMER_LOOP_FILE_H
#define GOSSAMER_LOOP_FILE_H

#include <gossamer/loop_watcher.h>

GS_BEGIN_DECLS

enum {
    GS_FILE_CONTENT = 1,    /* written to, truncated or extended; of a directory: its entries */
    GS_FILE_ATTRIBUTES = 2, /* mode, owner, group, links or times */
    GS_FILE_CREATED = 4,    /* the file did not exist before */
    GS_FILE_REMOVED = 8,    /* the file does not exist any more */
    GS_FILE_REPLACED = 16,  /* the path names another file, or was removed and created again */
};

/* The state of a file when it was last checked. */
struct gs_file_state {
    uint64_t device, inode;
    uint64_t size;
    int64_t modified_ns, changed_ns; /* since 1970-01-01 UTC */
    uint32_t mode;                   /* as of stat; 0: the file does not exist */
    uint32_t links, user, group;
};

struct gs_file;
typedef void gs_file_fn(struct gs_file *file, unsigned events);
struct gs_file {
    struct gs_watcher watcher;
    gs_file_fn *callback;
    struct gs_list link; /* in the loop's list */
    struct gs_file_state now, before;
    char *path;             /* followed, after its NUL, by the directory's path */
    uint64_t interval_ns;   /* between two polls */
    uint64_t next_check_ns; /* the next poll, or GS_NEVER */
    int directory, inode;   /* inotify watch descriptors, or -1 */
    bool is_link;           /* the path's last component is a symbolic link */
};

GS_API void gs_file_init(struct gs_file *file, struct gs_loop *loop, gs_file_fn *callback);

/* The path is copied. interval_ns: how often to poll where the kernel does not report changes; 0:
 * every five seconds. `now` is the state at the start, and in each call the current one; `before`
 * is the state at the previous call. Returns 0, -ENOENT (an empty path) or -ENOMEM. */
GS_API GS_MUST_CHECK int gs_file_start(struct gs_file *file, const char *path,
                                       uint64_t interval_ns);

GS_API void gs_file_stop(struct gs_file *file);

GS_END_DECLS

#endif
