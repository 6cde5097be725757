/* Files. What the kernel reports is only a reason to look: what has changed is told by comparing
 * the file's state with that of the last look, and by what can't be seen there. Two things are
 * watched: the directory, for what becomes of the name, and the file itself, for what becomes of
 * that. */
#include "loop/state.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define DEFAULT_INTERVAL_NS (5 * GS_SECOND)

/* Beside the events that are pending: the name may mean another file. */
#define LOOK_ANEW 64u

#define OF_NAMES (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)
#define OF_ITSELF (IN_DELETE_SELF | IN_MOVE_SELF)
#define OF_INODE (IN_MODIFY | IN_ATTRIB)
#define UNWATCHED (OF_ITSELF | IN_IGNORED | IN_UNMOUNT)

static struct gs_file *file_of(struct gs_list *link)
{
    return gs_container_of(link, struct gs_file, link);
}

void gs_loop_init_files(struct gs_loop *loop)
{
    gs_list_init(&loop->files.all);
    gs_loop_init_internal(&loop->files.changes, loop);
    gs_timer_init(&loop->files.next_look, loop, NULL);
    loop->files.next_look.watcher.is_internal = true;
    loop->files.next_look.watcher.unreferenced = true;
}

/* ---- Looking ---- */

static int64_t ns_of(struct timespec time)
{
    return (int64_t)time.tv_sec * (int64_t)GS_SECOND + time.tv_nsec;
}

/* All zero: there is no file. */
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

/* hints: what the kernel reported, or the hand that fed the watcher. */
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

/* File systems that change without this kernel's doing, or without telling. */
static bool is_told_of(const char *path)
{
    static const unsigned untold[] = {
        0x6969 /* NFS */,    0x517b /* SMB */,       0xfe534d42 /* SMB 2 */, 0xff534d42 /* CIFS */,
        0x9fa0 /* proc */,   0x62656572 /* sysfs */, 0x65735546 /* FUSE */,  0x01021997 /* 9P */,
        0xc36400 /* Ceph */, 0x5346414f /* AFS */,
    };
    struct statfs statfs;
    if (gs_sys_statfs(path, &statfs))
        return true;
    for (size_t i = 0; i < sizeof untold / sizeof *untold; i++)
        if ((unsigned)statfs.f_type == untold[i])
            return false;
    return true;
}

/* ---- What the kernel watches ---- */

static const char *directory_of(const struct gs_file *file)
{
    return file->path + strlen(file->path) + 1;
}

static const char *name_of(const struct gs_file *file)
{
    const char *slash = strrchr(file->path, '/');
    return slash ? slash + 1 : file->path;
}

/* Unless another watcher of the loop needs it. */
static void unwatch(struct gs_loop *loop, int watch)
{
    if (watch < 0)
        return;
    GS_LIST_EACH(link, &loop->files.all)
    if (file_of(link)->directory == watch || file_of(link)->inode == watch)
        return;
    (void)gs_sys_inotify_rm_watch(loop->files.changes.fd, watch);
}

/* Watch what the path means now in place of *watch, or nothing. */
static void watch_anew(struct gs_loop *loop, int *watch, const char *path, uint32_t mask)
{
    int former = *watch;
    int new = gs_sys_inotify_add_watch(loop->files.changes.fd, path, mask | IN_MASK_ADD);
    *watch = new < 0 ? -1 : new;
    if (former != *watch)
        unwatch(loop, former);
}

/* The timer is active while there are files: to move it cannot fail. */
static void plan_looks(struct gs_loop *loop)
{
    uint64_t first_ns = GS_NEVER;
    GS_LIST_EACH(link, &loop->files.all)
    if (file_of(link)->look_ns < first_ns)
        first_ns = file_of(link)->look_ns;
    (void)gs_timer_start(&loop->files.next_look, first_ns);
}

/* The kernel has few of these to give. Where it has none, all files are looked at, and it is asked
 * again. */
static void open_changes(struct gs_loop *loop)
{
    if (loop->files.changes.watcher.active)
        return;
    int fd = gs_sys_inotify_init(IN_CLOEXEC | IN_NONBLOCK);
    if (fd >= 0 && gs_loop_open_internal(&loop->files.changes, fd))
        loop->files.changes.fd = -1;
}

static void watch(struct gs_file *file)
{
    struct gs_loop *loop = file->watcher.loop;
    struct stat stat;
    open_changes(loop);
    watch_anew(loop, &file->directory, directory_of(file), OF_NAMES | OF_ITSELF | IN_ONLYDIR);
    watch_anew(loop, &file->inode, file->path, OF_NAMES | OF_ITSELF | OF_INODE);
    file->is_link =
        !gs_sys_fstatat(AT_FDCWD, file->path, &stat, AT_SYMLINK_NOFOLLOW) && S_ISLNK(stat.st_mode);
}

/* Whether all that becomes of the path will be told. */
static bool is_told(const struct gs_file *file)
{
    bool is_missing = !file->now.mode;
    bool is_inode_told = is_missing ? !file->is_link : file->inode >= 0;
    return file->directory >= 0 && is_inode_told &&
           is_told_of(is_missing ? directory_of(file) : file->path);
}

static void plan_look(struct gs_file *file)
{
    struct gs_loop *loop = file->watcher.loop;
    uint64_t before_ns = file->look_ns;
    file->look_ns = is_told(file) ? GS_NEVER : gs_clock_after(gs_loop_now(loop), file->interval_ns);
    if (file->look_ns != before_ns)
        plan_looks(loop);
}

