/* File watchers. An inotify event only triggers a check, which compares the file's state with that
 * of the last check. The event itself is used only for changes that this cannot see. Two inodes are
 * watched: the directory, for changes of the name, and the file itself. */
#include "loop/state.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/own_descriptors.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define DEFAULT_INTERVAL_NS (5 * GS_SECOND)

/* Set beside the pending events: the path may name another file. */
#define REWATCH 64u

#define NAME_EVENTS (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)
#define SELF_EVENTS (IN_DELETE_SELF | IN_MOVE_SELF)
#define INODE_EVENTS (IN_MODIFY | IN_ATTRIB)
#define WATCH_LOST (SELF_EVENTS | IN_IGNORED | IN_UNMOUNT)

static struct gs_file *file_of(struct gs_list *link)
{
    return gs_container_of(link, struct gs_file, link);
}

void gs_loop_init_files(struct gs_loop *loop)
{
    gs_list_init(&loop->files.all);
    gs_loop_init_internal(&loop->files.inotify, loop);
    gs_timer_init(&loop->files.next_check, loop, NULL);
    loop->files.next_check.watcher.is_internal = true;
    loop->files.next_check.watcher.unreferenced = true;
}

/* ---- Checking a file ---- */

static int64_t ns_of(struct timespec time)
{
    return (int64_t)time.tv_sec * (int64_t)GS_SECOND + time.tv_nsec;
}

/* All zero if the file does not exist. */
static struct gs_file_state state_of(const char *path)
{
    struct stat stat;
    if (gs_sys_fstatat(AT_FDCWD, path, &stat, 0))
        return (struct gs_file_state){0};
    return (struct gs_file_state){
        .device = stat.st_dev,
        .inode = stat.st_ino,
        .size = (uint64_t)stat.st_size,
        .modified_ns = ns_of(stat.st_mtim),
        .changed_ns = ns_of(stat.st_ctim),
        .mode = stat.st_mode,
        .links = (uint32_t)stat.st_nlink,
        .user = stat.st_uid,
        .group = stat.st_gid,
    };
}

/* hints: the events that the kernel reported or that the watcher was fed with. */
static unsigned difference(const struct gs_file_state *before, const struct gs_file_state *now,
                           unsigned hints)
{
    if (!before->mode || !now->mode)
        return (now->mode ? GS_FILE_CREATED : 0u) | (before->mode ? GS_FILE_REMOVED : 0u);
    if (hints & GS_FILE_REPLACED || before->device != now->device || before->inode != now->inode)
        return GS_FILE_REPLACED;
    unsigned events = hints & (GS_FILE_CONTENT | GS_FILE_ATTRIBUTES);
    if (before->size != now->size || before->modified_ns != now->modified_ns)
        events |= GS_FILE_CONTENT;
    if (before->mode != now->mode || before->links != now->links || before->user != now->user ||
        before->group != now->group)
        events |= GS_FILE_ATTRIBUTES;
    return events;
}

/* Whether the file system notifies of changes: network and virtual file systems do not. */
static bool reports_changes(const char *path)
{
    static const unsigned unreported[] = {
        0x6969 /* NFS */,    0x517b /* SMB */,       0xfe534d42 /* SMB 2 */, 0xff534d42 /* CIFS */,
        0x9fa0 /* proc */,   0x62656572 /* sysfs */, 0x65735546 /* FUSE */,  0x01021997 /* 9P */,
        0xc36400 /* Ceph */, 0x5346414f /* AFS */,
    };
    struct statfs statfs;
    if (gs_sys_statfs(path, &statfs))
        return true;
    for (size_t i = 0; i < sizeof unreported / sizeof *unreported; i++)
        if ((unsigned)statfs.f_type == unreported[i])
            return false;
    return true;
}

/* ---- inotify watches ---- */

static const char *directory_of(const struct gs_file *file)
{
    return file->path + strlen(file->path) + 1;
}

static const char *name_of(const struct gs_file *file)
{
    const char *slash = strrchr(file->path, '/');
    return slash ? slash + 1 : file->path;
}

/* Remove the watch, unless another watcher of the loop needs it. */
static void unwatch(struct gs_loop *loop, int watch)
{
    if (watch < 0)
        return;
    GS_LIST_FOREACH (link, &loop->files.all)
        if (file_of(link)->directory == watch || file_of(link)->inode == watch)
            return;
    (void)gs_sys_inotify_rm_watch(loop->files.inotify.fd, watch);
}

