/* What the server's processes can't do once they serve, whatever takes them over: tried in the
 * place of waiting for signals, with each architecture, in the first thread, in another one, and in
 * a process that it forks. */
#include "serve/arch/arch.h"
#include "serve/operations/landlock.h"
#include "serve/operations/server.h"
#include "serve/serve.h"

#include "src/base/sanitized.h"
#include "tests/test.h"

#include <linux/landlock.h>
#include <sys/mount.h>
#include <sys/ptrace.h>

#define DENIED_STATUS 9

static char folder[64], root[80], page[96], fresh[96], secret[96], logs[80], log_file[96];
static const char *mode;
static bool is_signal_scoped, may_use_rings;
static int early; /* a socket of before */
static int results[2];

/* ---- In the server's process ---- */

static bool can_open(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool can_open_of_test(const char *file)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)test_process, file);
    return can_open(path, O_RDONLY);
}

static bool can_call(long number, long a, long b, long c, long d)
{
    return syscall(number, a, b, c, d, 0) >= 0;
}

/* Returns what can be done with files and should not, or NULL. */
static const char *abuse_files(void)
{
    if (can_open("/etc/passwd", O_RDONLY))
        return "read /etc/passwd";
    if (can_open("/etc", O_RDONLY | O_DIRECTORY))
        return "list /etc";
    if (!strcmp(mode, "on") && can_open(secret, O_RDONLY))
        return "read beside the root";
    if (can_open(page, O_WRONLY) || can_open(page, O_RDWR) || !truncate(page, 0))
        return "write to a page";
    if (can_open(fresh, O_WRONLY | O_CREAT) || !mkdir(fresh, 0700) || !symlink("a", fresh) ||
        !link(page, fresh) || !rename(page, fresh))
        return "create in the root";
    if (!unlink(page) || !chmod(page, 0777) || !chown(page, 1, 1))
        return "change a page";
    if (!can_open(page, O_RDONLY) || !can_open(root, O_RDONLY | O_DIRECTORY))
        return "not even read a page";
    return can_open_of_test("environ") || can_open_of_test("mem") ? "read a foreign process" : NULL;
}

static const char *abuse_sockets(void)
{
    const struct sockaddr_in any = {.sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (socket(AF_INET, SOCK_STREAM, 0) >= 0 || socket(AF_INET6, SOCK_DGRAM, 0) >= 0 ||
        socket(AF_UNIX, SOCK_STREAM, 0) >= 0)
        return "create a socket";
    if (!bind(early, (const struct sockaddr *)&any, sizeof any) || !listen(early, 1))
        return "listen";
    return connect(early, (const struct sockaddr *)&any, sizeof any) && errno == EPERM ? NULL
                                                                                       : "connect";
}

static const char *abuse_processes(void)
{
    char *none[] = {NULL};
    execve("/bin/true", none, none);
    if (can_call(SYS_ptrace, PTRACE_ATTACH, test_process, 0, 0) ||
        can_call(SYS_process_vm_readv, test_process, 0, 0, 0))
        return "trace a process";
    if (is_signal_scoped && !kill(test_process, 0))
        return "send a signal to a foreign process";
    if (can_call(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0) ||
        can_call(SYS_unshare, CLONE_NEWUSER, 0, 0, 0))
        return "create a namespace";
    return can_call(SYS_setuid, 0, 0, 0, 0) ? "become another user" : NULL;
}

static const char *abuse_kernel(void)
{
    static const unsigned numbers[] = {SYS_bpf,         SYS_perf_event_open, SYS_keyctl,
                                       SYS_init_module, SYS_reboot,          SYS_sethostname,
                                       SYS_personality, SYS_userfaultfd};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (can_call(numbers[i], 0, 0, 0, 0) || errno != EPERM)
            return "reach rare calls";
    if (!mount("none", root, "tmpfs", 0, NULL))
        return "mount";
    if (!may_use_rings && (can_call(SYS_io_uring_setup, 1, 0, 0, 0) || errno != ENOSYS))
        return "have an io_uring";
    void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *data = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code != MAP_FAILED || data == MAP_FAILED || !mprotect(data, 4096, PROT_READ | PROT_EXEC))
        return "create code";
    munmap(data, 4096);
    return NULL;
}

static void *abuse(void *unused)
{
    (void)unused;
    const char *done = abuse_files();
    if (!done)
        done = abuse_sockets();
    if (!done)
        done = abuse_processes();
    if (!done)
        done = abuse_kernel();
    return (void *)done;
}

