/* User threads that start processes, talk to them, and wait for them. */
#include "tests/thread/fixture.h"

#include <gossamer/process.h>

enum { LARGE = 1 << 20 };

static void spawn_shell(const char *command, enum gs_stream_kind input,
                        struct gs_process *ret_process)
{
    char *arguments[] = {"sh", "-c", (char *)command, NULL};
    const struct gs_process_options options = {
        .streams = {{.kind = input}, {.kind = GS_STREAM_PIPE}}};
    MUST_EQ(gs_spawn_process("sh", arguments, &options, ret_process), 0);
}

static int end_of(const struct gs_process *process)
{
    int status = -1;
    MUST_EQ(gs_wait_child(process->pid, GS_NEVER, &status), 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static char letter_at(size_t i)
{
    return (char)('a' + i * 7 % 26);
}

static void *feed(void *argument)
{
    const struct gs_process *process = argument;
    char bytes[5000];
    for (size_t sent = 0; sent < LARGE;) {
        size_t n = LARGE - sent < sizeof bytes ? LARGE - sent : sizeof bytes;
        for (size_t i = 0; i < n; i++)
            bytes[i] = letter_at(sent + i);
        ssize_t written = gs_write(process->fds[0], bytes, n, GS_NEVER);
        MUST(written > 0);
        sent += (size_t)written;
    }
    MUST_EQ(gs_close(process->fds[0]), 0);
    return NULL;
}

/* Much more than pipes hold, in both directions. */
THREAD(talk)
{
    struct gs_process process;
    char bytes[5000];
    size_t received = 0;
    ssize_t n;
    spawn_shell("exec cat", GS_STREAM_PIPE, &process);
    struct gs_thread *feeder = spawn(feed, &process);
    while ((n = gs_read(process.fds[1], bytes, sizeof bytes, GS_NEVER)) > 0)
        for (ssize_t i = 0; i < n; i++)
            MUST_EQ(bytes[i], letter_at(received++));
    MUST_EQ(n, 0);
    MUST_EQ(received, LARGE);
    join(feeder);
    MUST_EQ(gs_close(process.fds[1]), 0);
    MUST_EQ(end_of(&process), 0);
}

THREAD_TEST(much_is_transferred_both_ways_with_several_processes, run_both)
{
    struct gs_thread *threads[6];
    for (int i = 0; i < 6; i++)
        threads[i] = spawn(talk, NULL);
    for (int i = 0; i < 6; i++)
        join(threads[i]);
}

THREAD(write_to_deaf)
{
    struct gs_process process;
    char bytes[8];
    spawn_shell("exec <&-; echo closed; exec >&-", GS_STREAM_PIPE, &process);
    MUST_EQ(gs_read(process.fds[1], bytes, sizeof bytes, GS_NEVER), 7);
    MUST_EQ(gs_write(process.fds[0], "word", 4, GS_NEVER), -EPIPE);
    MUST_EQ(gs_close(process.fds[0]), 0);
    MUST_EQ(gs_close(process.fds[1]), 0);
    MUST_EQ(end_of(&process), 0);
    spawn_shell("exec <&-; echo closed; exec >&-", GS_STREAM_SOCKET, &process);
    MUST_EQ(gs_read(process.fds[1], bytes, sizeof bytes, GS_NEVER), 7);
    MUST_EQ(gs_send_all(process.fds[0], "word", 4, GS_NEVER), -EPIPE);
    MUST_EQ(gs_close(process.fds[0]), 0);
    MUST_EQ(gs_close(process.fds[1]), 0);
    MUST_EQ(end_of(&process), 0);
}

TEST(write_to_a_process_that_has_closed_its_input_fails)
{
    MUST(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    run_both(write_to_deaf);
    MUST(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
}

/* ---- Ending the process ---- */

THREAD(wait_until_deadline)
{
    struct gs_process process;
    char *arguments[] = {"sleep", "1000", NULL}, bytes[8];
    const struct gs_process_options options = {.streams = {[1] = {.kind = GS_STREAM_PIPE}}};
    int status;
    MUST_EQ(gs_spawn_process("sleep", arguments, &options, &process), 0);
    MUST_EQ(gs_wait_child(process.pid, after(GS_MILLISECOND), &status), -ETIMEDOUT);
    MUST_EQ(gs_read(process.fds[1], bytes, sizeof bytes, after(GS_MILLISECOND)), -ETIMEDOUT);
    MUST_EQ(kill(process.pid, SIGKILL), 0);
    MUST_EQ(end_of(&process), -SIGKILL);
    MUST_EQ(gs_read(process.fds[1], bytes, sizeof bytes, GS_NEVER), 0);
    MUST_EQ(gs_close(process.fds[1]), 0);
}

TEST(process_is_waited_for_with_a_deadline)
{
    run_both(wait_until_deadline);
}

/* As the header recommends. */
THREAD(wait_until_canceled)
{
    struct gs_process process;
    char *arguments[] = {"sleep", "1000", NULL};
    int status = 0;
    MUST_EQ(gs_spawn_process("sleep", arguments, NULL, &process), 0);
    MUST_EQ(gs_wait_child(process.pid, GS_NEVER, &status), -ECANCELED);
    MUST_EQ(kill(process.pid, 0), 0);
    bool is_cancelable = gs_thread_set_cancelable(false);
    MUST_EQ(kill(process.pid, SIGKILL), 0);
    MUST_EQ(end_of(&process), -SIGKILL);
    gs_thread_set_cancelable(is_cancelable);
    /* Starting is no wait, so a thread that is canceled can do so, to clean up. */
    MUST_EQ(gs_spawn_process("true", (char *[]){"true", NULL}, NULL, &process), 0);
    MUST_EQ(gs_thread_set_cancelable(false), true);
    MUST_EQ(end_of(&process), 0);
}

THREAD(cancel_the_waiter)
{
    struct gs_thread *waiter = spawn(wait_until_canceled, NULL);
    MUST_EQ(gs_thread_sleep(after(5 * GS_MILLISECOND)), 0);
    gs_thread_cancel(waiter);
    join(waiter);
}

TEST(canceled_thread_leaves_its_process_and_can_kill_it)
{
    run_both(cancel_the_waiter);
}

static long refuse_pidfds(long number, void *unused)
{
    (void)unused;
    return number == SYS_pidfd_open ? -EPERM : 0;
}

TEST(process_is_waited_for_where_pidfds_are_refused)
{
    gs_sys_set_fault(refuse_pidfds, NULL);
    run_both(wait_until_deadline);
    run_both(cancel_the_waiter);
    gs_sys_set_fault(NULL, NULL);
}

/* ---- Processes that cannot be waited for ---- */

static pid_t start_sleep(void)
{
    struct gs_process process;
    char *arguments[] = {"sleep", "1000", NULL};
    MUST_EQ(gs_spawn_process("sleep", arguments, NULL, &process), 0);
    return process.pid;
}

static void *wait_in_vain(void *pid)
{
    int status = -1;
    MUST_EQ(gs_wait_child((pid_t)(intptr_t)pid, GS_NEVER, &status), -ECHILD);
    MUST_EQ(status, -1);
    return NULL;
}

static void *select_in_vain(void *pid)
{
    struct gs_select end = {.child = (pid_t)(intptr_t)pid};
    MUST_EQ(gs_select(&end, 1, GS_NEVER), 0);
    MUST_EQ(end.result, -ECHILD);
    return NULL;
}

/* The process ends while a thread waits, and its status goes to other code, or to none. */
static void end_during(gs_thread_fn *wait, bool is_status_kept)
{
    pid_t pid = start_sleep();
    struct gs_thread *waiter = spawn(wait, (void *)(intptr_t)pid);
    gs_thread_yield();
    kill(pid, SIGKILL);
    if (is_status_kept)
        MUST_EQ(waitpid(pid, NULL, 0), pid);
    join(waiter);
    wait((void *)(intptr_t)pid);
}

static void get_thread_id(void *ret_id)
{
    *(pid_t *)ret_id = (pid_t)syscall(SYS_gettid);
}

static void wait_for_others(gs_thread_fn *wait)
{
    pid_t thread;
    MUST_EQ(gs_run_blocking(get_thread_id, &thread, GS_NEVER), 0);
    wait((void *)(intptr_t)thread);
    wait((void *)(intptr_t)getppid());
}

/* With one worker, which reaps the process before the waiting thread can. */
THREAD(wait_for_what_cannot_be_waited_for)
{
    end_during(wait_in_vain, true);
    wait_for_others(wait_in_vain);
    signal(SIGCHLD, SIG_IGN);
    end_during(wait_in_vain, false);
    signal(SIGCHLD, SIG_DFL);
}

THREAD(select_what_cannot_be_waited_for)
{
    end_during(select_in_vain, true);
    wait_for_others(select_in_vain);
    signal(SIGCHLD, SIG_IGN);
    end_during(select_in_vain, false);
    signal(SIGCHLD, SIG_DFL);
}

TEST(process_that_cannot_be_waited_for_is_one_error)
{
    run_with(1, wait_for_what_cannot_be_waited_for);
    run_with(1, select_what_cannot_be_waited_for);
    gs_sys_set_fault(refuse_pidfds, NULL);
    run_with(1, wait_for_what_cannot_be_waited_for);
    gs_sys_set_fault(NULL, NULL);
}

/* ---- The runtime's signals, and its stacks ---- */

/* An emulator has two others in their place. */
#ifdef GS_EMULATED
#define LIBRARY_SIGNALS 0x780000000ull
#else
#define LIBRARY_SIGNALS 0x180000000ull
#endif

/* Without the C library's own two, which its posix_spawn ignores. */
static unsigned long long signals_in(const char *status, const char *name)
{
    const char *line = strstr(status, name);
    MUST(line);
    return strtoull(line + strlen(name), NULL, 16) & ~LIBRARY_SIGNALS;
}

THREAD(look_at_signals)
{
    struct gs_process process;
    static char text[4096];
    ssize_t n;
    size_t length = 0;
    spawn_shell("exec cat /proc/self/status", GS_STREAM_NULL, &process);
    while ((n = gs_read(process.fds[1], text + length, sizeof text - 1 - length, GS_NEVER)) > 0)
        length += (size_t)n;
    MUST_EQ(gs_close(process.fds[1]), 0);
    MUST_EQ(end_of(&process), 0);
    MUST_EQ(signals_in(text, "SigBlk:"), 0);
    MUST_EQ(signals_in(text, "SigIgn:"), 0);
    MUST_EQ(signals_in(text, "SigCgt:"), 0);
}

THREAD_TEST(process_has_the_signals_of_a_fresh_program_and_needs_little_stack, run_both)
{
    const struct gs_thread_attributes attributes = {.stack_size = 16384};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&attributes, look_at_signals, NULL, &thread), 0);
    join(thread);
}
