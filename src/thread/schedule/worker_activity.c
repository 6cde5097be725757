/* Reads from /proc whether a worker's kernel thread is in a system call, and which. */
#include "thread/report/backtrace.h"

#include <fcntl.h>
#include <gossamer/sys.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

static const struct {
    long number;
    const char *name;
} calls[] = {
    {SYS_read, "read"},
    {SYS_write, "write"},
    {SYS_readv, "readv"},
    {SYS_writev, "writev"},
    {SYS_pread64, "pread"},
    {SYS_pwrite64, "pwrite"},
    {SYS_recvfrom, "recv"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_sendto, "send"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_accept, "accept"},
    {SYS_accept4, "accept"},
    {SYS_connect, "connect"},
    {SYS_openat, "open"},
    {SYS_fsync, "fsync"},
    {SYS_fdatasync, "fdatasync"},
    {SYS_flock, "flock"},
    {SYS_fcntl, "fcntl"},
    {SYS_futex, "futex"},
    {SYS_clone, "clone"},
    {SYS_clone3, "clone"},
    {SYS_newfstatat, "stat"},
    {SYS_unlinkat, "unlink"},
    {SYS_getdents64, "getdents"},
    {SYS_mmap, "mmap"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
    {SYS_ppoll, "ppoll"},
    {SYS_pselect6, "pselect"},
    {SYS_epoll_pwait, "epoll_wait"},
    {SYS_wait4, "wait4"},
    {SYS_waitid, "waitid"},
    {SYS_ioctl, "ioctl"},
    {SYS_sendfile, "sendfile"},
    {SYS_splice, "splice"},
    {SYS_munmap, "munmap"},
#ifdef SYS_open
    {SYS_open, "open"},
    {SYS_poll, "poll"},
    {SYS_select, "select"},
    {SYS_epoll_wait, "epoll_wait"},
#endif
};

static void name_call(long number, char *ret_text, size_t size)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (calls[i].number == number) {
            snprintf(ret_text, size, "in system call %s", calls[i].name);
            return;
        }
    }
    snprintf(ret_text, size, "in system call %ld", number);
}

/* Read a file of /proc about the worker's kernel thread. ret_text is empty if that fails. */
static void read_about(const struct worker *worker, const char *file, char *ret_text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/%s", atomic_load(&worker->tid), file);
    int fd = gs_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    ssize_t n = fd < 0 ? 0 : gs_sys_read(fd, ret_text, size - 1);
    ret_text[n > 0 ? n : 0] = 0;
    if (fd >= 0)
        gs_sys_close(fd);
}

/* Where the kernel does not show the call, it shows the state, after the name in parentheses. */
static bool is_blocked_in_kernel(const struct worker *worker)
{
    char text[128];
    read_about(worker, "stat", text, sizeof text);
    const char *name_end = strrchr(text, ')');
    return name_end && (!strncmp(name_end, ") S", 3) || !strncmp(name_end, ") D", 3));
}

bool gs_worker_activity(const struct worker *worker, char *ret_text, size_t size)
{
    char text[64];
    read_about(worker, "syscall", text, sizeof text);
    if (text[0] >= '0' && text[0] <= '9') {
        name_call(strtol(text, NULL, 10), ret_text, size);
        return true;
    }
    bool is_in_call = !text[0] && is_blocked_in_kernel(worker);
    snprintf(ret_text, size, "%s", is_in_call ? "in a system call" : "computing");
    return is_in_call;
}
