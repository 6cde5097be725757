#include "serve/log/access_log.h"

#include "tests/serve/log_entry.h"
#include "tests/test.h"

#include <gossamer/sys.h>

static char folder[32];
static char path[64], moved[64];
static struct serve_log_writer writer;
static struct serve_log_losses losses;
static char text[1 << 20];

static void start(void)
{
    strcpy(folder, "/tmp/gossamer-log-XXXXXX");
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/log", folder);
    snprintf(moved, sizeof moved, "%s/moved", folder);
    memset(&writer, 0, sizeof writer);
    memset(&losses, 0, sizeof losses);
    writer.losses = &losses;
    writer.fd = serve_access_log_open(path);
    CHECK(writer.fd >= 0);
}

static const char *contents(const char *file)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    CHECK(n >= 0);
    text[n] = '\0';
    return text;
}

static void stop(void)
{
    close(writer.fd);
    unlink(path);
    unlink(moved);
    CHECK_EQ(rmdir(folder), 0);
}

static void write_entry(const char *client, const struct gs_http_log_entry *it,
                        const struct gs_tls_info *tls)
{
    const struct serve_log_line line = {.client = client, .entry = it, .tls = tls};
    serve_log_write(&writer, &line);
}

static void write_line(const char *line)
{
    struct gs_http_log_entry it = entry(line);
    write_entry("127.0.0.1", &it, NULL);
}

#define LOG_TEST(name_) FIXTURE_TEST(name_, start(), stop())

TEST(a_line_is_in_the_combined_format)
{
    start();
    setenv("TZ", "CET-1", 1);
    struct gs_http_log_entry it = entry("GET / HTTP/1.1");
    it.referer = "http://a/b";
    it.user_agent = "test/1 (x)";
    write_entry("::1", &it, NULL);
    CHECK(serve_log_flush(&writer));
    CHECK_STR(contents(path), "::1 - - [21/Nov/2026:13:00:00 +0100] \"GET / HTTP/1.1\" 200 6 "
                              "\"http://a/b\" \"test/1 (x)\"\n");
    stop();
}

LOG_TEST(what_a_request_did_not_have_is_a_dash)
{
    write_line(NULL);
    CHECK(serve_log_flush(&writer));
    CHECK(strstr(contents(path), "] \"-\" 200 6 \"-\" \"-\"\n"));
}

TEST(fields_of_tls_follow_if_they_are_asked_for)
{
    const struct gs_tls_info tls = {.version = "TLSv1.3", .cipher = "AES", .server_name = "a\"b"};
    const struct gs_tls_info nothing = {.version = "TLSv1.2"};
    struct gs_http_log_entry it = entry("GET / HTTP/1.1");
    start();
    write_entry("::1", &it, &tls);
    writer.format.has_tls = true;
    write_entry("::1", &it, &tls);
    write_entry("::1", &it, &nothing);
    write_entry("::1", &it, NULL);
    CHECK(serve_log_flush(&writer));
    CHECK(strstr(contents(path), " \"-\" \"-\"\n"
                                 "::1"));
    CHECK(strstr(text, "\"-\" \"-\" \"TLSv1.3\" \"AES\" \"a\\x22b\"\n"));
    CHECK(strstr(text, "\"-\" \"-\" \"TLSv1.2\" \"-\" \"-\"\n"));
    CHECK(strstr(text, "\"-\" \"-\" \"-\" \"-\" \"-\"\n"));
    stop();
}

LOG_TEST(what_could_end_a_text_or_a_line_is_escaped)
{
    write_line("a\"b\\c\nd\re\tf\x7f\x80\xff~ ");
    CHECK(serve_log_flush(&writer));
    CHECK(strstr(contents(path), "\"a\\x22b\\x5Cc\\x0Ad\\x0De\\x09f\\x7F\\x80\\xFF~ \" 200"));
}

LOG_TEST(nothing_is_written_before_a_flush_or_a_full_buffer)
{
    write_line("GET / HTTP/1.1");
    CHECK_STR(contents(path), "");
    CHECK(serve_log_flush(&writer));
    CHECK(*contents(path));
    CHECK_EQ(writer.used, 0);
}

TEST(texts_of_any_length_leave_lines_whole)
{
    static char long_text[20000];
    start();
    memset(long_text, '"', sizeof long_text - 1);
    struct gs_http_log_entry it = entry(long_text);
    it.referer = it.user_agent = long_text;
    for (int i = 0; i < 10; i++)
        write_entry("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", &it, NULL);
    CHECK(serve_log_flush(&writer));
    int lines = 0;
    for (const char *at = contents(path); *at; at = strchr(at, '\n') + 1, lines++) {
        CHECK(strncmp(at, "ffff:", 5) == 0);
        const char *end = strchr(at, '\n');
        CHECK(end && end[-1] == '"');
    }
    CHECK_EQ(lines, 10);
    stop();
}

