/* Runs a command, and again whenever a file has changed: rerun FILE COMMAND [ARGUMENT...]. A file, a
 * timer, a child process and a signal in one loop. */
#include <gossamer/loop.h>

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <unistd.h>

/* Changes that follow each other within this time count as one. */
#define QUIET_NS (50 * GS_MILLISECOND)

static char **command;
static bool is_wanted; /* again, once the child that runs has ended */
static struct gs_file file;
static struct gs_timer settled;
static struct gs_child child;
static struct gs_signal interrupt;

static void run(void)
{
    pid_t pid;
    is_wanted = false;
    if (posix_spawnp(&pid, command[0], NULL, NULL, command, environ) || gs_child_start(&child, pid))
        fprintf(stderr, "cannot run %s\n", command[0]);
}

static void on_changed(struct gs_file *of, unsigned events)
{
    if (!(events & GS_FILE_REMOVED))
        gs_timer_start(&settled, gs_loop_now(of->watcher.loop) + QUIET_NS);
}

static void on_settled(struct gs_timer *of)
{
    (void)of;
    is_wanted = gs_watcher_is_active(&child.watcher);
    if (is_wanted)
        kill(child.pid, SIGTERM);
    else
        run();
}

static void on_ended(struct gs_child *of, const struct gs_child_exit *how)
{
    (void)of;
    printf("%s %d\n", how->code == CLD_EXITED ? "status" : "signal", how->status);
    fflush(stdout);
    if (is_wanted)
        run();
}

/* Only the child is left, if it runs; when that has ended, nothing is, and the loop returns. */
static void on_interrupt(struct gs_signal *of)
{
    is_wanted = false;
    gs_file_stop(&file);
    gs_timer_stop(&settled);
    gs_signal_stop(of);
    if (gs_watcher_is_active(&child.watcher))
        kill(child.pid, SIGTERM);
}

int main(int argc, char **argv)
{
    struct gs_loop *loop;
    if (argc < 3 || gs_loop_new(&loop))
        return 2;
    command = argv + 2;
    gs_file_init(&file, loop, on_changed);
    gs_timer_init(&settled, loop, on_settled);
    gs_child_init(&child, loop, on_ended);
    gs_signal_init(&interrupt, loop, on_interrupt);
    if (gs_file_start(&file, argv[1], 0) || gs_signal_start(&interrupt, SIGINT))
        return 1;
    run();
    return gs_loop_run(loop) != 0;
}
