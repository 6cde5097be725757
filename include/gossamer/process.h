/* Child processes: to start a program, and to talk to it.
 *
 *     char *arguments[] = {"sort", "-n", NULL};
 *     const struct gs_process_options options = {.streams = {{.kind = GS_STREAM_PIPE},
 *                                                            {.kind = GS_STREAM_PIPE}}};
 *     struct gs_process process;
 *     int err = gs_spawn_process("sort", arguments, &options, &process);
 *     ... gs_write(process.fds[0], ...), gs_close(process.fds[0]), gs_read(process.fds[1], ...)
 *     err = gs_wait_child(process.pid, deadline_ns, &status);
 *
 * Waiting: user threads wait for the end of the process with gs_wait_child (io.h), or beside other
 * events with gs_select (sync.h); on a loop, a child watcher does (loop_signal.h). Each process
 * must be waited for, or it stays as a zombie. The process is independent of the thread that has
 * started it: when that thread is canceled, its wait ends and the process goes on. To end the
 * process, kill it and wait again:
 *
 *     err = gs_wait_child(process.pid, deadline_ns, &status);
 *     if (err == -ETIMEDOUT || err == -ECANCELED) {
 *         bool is_cancelable = gs_thread_set_cancelable(false);
 *         kill(process.pid, SIGKILL);
 *         err = gs_wait_child(process.pid, GS_NEVER, &status);
 *         gs_thread_set_cancelable(is_cancelable);
 *     }
 *
 * A process that this process cannot wait for is -ECHILD to every call: it is no child, other code
 * has waited for it, or the program ignores SIGCHLD, so that the kernel keeps no status. This also
 * ends a wait in progress. gs_wait_child and gs_child_start return the error; it is the result of a
 * case of gs_select, and the status, with the code 0, of which a child watcher informs.
 *
 * Deadlock: a pipe holds a limited amount, usually 64 KiB. A program that writes while it reads,
 * such as cat, stops when its output is full, and then takes no more input. So write in one thread
 * and read in another, or use both directions on a loop.
 *
 * Threads: any kernel thread may call, also while no user threads run. A process that another
 * kernel thread starts at the same time does not inherit the descriptors created here.
 */
#ifndef GOSSAMER_PROCESS_H
#define GOSSAMER_PROCESS_H

#include <gossamer/api.h>
#include <stdbool.h>
#include <sys/types.h>

GS_BEGIN_DECLS

/* ---- Starting a process ----
 *
 *     const struct gs_process_options options = {.streams = {[1] = {.kind = GS_STREAM_PIPE}}};
 *     int err = gs_spawn_process("date", arguments, &options, &process);
 *     if (!err)
 *         n = gs_read(process.fds[1], bytes, sizeof bytes, deadline_ns);
 */

/* What a standard stream of the process is. */
enum gs_stream_kind {
    GS_STREAM_INHERIT,    /* this process's, unless that is close-on-exec */
    GS_STREAM_NULL,       /* /dev/null */
    GS_STREAM_DESCRIPTOR, /* `fd`, which stays the caller's, and may be close-on-exec */
    /* One end of a new pipe: standard input is read from it, the others are written to it. A write
     * to a process that has closed its input raises SIGPIPE, unless the program ignores it, and
     * returns -EPIPE. */
    GS_STREAM_PIPE,
    /* One of a new pair of Unix stream sockets, which transfer in both directions: gs_send never
     * raises SIGPIPE. A process cannot open such a stream by name (/dev/stdin). */
    GS_STREAM_SOCKET,
    GS_STREAM_OUTPUT, /* for standard error: the same as standard output */
};
struct gs_process_stream {
    enum gs_stream_kind kind;
    int fd;
};

/* All zero: the defaults. */
struct gs_process_options {
    struct gs_process_stream streams[3]; /* standard input, output and error */
    char *const *environment;            /* "NAME=VALUE", then NULL; NULL: this process's */
    const char *directory;               /* its working directory; NULL: this process's */
    bool new_group;   /* it leads a new process group: kill(-pid, ...) reaches its children, too */
    bool new_session; /* it leads a new session, without a terminal, and a new process group */
};

/* fds: for a pipe or a socket, the end of the caller, who must close it: non-blocking,
 * close-on-exec and at least 3; -1 for any other stream. */
struct gs_process {
    pid_t pid;
    int fds[3];
};

/* Start a program in a child process. file: its path, relative to the directory of the options, or
 * a name without a slash, which is searched for in the PATH of this process. arguments: what its
 * main gets, from its name on, then NULL. options may be NULL. All signals have their default
 * actions there, and none is blocked.
 *
 * The call only waits until the kernel has loaded the program. This usually takes less than a
 * millisecond, whatever the size of this process, which is not copied. If the program is on a slow
 * file system, use gs_run_blocking. The environment must not be changed during the call.
 *
 * Returns 0; -EINVAL (a kind of stream is invalid); -EBADF (a descriptor is not open); -EMFILE,
 * -ENFILE, -ENOMEM, -EAGAIN (too many processes); -ENOENT (no such program or directory), -EACCES
 * (it may not be executed), or another error of execve(2) or chdir(2). Then no process and no
 * descriptor is left. */
GS_API GS_MUST_CHECK int gs_spawn_process(const char *file, char *const *arguments,
                                          const struct gs_process_options *options,
                                          struct gs_process *ret_process);

GS_END_DECLS

#endif
