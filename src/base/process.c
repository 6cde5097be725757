/* gs_spawn_process. The C library's posix_spawn shares the memory of the parent until the program
 * is loaded (CLONE_VM and CLONE_VFORK), runs the child on a stack of its own, since those of user
 * threads are small, and returns the error of the child's calls. */
#include <errno.h>
#include <fcntl.h>
#include <gossamer/process.h>
#include <gossamer/sys.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

enum { STREAMS = 3 };

/* Each is at least STREAMS, so that no stream that is set up replaces what another one needs, or
 * -1. */
struct ends {
    int ours, theirs;
};

static void close_end(int fd)
{
    if (fd >= 0)
        gs_sys_close(fd);
}

/* Returns a descriptor of the same file that is not a standard stream, or -errno. */
static int duplicate(int fd)
{
    return gs_sys_fcntl(fd, F_DUPFD_CLOEXEC, STREAMS);
}

/* This process may have closed its own standard streams. Takes *fd, and changes it. */
static int move_away(int *fd)
{
    if (*fd >= STREAMS)
        return 0;
    int copy = duplicate(*fd);
    if (copy < 0)
        return copy;
    gs_sys_close(*fd);
    *fd = copy;
    return 0;
}

static int new_pair(enum gs_stream_kind kind, int fds[2])
{
    if (kind == GS_STREAM_PIPE)
        return gs_sys_pipe2(fds, O_CLOEXEC | O_NONBLOCK);
    return gs_sys_socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds);
}

static int connect_stream(int stream, enum gs_stream_kind kind, struct ends *ret_ends)
{
    int fds[2];
    int err = new_pair(kind, fds);
    if (err)
        return err;
    err = move_away(&fds[0]);
    if (!err)
        err = move_away(&fds[1]);
    int theirs = stream == STDIN_FILENO ? 0 : 1;
    if (!err)
        err = gs_sys_fcntl(fds[theirs], F_SETFL, 0); /* blocking, as programs expect */
    if (err < 0) {
        gs_sys_close(fds[0]);
        gs_sys_close(fds[1]);
        return err;
    }
    *ret_ends = (struct ends){.ours = fds[!theirs], .theirs = fds[theirs]};
    return 0;
}

/* ---- What the child does before it executes the program ---- */

static int add_descriptor(posix_spawn_file_actions_t *actions, int stream, int fd,
                          struct ends *ends)
{
    if (fd < 0)
        return -EBADF;
    if (fd < STREAMS && fd != stream) {
        int copy = duplicate(fd);
        if (copy < 0)
            return copy;
        fd = ends->theirs = copy;
    }
    return -posix_spawn_file_actions_adddup2(actions, fd, stream);
}

static int add_stream(posix_spawn_file_actions_t *actions, int stream,
                      struct gs_process_stream wanted, struct ends *ends)
{
    int err;
    switch (wanted.kind) {
    case GS_STREAM_INHERIT:
        return 0;
    case GS_STREAM_NULL:
        return -posix_spawn_file_actions_addopen(actions, stream, "/dev/null", O_RDWR, 0);
    case GS_STREAM_DESCRIPTOR:
        return add_descriptor(actions, stream, wanted.fd, ends);
    case GS_STREAM_PIPE:
    case GS_STREAM_SOCKET:
        err = connect_stream(stream, wanted.kind, ends);
        return err ? err : -posix_spawn_file_actions_adddup2(actions, ends->theirs, stream);
    case GS_STREAM_OUTPUT:
        return stream != STDERR_FILENO
                   ? -EINVAL
                   : -posix_spawn_file_actions_adddup2(actions, STDOUT_FILENO, stream);
    }
    return -EINVAL;
}

static int add_actions(posix_spawn_file_actions_t *actions,
                       const struct gs_process_options *options, struct ends ends[STREAMS])
{
    int err = 0;
    for (int i = 0; !err && i < STREAMS; i++)
        err = add_stream(actions, i, options->streams[i], &ends[i]);
    if (!err && options->directory)
        err = -posix_spawn_file_actions_addchdir_np(actions, options->directory);
    return err;
}

static int set_attributes(posix_spawnattr_t *attributes, const struct gs_process_options *options)
{
    sigset_t all, none;
    unsigned flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK;
    if (options->new_session)
        flags |= POSIX_SPAWN_SETSID;
    else if (options->new_group)
        flags |= POSIX_SPAWN_SETPGROUP;
    sigfillset(&all);
    sigemptyset(&none);
    int err = posix_spawnattr_setflags(attributes, (short)flags);
    if (!err)
        err = posix_spawnattr_setsigdefault(attributes, &all);
    if (!err)
        err = posix_spawnattr_setsigmask(attributes, &none);
    return -err;
}

/* Returns the process id, or -errno. */
static pid_t spawn(const char *file, char *const *arguments,
                   const struct gs_process_options *options, struct ends ends[STREAMS])
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    pid_t pid = 0;
    int err = -posix_spawn_file_actions_init(&actions);
    if (err)
        return err;
    err = -posix_spawnattr_init(&attributes);
    if (err)
        goto destroy_actions;
    err = set_attributes(&attributes, options);
    if (!err)
        err = add_actions(&actions, options, ends);
    if (!err)
        err = -posix_spawnp(&pid, file, &actions, &attributes, arguments,
                            options->environment ? options->environment : environ);
    posix_spawnattr_destroy(&attributes);
destroy_actions:
    posix_spawn_file_actions_destroy(&actions);
    return err ? err : pid;
}

int gs_spawn_process(const char *file, char *const *arguments,
                     const struct gs_process_options *options, struct gs_process *ret_process)
{
    static const struct gs_process_options defaults;
    struct ends ends[STREAMS] = {{-1, -1}, {-1, -1}, {-1, -1}};
    pid_t pid = spawn(file, arguments, options ? options : &defaults, ends);
    for (int i = 0; i < STREAMS; i++)
        close_end(ends[i].theirs);
    if (pid < 0) {
        for (int i = 0; i < STREAMS; i++)
            close_end(ends[i].ours);
        return (int)pid;
    }
    *ret_process = (struct gs_process){pid, {ends[0].ours, ends[1].ours, ends[2].ours}};
    return 0;
}