void gs_loop_call_file(struct gs_file *file, unsigned events)
{
    if (events & LOOK_ANEW)
        watch(file);
    struct gs_file_state now = state_of(file->path);
    file->before = file->now;
    file->now = now;
    if (events & LOOK_ANEW)
        plan_look(file);
    unsigned changes = difference(&file->before, &file->now, events);
    if (events & FED)
        changes |= events & ~(FED | LOOK_ANEW);
    if (changes || events & FED)
        file->callback(file, changes);
    else
        file->watcher.loop->counts.callbacks--;
}

/* ---- What the kernel reports ---- */

/* Returns what it means for the file; 0: nothing. */
static unsigned hints_of(struct gs_file *file, const struct inotify_event *event)
{
    unsigned hints = 0;
    if (event->wd == file->inode) {
        bool is_directory = S_ISDIR(file->now.mode);
        if (is_directory ? event->mask & OF_NAMES : event->mask & IN_MODIFY)
            hints |= GS_FILE_CONTENT;
        if (event->mask & IN_ATTRIB && !event->len)
            hints |= GS_FILE_ATTRIBUTES;
        if (event->mask & UNWATCHED)
            hints |= LOOK_ANEW;
    }
    if (event->wd != file->directory)
        return hints;
    if (event->mask & UNWATCHED)
        return hints | LOOK_ANEW;
    if (!event->len || !(event->mask & OF_NAMES))
        return hints;
    if (strcmp(event->name, name_of(file)))
        return file->is_link ? hints | LOOK_ANEW : hints;
    return hints | LOOK_ANEW | (event->mask & (IN_CREATE | IN_MOVED_TO) ? GS_FILE_REPLACED : 0u);
}

static void spread(struct gs_loop *loop, const struct inotify_event *event)
{
    GS_LIST_EACH(link, &loop->files.all)
    {
        struct gs_file *file = file_of(link);
        unsigned hints = event->mask & IN_Q_OVERFLOW ? LOOK_ANEW : hints_of(file, event);
        if (hints)
            gs_loop_pend(&file->watcher, hints);
    }
}

static void read_changes(struct gs_loop *loop)
{
    if (!loop->files.changes.watcher.active)
        return;
    _Alignas(struct inotify_event) char bytes[sizeof(struct inotify_event) + NAME_MAX + 1];
    ssize_t n;
    while ((n = gs_sys_read(loop->files.changes.fd, bytes, sizeof bytes)) > 0) {
        const struct inotify_event *event;
        for (ssize_t at = 0; at < n; at += (ssize_t)(sizeof *event + event->len)) {
            event = (const struct inotify_event *)(bytes + at);
            spread(loop, event);
        }
    }
}

/* ---- Life cycle ---- */

void gs_file_init(struct gs_file *file, struct gs_loop *loop, gs_file_fn *callback)
{
    *file = (struct gs_file){
        .watcher = {.loop = loop, .kind = KIND_FILE},
        .callback = callback,
    };
}

/* The path, and behind its end the directory's. */
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
    struct gs_loop *loop = file->watcher.loop;
    if (file->watcher.active)
        return 0;
    int err = copy_path(file, path);
    if (err)
        return err;
    err = gs_list_is_empty(&loop->files.all) ? gs_timer_start(&loop->files.next_look, GS_NEVER) : 0;
    if (err) {
        free(file->path);
        return err;
    }
    file->interval_ns = interval_ns ? interval_ns : DEFAULT_INTERVAL_NS;
    file->directory = file->inode = -1;
    file->look_ns = GS_NEVER;
    /* What is reported of the time before is not for this one. */
    read_changes(loop);
    gs_list_append(&loop->files.all, &file->link);
    loop->special_count++;
    gs_loop_activate(&file->watcher);
    watch(file);
    file->before = file->now = state_of(file->path);
    plan_look(file);
    return 0;
}

void gs_file_stop(struct gs_file *file)
{
    struct gs_loop *loop = file->watcher.loop;
    if (!file->watcher.active)
        return;
    gs_list_remove(&file->link);
    loop->special_count--;
    gs_loop_deactivate(&file->watcher);
    free(file->path);
    if (gs_list_is_empty(&loop->files.all)) {
        gs_timer_stop(&loop->files.next_look);
        gs_loop_close_internal(&loop->files.changes);
        return;
    }
    unwatch(loop, file->inode);
    unwatch(loop, file->directory);
}

void gs_loop_watch_files_anew(struct gs_loop *loop)
{
    gs_loop_close_internal(&loop->files.changes);
    GS_LIST_EACH(link, &loop->files.all)
    {
        file_of(link)->directory = file_of(link)->inode = -1;
        gs_loop_pend(&file_of(link)->watcher, LOOK_ANEW);
    }
}

void gs_loop_collect_files(struct gs_loop *loop)
{
    if (gs_loop_take_internal(&loop->files.changes.watcher))
        read_changes(loop);
    if (!gs_loop_take_internal(&loop->files.next_look.watcher))
        return;
    GS_LIST_EACH(link, &loop->files.all)
    {
        struct gs_file *file = file_of(link);
        if (file->look_ns > loop->now_ns)
            continue;
        file->look_ns = GS_NEVER;
        gs_loop_pend(&file->watcher, LOOK_ANEW);
    }
    plan_looks(loop);
}
