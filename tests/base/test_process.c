/* Starting a process from a program without a loop and without user threads. */
#include "tests/test.h"

#include <gossamer/process.h>
#include <gossamer/sys.h>
#include <limits.h>

#define PIPE {.kind = GS_STREAM_PIPE}

static struct gs_process process;

static int spawn(char *const *arguments, const struct gs_process_options *options)
{
    return gs_spawn_process(arguments[0], arguments, options, &process);
}

static int spawn_shell(const char *command, const struct gs_process_options *options)
{
    char *arguments[] = {"sh", "-c", (char *)command, NULL};
    return spawn(arguments, options);
}

static int end_of(pid_t pid)
{
    int status = -1;
    CHECK_EQ(gs_sys_wait4(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Read all from a descriptor, without its non-blocking mode, and close it. */
static const char *read_all(int fd)
{
    static char text[65536];
    size_t n = 0;
    ssize_t got;
    CHECK_EQ(fcntl(fd, F_SETFL, 0), 0);
    while ((got = read(fd, text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    close(fd);
    return text;
}

static const char *output_of(const char *command, const struct gs_process_options *options)
{
    CHECK_EQ(spawn_shell(command, options), 0);
    const char *text = read_all(process.fds[1]);
    CHECK_EQ(end_of(process.pid), 0);
    return text;
}

static int count_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

TEST(program_gets_its_arguments_and_its_status_is_returned)
{
    char *arguments[] = {"sh", "-c", "test \"$0$1\" = \"one two\" && exit 7", "one ", "two", NULL};
    CHECK_EQ(spawn(arguments, NULL), 0);
    CHECK_EQ(process.fds[0], -1);
    CHECK_EQ(process.fds[1], -1);
    CHECK_EQ(process.fds[2], -1);
    CHECK_EQ(end_of(process.pid), 7);
}

TEST(program_by_its_path_gets_another_first_argument)
{
    char *arguments[] = {"other", "-c", "echo $0", NULL};
    const struct gs_process_options options = {.streams = {[1] = PIPE}};
    CHECK_EQ(gs_spawn_process("/bin/sh", arguments, &options, &process), 0);
    CHECK_STR(read_all(process.fds[1]), "other\n");
    CHECK_EQ(end_of(process.pid), 0);
}

TEST(pipes_transfer_in_their_directions)
{
    const struct gs_process_options options = {.streams = {PIPE, PIPE, PIPE}};
    CHECK_EQ(spawn_shell("cat; echo error >&2", &options), 0);
    for (int i = 0; i < 3; i++) {
        CHECK(process.fds[i] >= 3);
        CHECK_EQ(fcntl(process.fds[i], F_GETFD), FD_CLOEXEC);
        CHECK(fcntl(process.fds[i], F_GETFL) & O_NONBLOCK);
    }
    CHECK_EQ(write(process.fds[0], "hello", 5), 5);
    close(process.fds[0]);
    CHECK_STR(read_all(process.fds[1]), "hello");
    CHECK_STR(read_all(process.fds[2]), "error\n");
    CHECK_EQ(end_of(process.pid), 0);
}

TEST(socket_transfers_in_both_directions)
{
    const struct gs_process_options options = {.streams = {{.kind = GS_STREAM_SOCKET}}};
    CHECK_EQ(spawn_shell("read line; echo \"got $line\" >&0", &options), 0);
    CHECK_EQ(fcntl(process.fds[0], F_GETFD), FD_CLOEXEC);
    CHECK_EQ(gs_sys_send(process.fds[0], "word\n", 5, 0), 5);
    CHECK_STR(read_all(process.fds[0]), "got word\n");
    CHECK_EQ(end_of(process.pid), 0);
}

TEST(write_to_a_program_that_has_closed_its_input_fails)
{
    const struct gs_process_options options = {.streams = {{.kind = GS_STREAM_SOCKET}, PIPE}};
    const struct gs_process_options with_pipe = {.streams = {PIPE, PIPE}};
    CHECK_EQ(spawn_shell("exec <&-; exec >&-", &options), 0);
    CHECK_STR(read_all(process.fds[1]), "");
    CHECK_EQ(gs_sys_send(process.fds[0], "word", 4, 0), -EPIPE);
    close(process.fds[0]);
    CHECK_EQ(end_of(process.pid), 0);
    signal(SIGPIPE, SIG_IGN);
    CHECK_EQ(spawn_shell("exec <&-; exec >&-", &with_pipe), 0);
    CHECK_STR(read_all(process.fds[1]), "");
    CHECK_EQ(gs_sys_write(process.fds[0], "word", 4), -EPIPE);
    close(process.fds[0]);
    CHECK_EQ(end_of(process.pid), 0);
    signal(SIGPIPE, SIG_DFL);
}

TEST(null_stream_is_empty_and_takes_everything)
{
    const struct gs_process_options options = {
        .streams = {{.kind = GS_STREAM_NULL}, PIPE, {.kind = GS_STREAM_NULL}}};
    CHECK_STR(output_of("cat; echo lost >&2; echo end", &options), "end\n");
}

TEST(error_goes_where_the_output_goes)
{
    const struct gs_process_options options = {
        .streams = {[1] = PIPE, [2] = {GS_STREAM_OUTPUT, 0}}};
    CHECK_STR(output_of("echo one; echo two >&2", &options), "one\ntwo\n");
}

TEST(given_descriptor_may_be_close_on_exec_and_stays_open)
{
    int fds[2];
    CHECK_EQ(pipe2(fds, O_CLOEXEC), 0);
    const struct gs_process_options options = {
        .streams = {[1] = {GS_STREAM_DESCRIPTOR, fds[1]}, [2] = {GS_STREAM_DESCRIPTOR, fds[1]}}};
    CHECK_EQ(spawn_shell("echo one; echo two >&2", &options), 0);
    CHECK_EQ(end_of(process.pid), 0);
    CHECK_EQ(fcntl(fds[1], F_GETFD), FD_CLOEXEC);
    close(fds[1]);
    CHECK_STR(read_all(fds[0]), "one\ntwo\n");
}

/* Standard error and output are exchanged, in a child of the test that has changed its own. */
TEST(standard_streams_can_be_exchanged)
{
    int out[2], err[2], status;
    const struct gs_process_options options = {
        .streams = {[1] = {GS_STREAM_DESCRIPTOR, 2}, [2] = {GS_STREAM_DESCRIPTOR, 1}}};
    CHECK_EQ(pipe2(out, O_CLOEXEC), 0);
    CHECK_EQ(pipe2(err, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (!pid) {
        dup2(out[1], 1);
        dup2(err[1], 2);
        if (spawn_shell("echo output; echo error >&2", &options))
            _exit(1);
        waitpid(process.pid, &status, 0);
        _exit(count_descriptors() > 16);
    }
    close(out[1]);
    close(err[1]);
    CHECK_STR(read_all(out[0]), "error\n");
    CHECK_STR(read_all(err[0]), "output\n");
    CHECK_EQ(end_of(pid), 0);
}

TEST(streams_work_though_the_caller_has_closed_its_own)
{
    const struct gs_process_options options = {.streams = {PIPE, PIPE, PIPE}};
    char bytes[8] = "";
    pid_t pid = fork();
    if (!pid) {
        for (int fd = 0; fd < 3; fd++)
            close(fd);
        if (spawn_shell("cat; cat >&2", &options) || process.fds[0] < 3 || process.fds[1] < 3)
            _exit(1);
        if (fcntl(0, F_GETFD) >= 0 || fcntl(1, F_GETFD) >= 0 || fcntl(2, F_GETFD) >= 0)
            _exit(2);
        fcntl(process.fds[1], F_SETFL, 0);
        if (write(process.fds[0], "word", 4) != 4 || read(process.fds[1], bytes, 8) != 4)
            _exit(3);
        close(process.fds[0]);
        _exit(end_of(process.pid));
    }
    CHECK_EQ(end_of(pid), 0);
}

TEST(environment_and_directory_are_as_given)
{
    char *environment[] = {"COLOUR=blue", NULL};
    const struct gs_process_options options = {
        .streams = {[1] = PIPE}, .environment = environment, .directory = "/usr"};
    CHECK_STR(output_of("echo $COLOUR $HOME; pwd -P", &options), "blue\n/usr\n");
    setenv("COLOUR", "green", 1);
    const struct gs_process_options inherited = {.streams = {[1] = PIPE}};
    CHECK_STR(output_of("echo $COLOUR", &inherited), "green\n");
}

/* An emulator has two others in their place. */
#ifdef GS_EMULATED
#define LIBRARY_SIGNALS 0x780000000ull
#else
#define LIBRARY_SIGNALS 0x180000000ull
#endif

/* Returns a set of signals in the text of /proc/PID/status, without the C library's own two, which
 * its posix_spawn ignores. */
static unsigned long long signals_in(const char *status, const char *name)
{
    const char *line = strstr(status, name);
    CHECK(line);
    return strtoull(line + strlen(name), NULL, 16) & ~LIBRARY_SIGNALS;
}

static void ignore(int number)
{
    (void)number;
}

/* The child must not be affected by what the runtime, or a thread, does with signals. */
TEST(signals_of_the_program_are_those_of_a_fresh_one)
{
    const struct gs_process_options options = {.streams = {[1] = PIPE}};
    sigset_t all, before;
    sigfillset(&all);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGSEGV, ignore);
    signal(SIGRTMAX, SIG_IGN);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const char *status = output_of("exec cat /proc/self/status", &options);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    signal(SIGSEGV, SIG_DFL);
    signal(SIGRTMAX, SIG_DFL);
    CHECK_EQ(signals_in(status, "SigBlk:"), 0);
    CHECK_EQ(signals_in(status, "SigIgn:"), 0);
    CHECK_EQ(signals_in(status, "SigCgt:"), 0);
}

/* An emulator returns before the process is in its group. */
#ifndef GS_EMULATED
TEST(new_group_and_new_session_are_led_by_the_process)
{
    char *const arguments[] = {"sleep", "1000", NULL};
    const struct gs_process_options in_group = {.new_group = true};
    const struct gs_process_options in_session = {.new_session = true};
    CHECK_EQ(spawn(arguments, NULL), 0);
    CHECK_EQ(getpgid(process.pid), getpgid(0));
    CHECK_EQ(kill(process.pid, SIGKILL), 0);
    CHECK_EQ(end_of(process.pid), -SIGKILL);
    CHECK_EQ(spawn(arguments, &in_group), 0);
    CHECK_EQ(getpgid(process.pid), process.pid);
    CHECK_EQ(getsid(process.pid), getsid(0));
    CHECK_EQ(kill(-process.pid, SIGKILL), 0);
    CHECK_EQ(end_of(process.pid), -SIGKILL);
    CHECK_EQ(spawn(arguments, &in_session), 0);
    CHECK_EQ(getsid(process.pid), process.pid);
    CHECK_EQ(kill(-process.pid, SIGKILL), 0);
    CHECK_EQ(end_of(process.pid), -SIGKILL);
}
#endif

static int spawn_with(enum gs_stream_kind kind, int stream, int fd)
{
    struct gs_process_options options = {.streams = {PIPE, PIPE}};
    options.streams[stream] = (struct gs_process_stream){kind, fd};
    return spawn_shell("exit 0", &options);
}

TEST(invalid_stream_is_refused_and_leaves_nothing)
{
    int before = count_descriptors();
    process.pid = -7;
    CHECK_EQ(spawn_with(GS_STREAM_OUTPUT, 1, 0), -EINVAL);
    CHECK_EQ(spawn_with((enum gs_stream_kind)77, 2, 0), -EINVAL);
    CHECK_EQ(spawn_with(GS_STREAM_DESCRIPTOR, 2, -1), -EBADF);
    CHECK_EQ(process.pid, -7);
    CHECK_EQ(count_descriptors(), before);
    CHECK_EQ(gs_sys_wait4(-1, &before, WNOHANG), -ECHILD);
}

/* At most this many more descriptors can be opened. */
static void limit_descriptors(int more, struct rlimit *ret_before)
{
    int lowest[8] = {0};
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, ret_before), 0);
    for (int i = 0; i <= more; i++)
        CHECK((lowest[i] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
    const struct rlimit limit = {(rlim_t)lowest[more], ret_before->rlim_max};
    for (int i = 0; i <= more; i++)
        close(lowest[i]);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST(lack_of_descriptors_is_returned_and_leaves_nothing)
{
    const struct gs_process_options options = {.streams = {PIPE, PIPE, {GS_STREAM_SOCKET, 0}}};
    int before = count_descriptors();
    for (int more = 0; more < 6; more++) {
        struct rlimit limit;
        limit_descriptors(more, &limit);
        int err = spawn_shell("exit 0", &options);
        int after = count_descriptors();
        setrlimit(RLIMIT_NOFILE, &limit);
        CHECK_EQ(err, -EMFILE);
        CHECK_EQ(after, before);
    }
}

static long calls_until_fault;

static long fail_later(long number, void *data)
{
    (void)number, (void)data;
    return calls_until_fault-- ? 0 : -ENOMEM;
}

TEST(each_system_call_may_fail)
{
    const struct gs_process_options options = {.streams = {PIPE, PIPE, {GS_STREAM_SOCKET, 0}}};
    int before = count_descriptors(), err = -1;
    for (long i = 0; i < 6; i++) {
        calls_until_fault = i;
        gs_sys_set_fault(fail_later, NULL);
        err = spawn_shell("exit 0", &options);
        gs_sys_set_fault(NULL, NULL);
        CHECK_EQ(err, -ENOMEM);
        CHECK_EQ(count_descriptors(), before);
    }
}

/* ---- Several kernel threads ---- */

enum { THREADS = 4, ROUNDS = 25 };

static char expected[4096];
static atomic_int wrong;

/* Lists its descriptors: with those that another one's pipes have, there would be more. */
static void list_descriptors(char text[4096])
{
    char *arguments[] = {"ls", "/proc/self/fd", NULL};
    const struct gs_process_options options = {.streams = {PIPE, PIPE}};
    struct gs_process own;
    int status;
    ssize_t got, n = 0;
    text[0] = '\0';
    if (gs_spawn_process("ls", arguments, &options, &own))
        return;
    fcntl(own.fds[1], F_SETFL, 0);
    while ((got = read(own.fds[1], text + n, (size_t)(4095 - n))) > 0)
        n += got;
    text[n] = '\0';
    close(own.fds[0]);
    close(own.fds[1]);
    waitpid(own.pid, &status, 0);
}

static void *spawn_often(void *unused)
{
    char text[4096];
    for (int i = 0; i < ROUNDS; i++) {
        list_descriptors(text);
        wrong += strcmp(text, expected) != 0;
    }
    return unused;
}

TEST(no_process_gets_descriptors_of_one_that_is_started_at_the_same_time)
{
    pthread_t threads[THREADS];
    list_descriptors(expected);
    CHECK(expected[0]);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, spawn_often, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(wrong, 0);
}

/* ---- Errors of the child, which an emulator of user programs does not return ---- */

TEST(what_prevents_the_program_from_running_is_returned)
{
#ifdef GS_EMULATED
    SKIP("the emulator does not share the memory of the parent with the child");
#endif
    struct gs_process_options options = {.streams = {PIPE, PIPE, PIPE}};
    char *missing[] = {"gossamer-no-such-program", NULL}, *path[] = {"/no/such/program", NULL};
    char *folder[] = {"/usr", NULL}, *file[] = {"/etc/passwd", NULL}, *true_[] = {"true", NULL};
    int before = count_descriptors();
    process.pid = -7;
    CHECK_EQ(spawn(missing, &options), -ENOENT);
    CHECK_EQ(spawn(path, &options), -ENOENT);
    CHECK_EQ(spawn(folder, &options), -EACCES);
    CHECK_EQ(spawn(file, &options), -EACCES);
    options.directory = "/no/such/folder";
    CHECK_EQ(spawn(true_, &options), -ENOENT);
    options.directory = "/etc/passwd";
    CHECK_EQ(spawn(true_, &options), -ENOTDIR);
    options.directory = NULL;
    options.streams[2] = (struct gs_process_stream){GS_STREAM_DESCRIPTOR, 1000};
    CHECK_EQ(spawn(true_, &options), -EBADF);
    CHECK_EQ(process.pid, -7);
    CHECK_EQ(count_descriptors(), before);
    CHECK_EQ(gs_sys_wait4(-1, &before, WNOHANG), -ECHILD);
}
