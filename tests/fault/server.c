#include "tests/fault/server.h"

#include "serve/serve.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gossamer/clock.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENTS_MAX 32
/* Of 200 us: the server writes the log some time after the response. */
#define LOG_TRIES 50000
#define HANG_TIMEOUT_MS 30000 /* after this time a server counts as hanging */
#define SETTLE_TRIES 50000    /* of 200 us */
#define IDLE_TRIES 50000      /* of 200 us */
/* What nobody asks for is released after this time, which passes once in so many tries. */
#define EXPIRY_NS (3 * GS_SECOND)
#define PASS_TRIES 20
#define CALM_TRIES 500 /* in a row, in which an idle server closes nothing */

/* The server starts with so many open descriptors that its loops must grow their tables. */
#define DESCRIPTORS_TAKEN 24

char server_small[SERVER_SMALL + 1], server_large[SERVER_LARGE + 1];
static char folder[64];
static pid_t creator; /* the process that created the folder, and alone removes it */
static pid_t running;

/* ---- The served folder ---- */

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *text, size_t n)
{
    int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text, n) != (ssize_t)n)
        abort();
    close(fd);
}

static void remove_folder(void)
{
    static const char *const names[] = {
        "root/folder/index.html", "root/folder", "root/empty", "root/small.txt", "root/large.bin",
        "root/huge.bin",          "root",        "log",        "said",           ""};
    if (getpid() != creator)
        return;
    if (running && waitpid(running, NULL, WNOHANG) == 0)
        kill(running, SIGKILL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        remove(path_of(names[i]));
}

static void fill(char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        text[i] = i % 50 == 49 ? '\n' : (char)('a' + (i * 7 + i / 50 * 3) % 26);
}

const char *server_folder(void)
{
    if (folder[0])
        return folder;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.40s/gossamer-fault-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(folder))
        abort();
    static const char *const folders[] = {"root", "root/folder", "root/empty"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (mkdir(path_of(folders[i]), 0755))
            abort();
    fill(server_small, SERVER_SMALL);
    fill(server_large, SERVER_LARGE);
    write_file("root/small.txt", server_small, SERVER_SMALL);
    write_file("root/large.bin", server_large, SERVER_LARGE);
    write_file("root/huge.bin", "", 0);
    write_file("root/folder/index.html", SERVER_INDEX, strlen(SERVER_INDEX));
    if (truncate(path_of("root/huge.bin"), SERVER_HUGE))
        abort();
    creator = getpid();
    atexit(remove_folder);
    return folder;
}

void server_touch(void)
{
    if (utimensat(AT_FDCWD, path_of("root/small.txt"), NULL, 0))
        abort();
}

/* ---- Start and end ---- */

static unsigned count_entries(DIR *directory)
{
    unsigned count = 0;
    rewinddir(directory);
    while (readdir(directory))
        count++;
    return count;
}

static unsigned count_descriptors(const char *of)
{
    DIR *directory = opendir(of);
    unsigned count = directory ? count_entries(directory) : 0;
    if (directory)
        closedir(directory);
    return count;
}

const char *server_arch(void)
{
    const char *arch = getenv("GS_FAULT_ARCH");
    return arch ? arch : "event";
}

/* Runs in the server's process. exit() lets a sanitizer look for leaks. */
static _Noreturn void serve(const char *const *more)
{
    char root[80], log[80];
    const char *arguments[ARGUMENTS_MAX] = {"serve",       "--arch",
                                            server_arch(), "--listen",
                                            "127.0.0.1:0", "--access-log",
                                            log,           "--header-timeout",
                                            "1000",        "--idle-timeout",
                                            "10000",       "--rate",
                                            "0",           root};
    int count = 14;
    snprintf(root, sizeof root, "%s/root", folder);
    snprintf(log, sizeof log, "%s/log", folder);
    while (*more && count + 1 < ARGUMENTS_MAX)
        arguments[count++] = *more++;
    for (int i = 0; i < DESCRIPTORS_TAKEN; i++)
        if (dup(STDOUT_FILENO) < 0)
            abort();
    setenv("GS_POLLER", "epoll", 0);            /* whose calls fail */
    DIR *open_files = opendir("/proc/self/fd"); /* which may not be opened in the sandbox */
    if (!open_files)
        abort();
    unsigned before = count_entries(open_files);
    fault_enter();
    int status = gs_serve_main(count, (char **)arguments);
    fault_leave((int)count_entries(open_files) - (int)before);
    closedir(open_files);
    exit(status);
}

static void become_server(int output_fd, const char *const *arguments)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int stderr_fd = open(path_of("said"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (stderr_fd < 0 || dup2(stderr_fd, STDERR_FILENO) < 0 || dup2(output_fd, STDOUT_FILENO) < 0)
        _exit(99);
    close(stderr_fd);
    close(output_fd);
    serve(arguments);
}

/* The server's first line of output contains the port. Returns false if the server hangs. */
static bool read_port(struct server *server)
{
    char line[256];
    size_t n = 0;
    struct pollfd event = {.fd = server->output_fd, .events = POLLIN};
    while (n + 1 < sizeof line) {
        if (poll(&event, 1, HANG_TIMEOUT_MS) <= 0)
            return false;
        ssize_t got = read(server->output_fd, line + n, 1);
        if (got <= 0 || line[n] == '\n')
            break;
        n += (size_t)got;
    }
    line[n] = '\0';
    const char *address = strstr(line, "http://127.0.0.1:");
    server->port = address ? (unsigned)strtoul(address + 17, NULL, 10) : 0;
    return true;
}

const char *server_start(struct server *server, const char *const *arguments)
{
    int pipe_fds[2];
    server_folder();
    if (running) {
        kill(running, SIGKILL);
        waitpid(running, NULL, 0);
    }
    if (pipe2(pipe_fds, O_CLOEXEC))
        abort();
    fflush(NULL);
    *server = (struct server){.output_fd = pipe_fds[0], .pid = fork(), .descriptors = INT_MAX};
    if (server->pid < 0)
        abort();
    if (!server->pid)
        become_server(pipe_fds[1], arguments);
    running = server->pid;
    close(pipe_fds[1]);
    return read_port(server) ? NULL : "it neither starts nor ends";
}

const char *server_end(struct server *server, bool terminate, int *ret_status)
{
    static char problem[80];
    int status = 0;
    int process_fd = (int)syscall(SYS_pidfd_open, server->pid, 0);
    struct pollfd event = {.fd = process_fd, .events = POLLIN};
    if (terminate)
        kill(server->pid, SIGTERM);
    bool ended = poll(&event, 1, HANG_TIMEOUT_MS) > 0;
    if (!ended)
        kill(server->pid, SIGKILL);
    waitpid(server->pid, &status, 0);
    running = 0;
    close(process_fd);
    close(server->output_fd);
    *ret_status = WEXITSTATUS(status);
    if (!ended)
        return "it does not end";
    if (WIFEXITED(status))
        return NULL;
    snprintf(problem, sizeof problem, "it ended by signal %d", WTERMSIG(status));
    return problem;
}

/* ---- Resources ---- */

unsigned server_descriptors(const struct server *server)
{
    char of[40];
    snprintf(of, sizeof of, "/proc/%d/fd", (int)server->pid);
    return count_descriptors(of);
}

/* The server has two threads: one waits for signals, the other one is the worker. */
void server_wait_idle(const struct server *server)
{
    for (int tries = 0; tries < IDLE_TRIES; tries++) {
        if (fault_waiting() == 2 && (int)server_descriptors(server) <= server->descriptors)
            return;
        usleep(200);
    }
}

void server_measure(struct server *server)
{
    for (int tries = 0, calm = 0; tries < IDLE_TRIES && calm < CALM_TRIES; tries++) {
        int descriptors = (int)server_descriptors(server);
        calm = descriptors == server->descriptors && fault_waiting() == 2 ? calm + 1 : 0;
        server->descriptors = descriptors;
        usleep(200);
    }
    server->live = fault_live();
}

const char *server_settled(const struct server *server)
{
    static char problem[120];
    int live = 0, descriptors = 0;
    for (int tries = 0; tries < SETTLE_TRIES; tries++) {
        live = fault_live();
        descriptors = (int)server_descriptors(server);
        if (live == server->live && descriptors == server->descriptors)
            return NULL;
        if (tries % PASS_TRIES == 0 && fault_waiting() == 2)
            fault_pass(EXPIRY_NS);
        usleep(200);
    }
    snprintf(problem, sizeof problem, "it holds %+d descriptors and %+d allocations",
             descriptors - server->descriptors, live - server->live);
    return problem;
}

/* ---- Log and messages ---- */

/* Reads from the offset on; returns the length. The text is NUL-terminated. */
static size_t read_text(const char *name, off_t offset, char *text, size_t size)
{
    int fd = open(path_of(name), O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : pread(fd, text, size - 1, offset);
    if (fd >= 0)
        close(fd);
    text[n < 0 ? 0 : n] = '\0';
    return n < 0 ? 0 : (size_t)n;
}

static unsigned count(const char *text, const char *mark)
{
    unsigned found = 0;
    for (; (text = strstr(text, mark)); text++)
        found++;
    return found;
}

/* The rest of a line that was written in part comes later. */
static bool is_complete(const char *text, size_t n, const char *mark, unsigned expected)
{
    return count(text, mark) >= expected && (!n || text[n - 1] == '\n');
}

const char *server_read_log(const char *mark, unsigned expected, unsigned *ret_marked)
{
    static char text[1 << 18], problem[512];
    static off_t offset; /* what is before it was read */
    const char *start = text, *end;
    size_t n = read_text("log", offset, text, sizeof text);
    *ret_marked = 0;
    for (int i = 0; !is_complete(text, n, mark, expected) && i < LOG_TRIES; i++) {
        usleep(200);
        n = read_text("log", offset, text, sizeof text);
    }
    offset += (off_t)n;
    for (; (end = strchr(start, '\n')); start = end + 1) {
        size_t length = (size_t)(end - start);
        const char *marked = strstr(start, mark);
        *ret_marked += marked && marked < end;
        if (length < 60 || strncmp(start, "127.0.0.1 - - [", 15) != 0 || end[-1] != '"')
            break;
    }
    if (!*start)
        return NULL;
    snprintf(problem, sizeof problem, "a broken line in the log: %.*s", (int)strcspn(start, "\n"),
             start);
    return problem;
}

const char *server_stderr(unsigned *ret_lines)
{
    static char text[4096];
    size_t n = read_text("said", 0, text, sizeof text);
    *ret_lines = 0;
    for (size_t i = 0; i < n; i++)
        *ret_lines += text[i] == '\n';
    return text;
}
