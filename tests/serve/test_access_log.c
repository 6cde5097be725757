#include "serve/access_log.h"

#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <sys/syscall.h>
#include <unistd.h>

static char folder[32];
static char path[64], moved[64];
static struct serve_log_writer writer;
static char text[1 << 20];

static void start(void)
{
    strcpy(folder, "/tmp/gossamer-log-XXXXXX");
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/log", folder);
    snprintf(moved, sizeof moved, "%s/moved", folder);
    memset(&writer, 0, sizeof writer);
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

static struct gs_http_log_entry entry(const char *line)
{
    return (struct gs_http_log_entry){
        .request_line = line, .status = 200, .body_bytes = 6, .received = 1795262400};
}

static void write_line(const char *line)
{
    struct gs_http_log_entry it = entry(line);
    serve_log_write(&writer, "127.0.0.1", &it);
}

TEST(a_line_is_in_the_combined_format)
{
    start();
    setenv("TZ", "CET-1", 1);
    struct gs_http_log_entry it = entry("GET / HTTP/1.1");
    it.referer = "http://a/b";
    it.user_agent = "test/1 (x)";
    serve_log_write(&writer, "::1", &it);
    serve_log_flush(&writer);
    CHECK_STR(contents(path), "::1 - - [21/Nov/2026:13:00:00 +0100] \"GET / HTTP/1.1\" 200 6 "
                              "\"http://a/b\" \"test/1 (x)\"\n");
    stop();
}

TEST(what_a_request_did_not_have_is_a_dash)
{
    start();
    write_line(NULL);
    serve_log_flush(&writer);
    CHECK(strstr(contents(path), "] \"-\" 200 6 \"-\" \"-\"\n"));
    stop();
}

TEST(what_could_end_a_text_or_a_line_is_escaped)
{
    start();
    write_line("a\"b\\c\nd\re\tf\x7f\x80\xff~ ");
    serve_log_flush(&writer);
    CHECK(strstr(contents(path), "\"a\\x22b\\x5Cc\\x0Ad\\x0De\\x09f\\x7F\\x80\\xFF~ \" 200"));
    stop();
}

TEST(nothing_is_written_before_it_is_flushed_or_room_lacks)
{
    start();
    write_line("GET / HTTP/1.1");
    CHECK_STR(contents(path), "");
    serve_log_flush(&writer);
    CHECK(*contents(path));
    CHECK_EQ(writer.used, 0);
    stop();
}

TEST(texts_of_any_length_leave_lines_whole)
{
    static char long_text[20000];
    start();
    memset(long_text, '"', sizeof long_text - 1);
    struct gs_http_log_entry it = entry(long_text);
    it.referer = it.user_agent = long_text;
    for (int i = 0; i < 10; i++)
        serve_log_write(&writer, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", &it);
    serve_log_flush(&writer);
    int lines = 0;
    for (const char *at = contents(path); *at; at = strchr(at, '\n') + 1, lines++) {
        CHECK(strncmp(at, "ffff:", 5) == 0);
        const char *end = strchr(at, '\n');
        CHECK(end && end[-1] == '"');
    }
    CHECK_EQ(lines, 10);
    stop();
}

TEST(many_lines_are_written_in_order)
{
    start();
    char line[32];
    for (int i = 0; i < 1000; i++) {
        snprintf(line, sizeof line, "line-%d.", i);
        write_line(line);
    }
    serve_log_flush(&writer);
    const char *at = contents(path);
    for (int i = 0; i < 1000; i++) {
        snprintf(line, sizeof line, "line-%d.", i);
        at = strstr(at, line);
        CHECK(at);
    }
    stop();
}

TEST(after_a_rename_the_log_goes_on_in_a_new_file)
{
    start();
    int fd = writer.fd;
    write_line("first");
    serve_log_flush(&writer);
    CHECK_EQ(rename(path, moved), 0);
    write_line("second");
    serve_log_flush(&writer);
    CHECK_EQ(serve_access_log_reopen(path, fd), 0);
    write_line("third");
    serve_log_flush(&writer);
    CHECK(strstr(contents(moved), "second"));
    CHECK(!strstr(text, "third"));
    CHECK(strstr(contents(path), "third"));
    CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
    stop();
}

TEST(a_log_that_cannot_be_reopened_stays)
{
    start();
    CHECK_EQ(serve_access_log_reopen("/no/such/folder/log", writer.fd), -ENOENT);
    write_line("still here");
    serve_log_flush(&writer);
    CHECK(strstr(contents(path), "still here"));
    stop();
}

TEST(a_log_that_cannot_be_opened_says_why)
{
    CHECK_EQ(serve_access_log_open("/no/such/folder/log"), -ENOENT);
    CHECK_EQ(serve_access_log_open("/tmp"), -EISDIR);
    CHECK_EQ(serve_access_log_open("-"), STDOUT_FILENO);
    CHECK_EQ(serve_access_log_reopen("-", STDOUT_FILENO), 0);
}

/* The writes fail that the bits of *data name, the lowest first. */
static long fail_writes(long number, void *data)
{
    unsigned *bits = data;
    if (number != SYS_write)
        return 0;
    bool fails = *bits & 1;
    *bits >>= 1;
    return fails ? -EINTR : 0;
}

TEST(an_interrupted_write_is_taken_up_again)
{
    start();
    unsigned bits = 3;
    write_line("GET / HTTP/1.1");
    gs_sys_set_fault(fail_writes, &bits);
    serve_log_flush(&writer);
    gs_sys_set_fault(NULL, NULL);
    CHECK_EQ(bits, 0);
    CHECK(strstr(contents(path), "GET / HTTP/1.1"));
    stop();
}

TEST(what_a_full_disk_does_not_take_is_dropped)
{
    start();
    int fd = writer.fd;
    writer.fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    CHECK(writer.fd >= 0);
    fflush(stderr);
    for (int i = 0; i < 1000; i++)
        write_line("lost");
    serve_log_flush(&writer);
    CHECK(writer.failed);
    CHECK_EQ(writer.used, 0);
    close(writer.fd);
    writer.fd = fd;
    write_line("kept");
    serve_log_flush(&writer);
    CHECK(!writer.failed);
    CHECK(strstr(contents(path), "kept"));
    CHECK(!strstr(text, "lost"));
    stop();
}

static void count_begun(void *data)
{
    ++*(unsigned *)data;
}

TEST(it_is_told_when_a_line_comes_into_the_empty_buffer)
{
    unsigned begun = 0;
    start();
    serve_log_on_begun(&writer, count_begun, &begun);
    CHECK_EQ(begun, 0);
    write_line("GET /a HTTP/1.1");
    write_line("GET /b HTTP/1.1");
    CHECK_EQ(begun, 1);
    serve_log_flush(&writer);
    write_line("GET /c HTTP/1.1");
    CHECK_EQ(begun, 2);
    stop();
}