LOG_TEST(many_lines_are_written_in_order)
{
    char line[32];
    for (int i = 0; i < 1000; i++) {
        snprintf(line, sizeof line, "line-%d.", i);
        write_line(line);
    }
    CHECK(serve_log_flush(&writer));
    const char *at = contents(path);
    for (int i = 0; i < 1000; i++) {
        snprintf(line, sizeof line, "line-%d.", i);
        at = strstr(at, line);
        CHECK(at);
    }
}

LOG_TEST(after_a_rename_the_log_continues_in_a_new_file)
{
    int fd = writer.fd;
    write_line("first");
    CHECK(serve_log_flush(&writer));
    CHECK_EQ(rename(path, moved), 0);
    write_line("second");
    CHECK(serve_log_flush(&writer));
    CHECK_EQ(serve_access_log_reopen(path, fd), 0);
    write_line("third");
    CHECK(serve_log_flush(&writer));
    CHECK(strstr(contents(moved), "second"));
    CHECK(!strstr(text, "third"));
    CHECK(strstr(contents(path), "third"));
    CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
}

LOG_TEST(a_log_that_cannot_be_reopened_stays)
{
    CHECK_EQ(serve_access_log_reopen("/no/such/folder/log", writer.fd), -ENOENT);
    write_line("still here");
    CHECK(serve_log_flush(&writer));
    CHECK(strstr(contents(path), "still here"));
}

TEST(a_log_that_cannot_be_opened_reports_the_error)
{
    CHECK_EQ(serve_access_log_open("/no/such/folder/log"), -ENOENT);
    CHECK_EQ(serve_access_log_open("/tmp"), -EISDIR);
    CHECK_EQ(serve_access_log_reopen("-", STDOUT_FILENO), 0);
}

/* Others may have what stdout leads to open, too: they are not to become non-blocking. */
TEST(standard_output_itself_stays_blocking)
{
    int pipes[2];
    int kept = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    fflush(stdout);
    CHECK(kept >= 0 && !pipe(pipes));
    CHECK_EQ(dup2(pipes[1], STDOUT_FILENO), STDOUT_FILENO);
    int fd = serve_access_log_open("-");
    int flags = fcntl(pipes[1], F_GETFL), own = fcntl(fd, F_GETFL);
    CHECK_EQ(dup2(kept, STDOUT_FILENO), STDOUT_FILENO);
    CHECK(fd > STDERR_FILENO);
    CHECK(own & O_NONBLOCK);
    CHECK(!(flags & O_NONBLOCK));
    close(fd);
    close(kept);
    close(pipes[0]);
    close(pipes[1]);
}

/* Each bit of *data, from the lowest, makes one write fail. */
static long fail_writes(long number, void *data)
{
    unsigned *bits = data;
    if (number != SYS_write)
        return 0;
    bool fails = *bits & 1;
    *bits >>= 1;
    return fails ? -EINTR : 0;
}

LOG_TEST(an_interrupted_write_is_taken_up_again)
{
    unsigned bits = 3;
    write_line("GET / HTTP/1.1");
    gs_sys_set_fault(fail_writes, &bits);
    CHECK(serve_log_flush(&writer));
    gs_sys_set_fault(NULL, NULL);
    CHECK_EQ(bits, 0);
    CHECK(strstr(contents(path), "GET / HTTP/1.1"));
}

LOG_TEST(lines_that_do_not_fit_on_a_full_disk_are_dropped)
{
    int fd = writer.fd;
    writer.fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    CHECK(writer.fd >= 0);
    fflush(stderr);
    for (int i = 0; i < 1000; i++)
        write_line("lost");
    CHECK(serve_log_flush(&writer));
    CHECK_EQ(writer.used, 0);
    CHECK_EQ(losses.lines, 1000);
    close(writer.fd);
    writer.fd = fd;
    write_line("kept");
    CHECK(serve_log_flush(&writer));
    CHECK_EQ(losses.lines, 1000);
    CHECK(strstr(contents(path), "kept"));
    CHECK(!strstr(text, "lost"));
}

