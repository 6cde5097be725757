/* Run a command, and again whenever a file has changed: rerun FILE COMMAND [ARGUMENT...]. Watches a
 * file, a timer, a child process and a signal in one loop. */
#include <gossamer/loop.h>
#include <gossamer/process.h>

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* Changes within this time of each other cause one run. */
#define DEBOUNCE_NS (50 * GS_MILLISECOND)

static char **command;
static bool is_rerun_pending; /* the command is to be run once the child has ended */
static struct gs_file file;
static struct gs_timer debounce;
static struct gs_child child;
static struct gs_signal interrupt;

static void run(void)
{
    struct gs_process process;
    is_rerun_pending = false;
    int err = gs_spawn_process(command[0], command, NULL, &process);
    if (err || gs_child_start(&child, process.pid))
        fprintf(stderr, "cannot run %s\n", command[0]);
}

static void on_changed(struct gs_file *changed, unsigned events)
{
    if (!(events & GS_FILE_REMOVED))
        gs_timer_start(&debounce, gs_loop_now(changed->watcher.loop) + DEBOUNCE_NS);
}

static void on_debounced(struct gs_timer *timer)
{
    (void)timer;
    is_rerun_pending = gs_watcher_is_active(&child.watcher);
    if (is_rerun_pending)
        kill(child.pid, SIGTERM);
    else
        run();
}

static void on_ended(struct gs_child *ended, const struct gs_child_exit *result)
{
    (void)ended;
    printf("%s %d\n", result->code == CLD_EXITED ? "status" : "signal", result->status);
    fflush(stdout);
    if (is_rerun_pending)
        run();
}

/* Only the child's watcher stays active. Once the child has ended the loop returns. */
static void on_interrupt(struct gs_signal *signal)
{
    is_rerun_pending = false;
    gs_file_stop(&file);
    gs_timer_stop(&debounce);
    gs_signal_stop(signal);
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
    gs_timer_init(&debounce, loop, on_debounced);
    gs_child_init(&child, loop, on_ended);
    gs_signal_init(&interrupt, loop, on_interrupt);
    if (gs_file_start(&file, argv[1], 0) || gs_signal_start(&interrupt, SIGINT))
        return 1;
    run();
    return gs_loop_run(loop) != 0;
}
