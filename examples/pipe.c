/* Feed standard input to a command, and print what comes back: pipe COMMAND ARGUMENT... One thread
 * writes and another reads, because a command may write before it has read everything. */
#include <gossamer/io.h>
#include <gossamer/process.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns 0 at the end of the input, or an error. */
static ssize_t copy(int from, int to, uint64_t deadline_ns)
{
    char bytes[4096];
    ssize_t n, sent = 0;
    while ((n = gs_read(from, bytes, sizeof bytes, deadline_ns)) > 0)
        for (ssize_t done = 0; done < n; done += sent)
            if ((sent = gs_write(to, bytes + done, (size_t)(n - done), deadline_ns)) < 0)
                return sent;
    return n;
}

static void *feed(void *argument)
{
    const struct gs_process *process = argument;
    copy(STDIN_FILENO, process->fds[0], GS_NEVER); /* -EPIPE if the command wants no more */
    gs_close(process->fds[0]);                     /* the end of the command's input */
    return NULL;
}

static int wait_or_kill(pid_t pid, uint64_t deadline_ns, int *ret_status)
{
    int err = gs_wait_child(pid, deadline_ns, ret_status);
    if (err == -ETIMEDOUT) {
        kill(pid, SIGKILL);
        err = gs_wait_child(pid, GS_NEVER, ret_status);
    }
    return err;
}

static int run(char **arguments, int *ret_status)
{
    const struct gs_process_options options = {
        .streams = {{.kind = GS_STREAM_PIPE}, {.kind = GS_STREAM_PIPE}}};
    uint64_t deadline_ns = gs_clock_now() + 60 * GS_SECOND;
    struct gs_process process;
    struct gs_thread *feeder;
    int err = gs_spawn_process(arguments[0], arguments, &options, &process);
    if (err)
        return err;
    err = gs_thread_spawn(NULL, feed, &process, &feeder);
    if (err) {
        gs_close(process.fds[0]);
    } else {
        copy(process.fds[1], STDOUT_FILENO, deadline_ns);
        gs_thread_cancel(feeder); /* it may wait for input that the command does not want */
        err = gs_thread_join(feeder, GS_NEVER, NULL);
    }
    gs_close(process.fds[1]);
    int wait_err = wait_or_kill(process.pid, err ? 0 : deadline_ns, ret_status);
    return err ? err : wait_err;
}

static void *first(void *arguments)
{
    int status = 0, err = run(arguments, &status);
    if (err)
        fprintf(stderr, "%s: %s\n", *(char **)arguments, strerror(-err));
    return err || !WIFEXITED(status) || WEXITSTATUS(status) ? arguments : NULL;
}

int main(int argc, char **argv)
{
    void *failed = NULL;
    signal(SIGPIPE, SIG_IGN);
    return argc < 2 || gs_threads_run(NULL, first, argv + 1, &failed) || failed;
}
