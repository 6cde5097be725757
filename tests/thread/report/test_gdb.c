/* Tests of tools/gdb/gossamer.py with a live process and with a core. */
#include "tests/thread/report/report.h"
#include "thread/stack/shared_stack.h"

#define GDB "gdb -nx -batch -iex 'set debuginfod enabled off' "
/* With a sanitizer each thread has a stack of its own. */
#define SHARES (GS_ASAN + GS_TSAN == 0)
#define SCRIPT "-ex 'source " GS_GDB_SCRIPT "' "

static struct gs_mutex mutex;
static atomic_bool is_blocked;
static int ready, never[2];

__attribute__((noinline)) static void wait_below(int depth)
{
    if (depth)
        wait_below(depth - 1);
    else
        MUST_EQ(gs_thread_park(GS_NEVER), 0);
    __asm__ volatile("");
}

static void *wait_deep(void *unused)
{
    wait_below(3);
    return unused;
}

static void *lock(void *unused)
{
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    return unused;
}

static void *block(void *unused)
{
    char byte;
    atomic_store(&is_blocked, true);
    (void)!read(never[0], &byte, 1);
    return unused;
}

static void *begin(void *unused)
{
    return unused;
}

static void spawn_on(unsigned worker, const char *name, gs_thread_fn *fn)
{
    const struct gs_thread_attributes attributes = {.name = name, .worker = worker};
    MUST_EQ(gs_thread_spawn(&attributes, fn, NULL, NULL), 0);
}

static void *start_all(void *unused)
{
    const struct gs_thread_attributes large = {.name = "deep", .worker = 1, .stack_size = 8 << 20};
    const struct gs_thread_attributes shared = {
        .name = "evicted", .worker = 1, .stack_is_shared = true};
    const struct gs_thread_attributes other = {.worker = 1, .stack_is_shared = true};
    gs_shared_stacks_max = 1;
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    spawn_on(2, "blocked", block);
    MUST_EQ(gs_thread_spawn(&large, wait_deep, NULL, NULL), 0);
    MUST_EQ(gs_thread_spawn(&shared, wait_deep, NULL, NULL), 0);
    spawn_on(1, "locker", lock);
    spawn_on(1, "other locker", lock);
    while (!atomic_load(&is_blocked))
        gs_thread_yield();
    MUST_EQ(gs_thread_spawn(&other, begin, NULL, NULL), 0);
    MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    spawn_on(2, "new", begin);
    gs_thread_yield();
    MUST_EQ(write(ready, "", 1), 1);
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    return unused;
}

/* Run a child with these threads. */
static pid_t start_child(void)
{
    int fds[2];
    char byte;
    CHECK_EQ(pipe(fds), 0);
    CHECK_EQ(pipe(never), 0);
    pid_t pid = fork();
    if (!pid) {
        const struct gs_threads_options options = {.workers = 2, .stuck_ns = GS_NEVER};
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        ready = fds[1];
        _exit(gs_threads_run(&options, start_all, NULL, NULL) != 0);
    }
    close(fds[1]);
    ssize_t n = read(fds[0], &byte, 1);
    close(fds[0]);
    CHECK_EQ(n, 1);
    return pid;
}

static void end_child(pid_t pid)
{
    kill(pid, SIGKILL);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
    close(never[0]);
    close(never[1]);
}