/* Replace *watch by a watch of the file that the path names now, or by -1. */
static void rewatch(struct gs_loop *loop, int *watch, const char *path, uint32_t mask)
{
    int old = *watch;
    int added = gs_sys_inotify_add_watch(loop->files.inotify.fd, path, mask | IN_MASK_ADD);
    *watch = added < 0 ? -1 : added;
    if (old != *watch)
        unwatch(loop, old);
}

/* The timer is active while there are files, so moving it cannot fail. */
static void schedule_checks(struct gs_loop *loop)
{
    uint64_t first_ns = GS_NEVER;
    GS_LIST_FOREACH (link, &loop->files.all)
        if (file_of(link)->next_check_ns < first_ns)
            first_ns = file_of(link)->next_check_ns;
    (void)gs_timer_start(&loop->files.next_check, first_ns);
}

/* inotify instances are limited. Without one, all files are polled, and each poll tries again. */
static void open_inotify(struct gs_loop *loop)
{
    if (loop->files.inotify.watcher.active)
        return;
    int fd = gs_own_descriptor(gs_sys_inotify_init(IN_CLOEXEC | IN_NONBLOCK));
    if (fd >= 0 && gs_loop_open_internal(&loop->files.inotify, fd))
        loop->files.inotify.fd = -1;
}

static void watch(struct gs_file *file)
{
    struct gs_loop *loop = file->watcher.loop;
    struct stat stat;
    open_inotify(loop);
    rewatch(loop, &file->directory, directory_of(file), NAME_EVENTS | SELF_EVENTS | IN_ONLYDIR);
    rewatch(loop, &file->inode, file->path, NAME_EVENTS | SELF_EVENTS | INODE_EVENTS);
    file->is_link =
        !gs_sys_fstatat(AT_FDCWD, file->path, &stat, AT_SYMLINK_NOFOLLOW) && S_ISLNK(stat.st_mode);
}

/* Whether inotify reports all changes of the path. */
static bool is_fully_watched(const struct gs_file *file)
{
    bool is_missing = !file->now.mode;
    bool is_inode_watched = is_missing ? !file->is_link : file->inode >= 0;
    return file->directory >= 0 && is_inode_watched &&
           reports_changes(is_missing ? directory_of(file) : file->path);
}

static void schedule_check(struct gs_file *file)
{
    struct gs_loop *loop = file->watcher.loop;
    uint64_t before_ns = file->next_check_ns;
    file->next_check_ns =
        is_fully_watched(file) ? GS_NEVER : gs_clock_after(gs_loop_now(loop), file->interval_ns);
    if (file->next_check_ns != before_ns)
        schedule_checks(loop);
}

void gs_loop_call_file(struct gs_file *file, unsigned events)
{
    if (events & REWATCH)
        watch(file);
    struct gs_file_state now = state_of(file->path);
    file->before = file->now;
    file->now = now;
    if (events & REWATCH)
        schedule_check(file);
    unsigned inotify = difference(&file->before, &file->now, events);
    if (events & FED)
        inotify |= events & ~(FED | REWATCH);
    if (inotify || events & FED)
        file->callback(file, inotify);
    else
        file->watcher.loop->counts.callbacks--;
}

/* ---- inotify events ---- */

/* Returns the hints that the event gives for the file; 0: the event does not concern it. */
static unsigned hints_of(struct gs_file *file, const struct inotify_event *event)
{
    unsigned hints = 0;
    if (event->wd == file->inode) {
        bool is_directory = S_ISDIR(file->now.mode);
        if (is_directory ? event->mask & NAME_EVENTS : event->mask & IN_MODIFY)
            hints |= GS_FILE_CONTENT;
        if (event->mask & IN_ATTRIB && !event->len)
            hints |= GS_FILE_ATTRIBUTES;
        if (event->mask & WATCH_LOST)
            hints |= REWATCH;
    }
    if (event->wd != file->directory)
        return hints;
    if (event->mask & WATCH_LOST)
        return hints | REWATCH;
    if (!event->len || !(event->mask & NAME_EVENTS))
        return hints;
    if (strcmp(event->name, name_of(file)))
        return file->is_link ? hints | REWATCH : hints;
    return hints | REWATCH | (event->mask & (IN_CREATE | IN_MOVED_TO) ? GS_FILE_REPLACED : 0u);
}

