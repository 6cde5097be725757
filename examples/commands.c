/* Run commands at the same time, and kill those that take too long: commands SECONDS COMMAND...
 * Each has a thread, which reads the command's output from a pipe and waits for its end. */
#include <gossamer/io.h>
#include <gossamer/process.h>
#include <gossamer/scope.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t deadline_ns;

static int run(void *command)
{
    char *arguments[] = {"sh", "-c", command, NULL}, bytes[200], text[4096] = "";
    const struct gs_process_options options = {
        .streams = {[STDOUT_FILENO] = {.kind = GS_STREAM_PIPE}},
        .new_group = true, /* so that what the shell has started is killed, too */
    };
    struct gs_process process;
    size_t length = 0;
    int status = 0;
    ssize_t n = gs_spawn_process("/bin/sh", arguments, &options, &process);
    bool is_started = !n;
    while (!n && (n = gs_read(process.fds[1], bytes, sizeof bytes, deadline_ns)) > 0) {
        size_t room = sizeof text - 1 - length, copied = (size_t)n < room ? (size_t)n : room;
        memcpy(text + length, bytes, copied);
        length += copied;
        n = 0;
    }
    if (is_started && (n || (n = gs_wait_child(process.pid, deadline_ns, &status)))) {
        kill(-process.pid, SIGKILL);
        gs_thread_set_cancelable(false);
        (void)!gs_wait_child(process.pid, GS_NEVER, &status);
        gs_thread_set_cancelable(true);
    }
    if (is_started)
        gs_close(process.fds[1]);
    printf("%s: %s, status %d: %s\n", (char *)command, n ? strerror((int)-n) : "complete",
           WIFEXITED(status) ? WEXITSTATUS(status) : -1, text);
    return 0; /* an error would cancel the other threads of the scope */
}

static void *run_all(void *commands)
{
    struct gs_scope scope = {.max_threads = 16};
    int err = 0;
    for (char **command = commands; *command && !err; command++)
        err = gs_scope_spawn(&scope, run, *command, GS_NEVER);
    return (void *)(intptr_t)(gs_scope_wait(&scope, GS_NEVER) || err);
}

int main(int argc, char **argv)
{
    void *has_failed = NULL;
    deadline_ns = gs_clock_now() + (argc > 1 ? strtoul(argv[1], NULL, 10) : 0) * GS_SECOND;
    return argc < 3 || gs_threads_run(NULL, run_all, argv + 2, &has_failed) || has_failed;
}