/* Returns the end to read of a pipe of one page that is the log. */
static int start_pipe(void)
{
    int reader;
    start();
    close(writer.fd);
    CHECK_EQ(mkfifo(moved, 0600), 0);
    reader = open(moved, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    CHECK(reader >= 0);
    writer.fd = serve_access_log_open(moved);
    CHECK(writer.fd >= 0);
    CHECK(fcntl(reader, F_SETPIPE_SZ, 4096) > 0);
    return reader;
}

static unsigned count_lines(int fd)
{
    static char bytes[65536];
    unsigned lines = 0;
    ssize_t n;
    while ((n = read(fd, bytes, sizeof bytes)) > 0)
        for (ssize_t i = 0; i < n; i++)
            lines += bytes[i] == '\n';
    return lines;
}

TEST(lines_for_which_a_pipe_has_no_room_are_kept_and_then_dropped)
{
    int reader = start_pipe();
    unsigned lines = 0;
    for (int i = 0; i < 1000; i++)
        write_line("GET / HTTP/1.1");
    CHECK(!serve_log_flush(&writer));
    CHECK(losses.lines > 0);
    CHECK(!writer.has_partial_line);
    do
        lines += count_lines(reader);
    while (!serve_log_flush(&writer));
    lines += count_lines(reader);
    CHECK_EQ(lines + losses.lines, 1000);
    close(reader);
    stop();
}

/* The longest texts, all of which are escaped, through a pipe that has room for one line. */
TEST(no_line_is_longer_than_an_atomic_write)
{
    static char long_text[9000], bytes[8192];
    int reader = start_pipe();
    memset(long_text, '"', sizeof long_text - 1);
    struct gs_http_log_entry it = entry(long_text);
    it.referer = it.user_agent = long_text;
    it.body_bytes = UINT64_MAX;
    const struct gs_tls_info tls = {
        .version = "TLSv1.3", .cipher = "TLS_CHACHA20_POLY1305_SHA256", .server_name = long_text};
    writer.is_relayed = writer.format.has_tls = true;
    for (int i = 0; i < 2; i++)
        write_entry("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", &it, &tls);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(serve_log_flush(&writer), i > 0);
        CHECK(!writer.has_partial_line);
        ssize_t n = read(reader, bytes, sizeof bytes);
        CHECK(n > 3800 && n <= PIPE_BUF);
        CHECK(memchr(bytes + 1, '\n', (size_t)n - 1) == bytes + n - 1);
    }
    CHECK_EQ(losses.lines, 0);
    close(reader);
    stop();
}

/* The disk is full within a line. */
LOG_TEST(a_part_of_a_line_in_a_file_is_taken_back)
{
    struct rlimit limit, full;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(!getrlimit(RLIMIT_FSIZE, &limit));
    write_line("first");
    full = (struct rlimit){.rlim_cur = writer.used + writer.used / 2, .rlim_max = limit.rlim_max};
    write_line("second");
    CHECK(!setrlimit(RLIMIT_FSIZE, &full));
    CHECK(serve_log_flush(&writer));
    CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
    CHECK_EQ(losses.lines, 1);
    write_line("third");
    CHECK(serve_log_flush(&writer));
    contents(path);
    CHECK(strstr(text, "\"first\" 200") && strstr(text, "-\"\n127.0.0.1") &&
          strstr(text, "\"third\" 200") && !strstr(text, "second"));
}

LOG_TEST(a_line_without_memory_is_counted)
{
    write_entry("::1", NULL, NULL);
    CHECK_EQ(losses.lines, 1);
    CHECK(serve_log_flush(&writer));
}

/* A write to the relay's pipe: what somebody else has left there is no part of its first line. */
TEST(a_relayed_write_begins_with_an_end_of_line)
{
    char bytes[200];
    int reader = start_pipe();
    writer.is_relayed = true;
    write_line("GET / HTTP/1.1");
    CHECK(serve_log_flush(&writer));
    CHECK(read(reader, bytes, sizeof bytes) > 50);
    CHECK(!memcmp(bytes, "\n127.0.0.1 - - [", 16));
    CHECK_EQ(writer.used, 0);
    close(reader);
    stop();
}

TEST(the_last_lines_are_dropped_if_nobody_reads)
{
    int reader = start_pipe();
    for (int i = 0; i < 100; i++)
        write_line("GET / HTTP/1.1");
    serve_log_finish(&writer);
    CHECK_EQ(writer.used, 0);
    CHECK(losses.has_given_up);
    CHECK_EQ(count_lines(reader) + losses.lines, 100);
    close(reader);
    stop();
}

LOG_TEST(a_pipe_that_nobody_reads_is_not_waited_for)
{
    CHECK_EQ(mkfifo(moved, 0600), 0);
    CHECK_EQ(serve_access_log_open(moved), -ENXIO);
    CHECK_EQ(serve_access_log_reopen(moved, writer.fd), -ENXIO);
    write_line("still here");
    CHECK(serve_log_flush(&writer));
    CHECK(strstr(contents(path), "still here"));
}

static void count_begun(void *data)
{
    ++*(unsigned *)data;
}

LOG_TEST(the_first_line_in_an_empty_buffer_is_notified)
{
    unsigned begun = 0;
    serve_log_on_first_line(&writer, count_begun, &begun);
    CHECK_EQ(begun, 0);
    write_line("GET /a HTTP/1.1");
    write_line("GET /b HTTP/1.1");
    CHECK_EQ(begun, 1);
    CHECK(serve_log_flush(&writer));
    write_line("GET /c HTTP/1.1");
    CHECK_EQ(begun, 2);
}
