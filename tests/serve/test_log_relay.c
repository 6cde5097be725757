#include "serve/log/log_relay.h"

#include "tests/test.h"

#include <gossamer/sys.h>

static char path[] = "/tmp/gossamer-relay-XXXXXX";
static struct serve_log_relay relay;
static struct serve_log_losses losses;
static int log_fd, output;
static char text[1 << 20];

/* The log is what fd is. The thread starts when the test has written to the pipe. */
static void start(int fd)
{
    memset(&relay, 0, sizeof relay);
    memset(&losses, 0, sizeof losses);
    log_fd = fd;
    serve_log_relay_open(&relay, path, &log_fd);
    CHECK(log_fd != fd);
}

static void start_file(void)
{
    strcpy(path + sizeof path - 7, "XXXXXX");
    output = mkostemp(path, O_APPEND | O_CLOEXEC);
    CHECK(output >= 0);
    start(fcntl(output, F_DUPFD_CLOEXEC, 3));
}

static void put(const char *bytes, size_t n)
{
    CHECK_EQ(gs_sys_write(log_fd, bytes, n), (ssize_t)n);
}

static void put_lines(const char *line, unsigned count)
{
    while (count--)
        put(line, strlen(line));
}

static void run(void)
{
    CHECK_EQ(serve_log_relay_start(&relay, &losses), 0);
    CHECK(serve_log_relay_stop(&relay));
    close(log_fd);
}

static const char *stop_file(void)
{
    ssize_t n = pread(output, text, sizeof text - 1, 0);
    CHECK(n >= 0);
    text[n] = '\0';
    close(output);
    unlink(path);
    return text;
}

TEST(lines_come_into_the_file)
{
    start_file();
    put_lines("one\n", 1);
    put_lines("two\n", 1);
    run();
    CHECK_STR(stop_file(), "one\ntwo\n");
    CHECK_EQ(losses.lines, 0);
}

/* More than the thread reads at a time, so that its reads end within lines. */
TEST(long_lines_stay_whole)
{
    static char line[SERVE_LOG_LINE_MAX + 1];
    memset(line, 'x', sizeof line - 2);
    line[sizeof line - 2] = '\n';
    start_file();
    put_lines(line, 3);
    put_lines("short\n", 1);
    put_lines(line, 40);
    run();
    stop_file();
    unsigned lines = 0;
    for (const char *at = text, *end; (end = strchr(at, '\n')); at = end + 1, lines++)
        CHECK(end - at == SERVE_LOG_LINE_MAX - 1 || (lines == 3 && end - at == 5));
    CHECK_EQ(lines, 44);
    CHECK_EQ(losses.lines, 0);
}

/* A client cannot write to the pipe, but who can must not stop the log. */
TEST(what_is_no_line_is_dropped_and_what_follows_written)
{
    static char garbage[40000];
    static const size_t sizes[] = {1, 4095, 4096, 32768, sizeof garbage};
    memset(garbage, 'x', sizeof garbage);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        start_file();
        put_lines("before\n", 1);
        put(garbage, sizes[i]);
        put_lines(i % 2 ? "\nafter\n" : "", 1);
        CHECK_EQ(serve_log_relay_start(&relay, &losses), 0);
        while (!(i % 2) && !atomic_load(&losses.lines))
            usleep(1000);
        put_lines(i % 2 ? "" : "\nafter\n", 1);
        CHECK(serve_log_relay_stop(&relay));
        close(log_fd);
        CHECK(strstr(stop_file(), "before\n") == text && strstr(text, "\nafter\n"));
        CHECK_EQ(!strchr(text, 'x'), sizes[i] >= SERVE_LOG_LINE_MAX || !(i % 2));
    }
}

TEST(what_a_reader_never_takes_is_counted)
{
    static char line[1000];
    int pair[2], small = 1;
    unsigned sent = 0;
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
    CHECK(!setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small));
    start(pair[0]);
    memset(line, 'y', 999);
    line[999] = '\n';
    while (sent++ < 300)
        put(line, sizeof line);
    run();
    ssize_t n = read(pair[1], text, sizeof text);
    CHECK(n > 0 && n < 300000);
    CHECK(losses.lines >= sent - (unsigned)(n / 1000) - 2 && losses.lines < sent);
    close(pair[1]);
}
