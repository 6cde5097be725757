/* Watchers of files: what becomes of a path. Part of gossamer/loop.h.
 *
 *     gs_file_init(&file, loop, on_change);
 *     gs_file_start(&file, "/etc/service.conf", 5 * GS_SECOND);
 *
 * The path is watched, not the file that it means now: it need not exist, and may be removed, come
 * back, or be replaced by a rename. Symbolic links are followed. Changes are told by the kernel,
 * for the file and for the directory that its last component stands in; several may be told in one
 * call. Where the kernel can't tell, the file is looked at each interval: on file systems that
 * others change from elsewhere, where the directory is missing or may not be watched, where a link
 * leads nowhere, where the kernel has no more watches to give. That a directory further up was
 * renamed shows when something else happens.
 */
#ifndef GOSSAMER_LOOP_FILE_H
#define GOSSAMER_LOOP_FILE_H

#include <gossamer/loop_watcher.h>

enum {
    GS_FILE_CONTENT = 1,    /* written to, cut or extended; of a directory: its entries */
    GS_FILE_ATTRIBUTES = 2, /* mode, owner, group, links or times */
    GS_FILE_CREATED = 4,    /* there was none before */
    GS_FILE_REMOVED = 8,    /* there is none now */
    GS_FILE_REPLACED = 16,  /* the path means another file, or means one anew */
};

/* A file as it was last looked at. */
struct gs_file_state {
    uint64_t device, inode;
    uint64_t size;
    int64_t modified_ns, changed_ns; /* since 1970-01-01 UTC */
    uint32_t mode;                   /* as of stat; 0: there is no file */
    uint32_t links, user, group;
};

struct gs_file;
typedef void gs_file_fn(struct gs_file *file, unsigned events);
struct gs_file {
    struct gs_watcher watcher;
    gs_file_fn *callback;
    struct gs_list link; /* of the loop's */
    struct gs_file_state now, before;
    char *path;           /* and, behind its end, the directory's */
    uint64_t interval_ns; /* between looks */
    uint64_t look_ns;     /* the next look, or GS_NEVER */
    int directory, inode; /* the kernel's names for what it watches, or -1 */
    bool is_link;         /* the path's last component is a symbolic link */
};

GS_API void gs_file_init(struct gs_file *file, struct gs_loop *loop, gs_file_fn *callback);

/* The path is copied. interval_ns: how often to look where the kernel can't tell; 0: every five
 * seconds. `now` is the state from here on, and is up to date in each call; `before` is that of the
 * call before. Returns 0, -ENOENT (an empty path) or -ENOMEM. */
GS_API GS_MUST_CHECK int gs_file_start(struct gs_file *file, const char *path,
                                       uint64_t interval_ns);
GS_API void gs_file_stop(struct gs_file *file);

#endif