/* Store the output of the shell command in `report`. */
static void run_shell(const char *line)
{
    int fds[2];
    CHECK_EQ(pipe(fds), 0);
    pid_t pid = fork();
    if (!pid) {
        dup2(fds[1], 1);
        dup2(fds[1], 2);
        close(fds[0]);
        close(fds[1]);
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    read_report(fds[0]);
    close(fds[0]);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

static void run_gdb(const char *what, const char *commands)
{
    char line[2048];
    int n = snprintf(line, sizeof line, GDB "%s " SCRIPT "%s </dev/null", what, commands);
    CHECK(n > 0 && (size_t)n < sizeof line);
    run_shell(line);
}

static void require_gdb(void)
{
#ifdef GS_EMULATED
    SKIP("gdb would inspect the emulator");
#endif
    run_shell("gdb -nx -batch -ex 'python print(42)'");
    if (!is_reported("^42$"))
        SKIP("gdb with Python is not installed");
}

static void check_threads(void)
{
    CHECK_REPORTED("^ +[0-9]+  0x[0-9a-f]+  \"deep\"  has waited [0-9.]+ ms for park$");
    CHECK_REPORTED("\"locker\"  has waited [0-9.]+ ms for mutex at 0x[0-9a-f]+$");
    CHECK_REPORTED("\"blocked\"  runs in kernel thread [0-9]+$");
    CHECK_REPORTED("\"new\"  (has not started|is ready)$");
    if (SHARES)
        CHECK_REPORTED("\"evicted\"  has waited [0-9.]+ ms for park, evicted from its stack$");
    if (SHARES)
        CHECK_REPORTED(
            "\"evicted\" has waited.*\n#0  0x[0-9a-f]+ in [a-z_]+ \\(\\) at .*\n"
            "(#[0-9]+  0x.*\n)*#[0-9]+  0x[0-9a-f]+ in wait_below \\(\\) at .*test_gdb.c:[0-9]+\n"
            "(#[0-9]+  0x.*\n)*#[0-9]+  0x[0-9a-f]+ in wait_deep \\(\\) at ");
    CHECK_REPORTED("^7 threads, 2 workers$");
    CHECK_REPORTED("^#[0-9]+ .*wait_below \\(depth=.*\n#[0-9]+ .*wait_below "
                   "\\(.*\n#[0-9]+ .*wait_below \\(.*\n#[0-9]+ .*wait_below \\(.*\n"
                   "#[0-9]+ .*wait_deep \\(");
    CHECK_REPORTED("^#[0-9]+ .* block \\(unused=");
    CHECK_REPORTED("^starts in .*<begin>$");
}

/* Attach gdb to the process. */
static void run_gdb_in(pid_t pid, const char *commands)
{
    char what[32];
    snprintf(what, sizeof what, "-p %d", pid);
    run_gdb(what, commands);
    if (is_reported("ptrace: |[Cc]ould not attach"))
        SKIP("gdb is not permitted to attach to another process");
}

TEST(threads_of_a_live_process_are_listed_with_their_calls)
{
    require_gdb();
    pid_t pid = start_child();
    run_gdb_in(pid, "-ex 'gossamer threads' -ex 'gossamer bt all'");
    end_child(pid);
    check_threads();
}

TEST(threads_with_the_same_calls_are_one_group)
{
    require_gdb();
    pid_t pid = start_child();
    run_gdb_in(pid, "-ex 'gossamer groups'");
    end_child(pid);
    CHECK_REPORTED("^2 threads: waiting for mutex, [0-9.]+ to [0-9.]+ ms\n"
                   "  \"locker\" 0x[0-9a-f]+, \"other locker\" 0x[0-9a-f]+\n"
                   "(#.*\n)*#[0-9]+ .* lock \\(");
    CHECK_REPORTED("^1 threads: runs in kernel thread [0-9]+\n  \"blocked\" ");
}

TEST(waiting_thread_can_be_inspected_and_left)
{
    require_gdb();
    pid_t pid = start_child();
    run_gdb_in(pid, "-ex 'gossamer thread deep' -ex 'bt' -ex 'echo left\\n' -ex 'gossamer thread' "
                    "-ex 'bt' -ex 'gossamer thread evicted' -ex 'gossamer bt nobody'");
    bool goes_on = !kill(pid, 0) && !waitpid(pid, NULL, WNOHANG);
    end_child(pid);
    CHECK(goes_on);
    CHECK_REPORTED("^#[0-9]+ .*wait_deep \\(");
    if (SHARES)
        CHECK_REPORTED("^it is evicted from its stack while it waits: see gossamer bt$");
    CHECK_REPORTED("gossamer: there is no thread nobody");
    const char *left = strstr(report, "\nleft\n");
    CHECK(left && !strstr(left, "wait_deep") && strstr(left, "gs_worker_main"));
}

/* Under a sanitizer, the process is too large for a core. */
static void check_core(void)
{
    char core[] = "/tmp/gossamer-core-XXXXXX", line[512], exe[256] = {0};
    require_gdb();
    pid_t pid = start_child();
    int fd = mkstemp(core);
    CHECK(fd >= 0);
    close(fd);
    snprintf(line, sizeof line, "-ex 'gcore %s'", core);
    run_gdb_in(pid, line);
    end_child(pid);
    CHECK_REPORTED("^Saved corefile");
    CHECK(readlink("/proc/self/exe", exe, sizeof exe - 1) > 0);
    snprintf(line, sizeof line, "%s %s", exe, core);
    run_gdb(line, "-ex 'gossamer threads' -ex 'gossamer bt all'");
    unlink(core);
    check_threads();
}

TEST(threads_in_a_core_are_listed_with_their_calls)
{
    if (GS_ASAN || GS_TSAN)
        return;
    /* gdb omits from its cores what follows a guard region. */
    setenv("GOSSAMER_NO_GUARD_REGIONS", "1", 1);
    check_core();
}
