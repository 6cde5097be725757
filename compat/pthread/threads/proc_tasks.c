/* The directory /proc/self/task lists the threads of the program, as it does natively, and not the
 * kernel's. An offset is 0 for ".", 1 for "..", and then 2 more than the last id that was listed:
 * the next one is the next greater, whatever threads have begun or ended since. */
#include "compat/pthread/start/calls.h"
#include "compat/pthread/threads/task.h"

#include <dirent.h>
#include <errno.h>
#include <gossamer/sys.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

enum { AT_ONCE = 256, PATH_SIZE = 32, NAME_OFFSET = offsetof(struct dirent64, d_name) };

static bool is_of_process(int fd)
{
    struct statfs system;
    char link[PATH_SIZE], own[PATH_SIZE], path[PATH_SIZE];
    if (gs_syscall(SYS_fstatfs, fd, (long)&system, 0, 0, 0, 0) || system.f_type != PROC_SUPER_MAGIC)
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int n = snprintf(own, sizeof own, "/proc/%d/task", gs_run.process_id);
    return gs_syscall(SYS_readlink, (long)link, (long)path, sizeof path, 0, 0, 0) == n &&
           !memcmp(path, own, (size_t)n);
}

/* The least ids greater than `least`, in order. Returns how many. */
static unsigned ids_after(unsigned least, unsigned ids[AT_ONCE])
{
    unsigned n = 0;
    gs_run_acquire(&gs_tasks_lock);
    for (const struct task *task = gs_tasks; task; task = task->next) {
        if (task->tid <= least || (n == AT_ONCE && task->tid > ids[n - 1]))
            continue;
        unsigned at = n < AT_ONCE ? n++ : n - 1;
        for (; at > 0 && ids[at - 1] > task->tid; at--)
            ids[at] = ids[at - 1];
        ids[at] = task->tid;
    }
    gs_run_release(&gs_tasks_lock);
    return n;
}

/* Where entries are stored. */
struct listing {
    char *bytes;
    size_t size, used;
    long offset; /* behind the last entry */
};

/* Returns 0, or -EINVAL if there is no room, or -EFAULT. */
static long put(struct listing *listing, const char *name, unsigned long inode, long next)
{
    struct dirent64 entry = {.d_ino = inode, .d_off = next, .d_type = DT_DIR};
    size_t n = (NAME_OFFSET + strlen(name) + 1 + 7) & ~(size_t)7;
    if (n > listing->size - listing->used)
        return -EINVAL;
    entry.d_reclen = (unsigned short)n;
    memcpy(entry.d_name, name, strlen(name) + 1);
    if (gs_run_copy(listing->bytes + listing->used, &entry, n))
        return -EFAULT;
    listing->used += n;
    listing->offset = next;
    return 0;
}

static long put_all(struct listing *listing)
{
    static const char *const dots[] = {".", ".."};
    unsigned ids[AT_ONCE];
    long err = 0;
    for (long i = listing->offset; i < 2 && !err; i++)
        err = put(listing, dots[i], (unsigned long)gs_run.process_id, i + 1);
    unsigned n = err ? 0 : ids_after((unsigned)(listing->offset - 2), ids);
    for (unsigned i = 0; i < n && !err; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", ids[i]);
        err = put(listing, name, ids[i], (long)ids[i] + 2);
    }
    return listing->used ? (long)listing->used : err;
}

long gs_call_getdents64(struct task *task, const long *arguments, ucontext_t *context)
{
    const int fd = (int)arguments[0];
    bool was_kicked;
    (void)context;
    if (!is_of_process(fd))
        return gs_call_on_worker(task, SYS_getdents64, arguments, &was_kicked);
    struct listing listing = {.bytes = (char *)arguments[1],
                              .size = (unsigned)arguments[2],
                              .offset = gs_syscall(SYS_lseek, fd, 0, SEEK_CUR, 0, 0, 0)};
    if (listing.offset < 0)
        return listing.offset;
    long result = put_all(&listing);
    gs_syscall(SYS_lseek, fd, listing.offset, SEEK_SET, 0, 0, 0);
    return result;
}