static const char *abuse_everywhere(void)
{
    void *in_thread = NULL;
    pthread_t thread;
    int status = 0;
    const char *done = abuse(NULL);
    if (done)
        return done;
    if (pthread_create(&thread, NULL, abuse, NULL) || pthread_join(thread, &in_thread))
        return "not even create a thread";
    if (in_thread)
        return in_thread;
    pid_t child = fork();
    if (!child)
        _exit(abuse(NULL) ? 1 : DENIED_STATUS);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return "not even fork";
    return WEXITSTATUS(status) == DENIED_STATUS ? NULL : "do more in a process";
}

static void try(void)
{
    const char *done = abuse_everywhere();
    if (!done)
        done = "nothing";
    (void)!write(results[1], done, strlen(done));
    serve_request_end();
}

/* Called instead of the server's functions while its threads run. */
int __wrap_serve_wait(struct serve_server *server);
int __real_serve_wait(struct serve_server *server);
int __wrap_serve_wait_with_children(struct serve_server *server,
                                    const struct serve_children *children);
int __real_serve_wait_with_children(struct serve_server *server,
                                    const struct serve_children *children);

int __wrap_serve_wait(struct serve_server *server)
{
    try();
    return __real_serve_wait(server);
}

int __wrap_serve_wait_with_children(struct serve_server *server,
                                    const struct serve_children *children)
{
    try();
    return __real_serve_wait_with_children(server, children);
}

static _Noreturn void serve(const char *arch, const char *poller)
{
    char *arguments[] = {"serve",    "--arch",      (char *)arch, "--workers",  "2",
                         "--listen", "127.0.0.1:0", "--sandbox",  (char *)mode, "--access-log",
                         log_file,   "--metrics",   "/metrics",   root,         NULL};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("GS_POLLER", poller, 1);
    early = socket(AF_INET, SOCK_STREAM, 0);
    int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    _exit(gs_serve_main(14, arguments));
}

/* ---- The test ---- */

static unsigned landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return abi < 0 ? 0 : (unsigned)abi;
}

static void write_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, "text", 4) == 4 && !close(fd));
}

static void set_up(void)
{
    strcpy(folder, "/tmp/gossamer-sandbox-XXXXXX");
    CHECK(mkdtemp(folder));
    snprintf(root, sizeof root, "%s/root", folder);
    snprintf(page, sizeof page, "%s/page", root);
    snprintf(fresh, sizeof fresh, "%s/fresh", root);
    snprintf(secret, sizeof secret, "%s/secret", folder);
    snprintf(log_file, sizeof log_file, "%s/logs/log", folder);
    snprintf(logs, sizeof logs, "%s/logs", folder);
    CHECK(!mkdir(root, 0755) && !mkdir(logs, 0755));
    write_file(page);
    write_file(secret);
    unsigned abi = landlock_abi();
    if (GS_ASAN || GS_TSAN || !abi)
        SKIP("the server is not contained here");
    is_signal_scoped = abi >= 6;
}

static void tear_down(void)
{
    unlink(page);
    unlink(secret);
    unlink(log_file);
    rmdir(logs);
    rmdir(root);
    CHECK_EQ(rmdir(folder), 0);
}

static void check_contained(const char *arch, const char *poller)
{
    char done[64] = "";
    int status;
    may_use_rings = !strcmp(poller, "io_uring");
    CHECK_EQ(pipe2(results, O_CLOEXEC), 0);
    fflush(NULL);
    pid_t server = fork();
    if (!server)
        serve(arch, poller);
    CHECK_EQ(waitpid(server, &status, 0), server);
    close(results[1]);
    CHECK(read(results[0], done, sizeof done - 1) >= 0);
    close(results[0]);
    if (strcmp(done, "nothing") != 0 || status)
        TEST_FAIL("%s on %s, --sandbox %s: it can %s, status %d", arch, poller, mode,
                  *done ? done : "not start", status);
}

static void check_each(void)
{
    for (int i = 0; serve_archs[i]; i++)
        check_contained(serve_archs[i]->name, "epoll");
    check_contained("event", "io_uring");
}

FIXTURE_TEST(nothing_else_can_be_done_in_a_server_with_the_strict_sandbox, set_up(), tear_down())
{
    mode = "on";
    check_each();
}

FIXTURE_TEST(nothing_else_can_be_done_in_a_server_by_default, set_up(), tear_down())
{
    mode = "auto";
    check_each();
}