static void dispatch(struct gs_loop *loop, const struct inotify_event *event)
{
    GS_LIST_FOREACH (link, &loop->files.all) {
        struct gs_file *file = file_of(link);
        unsigned hints = event->mask & IN_Q_OVERFLOW ? REWATCH : hints_of(file, event);
        if (hints)
            gs_loop_set_pending(&file->watcher, hints);
    }
}

static void read_inotify(struct gs_loop *loop)
{
    if (!loop->files.inotify.watcher.active)
        return;
    _Alignas(struct inotify_event) char bytes[sizeof(struct inotify_event) + NAME_MAX + 1];
    ssize_t n;
    while ((n = gs_sys_read(loop->files.inotify.fd, bytes, sizeof bytes)) > 0) {
        const struct inotify_event *event;
        for (ssize_t at = 0; at < n; at += (ssize_t)(sizeof *event + event->len)) {
            event = (const struct inotify_event *)(bytes + at);
            dispatch(loop, event);
        }
    }
}

/* ---- Life cycle ---- */

void gs_file_init(struct gs_file *file, struct gs_loop *loop, gs_file_fn *callback)
{
    CHECKED_INIT(&file->watcher);
    *file = (struct gs_file){
        .watcher = {.loop = loop, .kind = KIND_FILE},
        .callback = callback,
    };
}

/* Copy the path, and after its NUL the path of the directory. */
static int copy_path(struct gs_file *file, const char *path)
{
    size_t length = strlen(path);
    if (!length)
        return -ENOENT;
    const char *slash = strrchr(path, '/');
    size_t directory_length = slash ? (size_t)(slash - path) : 1;
    const char *directory = slash ? path : ".";
    if (slash == path)
        directory_length = 1;
    file->path = malloc(length + directory_length + 2);
    if (!file->path)
        return -ENOMEM;
    memcpy(file->path, path, length + 1);
    memcpy(file->path + length + 1, directory, directory_length);
    file->path[length + directory_length + 1] = 0;
    return 0;
}

int gs_file_start(struct gs_file *file, const char *path, uint64_t interval_ns)
{
    CHECKED_START(&file->watcher, KIND_FILE);
    struct gs_loop *loop = file->watcher.loop;
    if (file->watcher.active)
        return 0;
    int err = copy_path(file, path);
    if (err)
        return err;
    err =
        gs_list_is_empty(&loop->files.all) ? gs_timer_start(&loop->files.next_check, GS_NEVER) : 0;
    if (err) {
        free(file->path);
        return err;
    }
    file->interval_ns = interval_ns ? interval_ns : DEFAULT_INTERVAL_NS;
    file->directory = file->inode = -1;
    file->next_check_ns = GS_NEVER;
    /* Events that occurred before the start are not for this watcher. */
    read_inotify(loop);
    gs_list_append(&loop->files.all, &file->link);
    loop->special_count++;
    gs_loop_activate(&file->watcher);
    watch(file);
    file->before = file->now = state_of(file->path);
    schedule_check(file);
    return 0;
}

void gs_file_stop(struct gs_file *file)
{
    CHECKED_STOP(&file->watcher);
    struct gs_loop *loop = file->watcher.loop;
    if (!file->watcher.active)
        return;
    gs_list_remove(&file->link);
    loop->special_count--;
    gs_loop_deactivate(&file->watcher);
    free(file->path);
    if (gs_list_is_empty(&loop->files.all)) {
        gs_timer_stop(&loop->files.next_check);
        gs_loop_close_internal(&loop->files.inotify);
        return;
    }
    unwatch(loop, file->inode);
    unwatch(loop, file->directory);
}

void gs_loop_rewatch_files(struct gs_loop *loop)
{
    gs_loop_close_internal(&loop->files.inotify);
    GS_LIST_FOREACH (link, &loop->files.all) {
        file_of(link)->directory = file_of(link)->inode = -1;
        gs_loop_set_pending(&file_of(link)->watcher, REWATCH);
    }
}

void gs_loop_collect_files(struct gs_loop *loop)
{
    if (gs_loop_consume_internal(&loop->files.inotify.watcher))
        read_inotify(loop);
    if (!gs_loop_consume_internal(&loop->files.next_check.watcher))
        return;
    GS_LIST_FOREACH (link, &loop->files.all) {
        struct gs_file *file = file_of(link);
        if (file->next_check_ns > loop->now_ns)
            continue;
        file->next_check_ns = GS_NEVER;
        gs_loop_set_pending(&file->watcher, REWATCH);
    }
    schedule_checks(loop);
}
