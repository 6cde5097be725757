/* The server under filters of system calls, as sandboxes and older kernels have them: each newer
 * call, and sendfile, is refused with each error, then each two of them, and all. */
#include "serve/serve.h"

#include "tests/sandbox.h"
#include "tests/test.h"

#define LARGE 100000

static const unsigned errors[] = {EPERM, ENOSYS, EINVAL};

static char root[] = "/tmp/gossamer-refused-XXXXXX";
static char output[1 << 18];

static void write_file(const char *name, size_t n)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", root, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && !ftruncate(fd, (off_t)n) && !close(fd));
}

static _Noreturn void serve(const char *const *arch, int out)
{
    char *arguments[] = {"serve",
                         "--arch",
                         (char *)arch[0],
                         "--workers",
                         "1",
                         "--listen",
                         "127.0.0.1:0",
                         "--bottleneck",
                         "/b=1",
                         arch[1] ? (char *)arch[1] : root,
                         arch[1] ? root : NULL,
                         NULL};
    dup2(out, STDOUT_FILENO);
    int null = open("/dev/null", O_WRONLY);
    dup2(null, STDERR_FILENO);
    _exit(gs_serve_main(arch[1] ? 11 : 10, arguments));
}

/* Returns the number of bytes of the answer. */
static size_t get(unsigned port, const char *request)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t sum = 0;
    ssize_t n = 0;
    if (!connect(fd, (const struct sockaddr *)&address, sizeof address) &&
        write(fd, request, strlen(request)) > 0)
        while ((n = read(fd, output + sum, sizeof output - sum)) > 0)
            sum += (size_t)n;
    close(fd);
    return n ? 0 : sum;
}

#define GET(name_) "GET /" name_ " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

static const char *check_answers(unsigned port)
{
    if (get(port, GET("small")) <= 10 || memcmp(output, "HTTP/1.1 200", 12) != 0)
        return "a small file";
    if (get(port, GET("large")) <= LARGE || memcmp(output, "HTTP/1.1 200", 12) != 0)
        return "a large file";
    if (get(port, GET("b")) <= 8192 || memcmp(output, "HTTP/1.1 200", 12) != 0)
        return "the bottleneck";
    return NULL;
}

/* Returns what failed, or NULL. */
static const char *serve_without(const char *const *arch, const unsigned *numbers, unsigned count,
                                 unsigned error)
{
    static char line[256];
    int pair[2], status;
    unsigned port = 0;
    if (pipe2(pair, O_CLOEXEC))
        return "a pipe";
    pid_t child = fork();
    if (!child) {
        if (refuse_calls(numbers, count, error))
            _exit(77);
        serve(arch, pair[1]);
    }
    close(pair[1]);
    ssize_t n = read(pair[0], line, sizeof line - 1);
    line[n > 0 ? n : 0] = '\0';
    const char *failed = "the start";
    if (sscanf(line, "listening on http://127.0.0.1:%u", &port) == 1)
        failed = check_answers(port);
    kill(child, SIGTERM);
    waitpid(child, &status, 0);
    close(pair[0]);
    if (status == 77 << 8)
        SKIP("system calls cannot be refused here");
    return failed ? failed : status ? "the end" : NULL;
}

static const char *const archs[][2] = {{"user", NULL}, {"event", "--poller=io_uring"}};

static void check(unsigned arch, const unsigned *numbers, unsigned count, unsigned error)
{
    const char *failed = serve_without(archs[arch], numbers, count, error);
    if (failed)
        TEST_FAIL("%s fails with %s, %u calls from %u and %u: %s", failed, archs[arch][0], count,
                  numbers[0], numbers[count - 1], strerror((int)error));
}

TEST(each_newer_call_may_be_refused_with_each_error)
{
    CHECK(mkdtemp(root));
    write_file("small", 10);
    write_file("large", LARGE);
    for (unsigned i = 0; i < NEWER_CALLS; i++)
        for (unsigned j = 0; j < sizeof errors / sizeof *errors; j++)
            for (unsigned arch = 0; arch < 2; arch++)
                check(arch, &newer_calls[i], 1, errors[j]);
}

TEST(each_two_of_them_and_all_may_be_refused)
{
    unsigned turn = 0;
    for (unsigned i = 0; i < NEWER_CALLS; i++)
        for (unsigned j = 0; j < i; j++, turn++)
            check(turn % 2, (const unsigned[]){newer_calls[i], newer_calls[j]}, 2,
                  errors[turn % 3]);
    for (unsigned i = 0; i < 6; i++)
        check(i % 2, newer_calls, NEWER_CALLS, errors[i % 3]);
    char path[64];
    for (const char *const *name = (const char *const[]){"/small", "/large", "", NULL}; *name;
         name++) {
        snprintf(path, sizeof path, "%s%s", root, *name);
        CHECK(!remove(path));
    }
}
