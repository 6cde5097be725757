#include "load/load.h"
#include "load/settings.h"

#include "tests/test.h"

#include <gossamer/clock.h>

#include <stdarg.h>

static char *arguments[64];

static int collect(va_list list)
{
    static char name[] = "load";
    int argc = 0;
    arguments[argc++] = name;
    for (char *argument; (argument = va_arg(list, char *));)
        arguments[argc++] = argument;
    arguments[argc] = NULL;
    return argc;
}

static struct load_settings parse(int ignored, ...)
{
    va_list list;
    va_start(list, ignored);
    int argc = collect(list);
    va_end(list);
    struct load_settings settings;
    CHECK_EQ(gs_load_settings_read(argc, arguments, &settings), 0);
    return settings;
}

/* Check that the command exits with status 2 and prints one line to stderr that contains `part`. */
static void check_refused(const char *part, ...)
{
    va_list list;
    va_start(list, part);
    int argc = collect(list);
    va_end(list);
    int pipe_fds[2];
    CHECK_EQ(pipe(pipe_fds), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit files = {.rlim_cur = 100, .rlim_max = 100};
        dup2(pipe_fds[1], STDERR_FILENO);
        setrlimit(RLIMIT_NOFILE, &files);
        _exit(gs_load_main(argc, arguments));
    }
    close(pipe_fds[1]);
    char line[1024] = "";
    size_t n = 0;
    for (ssize_t received; (received = read(pipe_fds[0], line + n, sizeof line - 1 - n)) > 0;)
        n += (size_t)received;
    close(pipe_fds[0]);
    line[n] = '\0';
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 2 || !strstr(line, part))
        TEST_FAIL("status %d: %s", status, line);
    CHECK_EQ(strcspn(line, "\n"), n - 1);
}

TEST(the_default_is_sixteen_connections_for_ten_seconds)
{
    struct load_settings s = parse(0, "http://host/", NULL);
    CHECK_EQ(s.connections, 16);
    CHECK_EQ(s.workers, 1);
    CHECK_EQ(s.processes, 0);
    CHECK(s.rate == 0 && !s.is_poisson && s.max_send_delay_ns == GS_MILLISECOND);
    CHECK_EQ(s.duration_ns, 10 * GS_SECOND);
    CHECK_EQ(s.requests, 0);
    CHECK_EQ(s.requests_per_connection, 0);
    CHECK_STR(s.method, "GET");
    CHECK(s.expect_status == LOAD_ANY && s.expect_length == LOAD_ANY);
    CHECK_EQ(s.url_count, 1);
    CHECK_STR(s.urls[0], "http://host/");
    gs_load_settings_done(&s);
}

TEST(every_option_reaches_its_setting)
{
    struct load_settings s =
        parse(0, "-c", "8", "--think", "20", "--requests-per-connection", "5", "--drop", "1000",
              "--warmup", "2", "-n", "77", "--timeout", "500ms", "--threads", "3",
              "--source-addresses", "9", "--header", "A: b", "--header", "C:d", "--method", "HEAD",
              "--expect-status", "404", "--expect-length", "0", "--json", "-", "--hdr", "h",
              "--hdr-log", "l", "http://a/", "http://a/b", NULL);
    CHECK_EQ(s.connections, 8);
    CHECK_EQ(s.think_ns, 20 * GS_MILLISECOND);
    CHECK_EQ(s.requests_per_connection, 5);
    CHECK_EQ(s.drop, 1000);
    CHECK_EQ(s.warmup_ns, 2 * GS_SECOND);
    CHECK(s.requests == 77 && s.duration_ns == 0);
    CHECK_EQ(s.timeout_ns, 500 * GS_MILLISECOND);
    CHECK(s.workers == 3 && s.source_addresses == 9);
    CHECK_EQ(s.headers.count, 2);
    CHECK_STR(s.headers.items[1], "C:d");
    CHECK(gs_load_is_head(&s));
    CHECK(s.expect_status == 404 && s.expect_length == 0);
    CHECK_STR(s.json, "-");
    CHECK_STR(s.hdr, "h");
    CHECK_STR(s.hdr_log, "l");
    CHECK_EQ(s.url_count, 2);
    gs_load_settings_done(&s);
}

TEST(every_option_of_an_open_loop_reaches_its_setting)
{
    struct load_settings s =
        parse(0, "--rate", "500", "--poisson", "--seed", "9", "--max-send-delay", "5", "--workers",
              "2", "--processes", "4", "http://a/", NULL);
    CHECK(s.rate == 500 && s.is_poisson && s.seed == 9);
    CHECK_EQ(s.max_send_delay_ns, 5 * GS_MILLISECOND);
    CHECK(s.workers == 2 && s.processes == 4);
    gs_load_settings_done(&s);
}

TEST(suffixes_and_fractions_are_understood)
{
    struct load_settings s =
        parse(0, "-c", "1k", "-n", "2M", "-d", "1m30s", "--rate", "0.5", "--timeout", "0",
              "--expect-length", "same", "--body", "x", "http://a/", NULL);
    CHECK(s.connections == 1000 && s.requests == 2000000 && s.duration_ns == 90 * GS_SECOND);
    CHECK(s.rate == 0.5 && s.timeout_ns == GS_NEVER && s.expect_length == LOAD_FIRST);
    CHECK_STR(s.method, "POST");
    gs_load_settings_done(&s);
}

TEST(a_field_connection_close_closes_after_each_request)
{
    static const struct {
        char *field;
        uint64_t requests_per_connection;
    } rows[] = {{"Connection: close", 1},       {"connection:CLOSE", 1},
                {"Connection: a, close ,b", 1}, {"Connection: closed", 0},
                {"Connection: a", 0},           {"X-Connection: close", 0},
                {"Connection: keep-alive", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct load_settings s = parse(0, "-H", rows[i].field, "http://a/", NULL);
        CHECK_EQ(s.requests_per_connection, rows[i].requests_per_connection);
        gs_load_settings_done(&s);
    }
}

/* Check the numbers of processes and workers for these arguments, with this limit of open files. */
static void check_processes(uint64_t processes, uint64_t workers, rlim_t files, ...)
{
    va_list list;
    va_start(list, files);
    int argc = collect(list);
    va_end(list);
    pid_t child = fork();
    if (child == 0) {
        struct load_settings s;
        const struct rlimit limit = {.rlim_cur = files, .rlim_max = files};
        setrlimit(RLIMIT_NOFILE, &limit);
        bool is_expected = !gs_load_settings_read(argc, arguments, &s) &&
                           !gs_load_settings_choose_processes(&s) && s.processes == processes &&
                           s.workers == workers;
        if (!is_expected)
            fprintf(stderr, "%llu processes with %llu workers\n", (unsigned long long)s.processes,
                    (unsigned long long)s.workers);
        _exit(!is_expected);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

TEST(there_are_as_many_processes_as_the_limit_of_open_files_requires)
{
    check_processes(1, 1, 100, "-c", "68", "http://host/", NULL);
    check_processes(2, 1, 100, "-c", "69", "http://host/", NULL);
    check_processes(3, 2, 100, "-c", "180", "-t", "2", "http://host/", NULL);
    check_processes(3, 1, 100, "-c", "5", "--processes", "3", "http://host/", NULL);
}

TEST(there_are_no_more_workers_and_processes_than_connections)
{
    check_processes(1, 2, 1000, "-c", "2", "--threads", "8", "http://host/", NULL);
    check_processes(2, 1, 1000, "-c", "2", "--processes", "3", "-t", "4", "http://host/", NULL);
    check_processes(2, 2, 1000, "-c", "5", "--processes", "2", "-t", "4", "http://host/", NULL);
}

TEST(invalid_options_exit_with_status_2_and_one_line)
{
    check_refused("no URL", NULL);
    check_refused("connections", "-c", "0", "http://127.0.0.1/", NULL);
    check_refused("nonsense", "--nonsense", "http://127.0.0.1/", NULL);
    check_refused("header", "--header", "no colon", "http://127.0.0.1/", NULL);
    check_refused("header", "--header", "A: b\r\nC: d", "http://127.0.0.1/", NULL);
    check_refused("method", "--method", "GE T", "http://127.0.0.1/", NULL);
    check_refused("method", "--method", "CONNECT", "http://127.0.0.1/", NULL);
    check_refused("expect-status", "--expect-status", "ok", "http://127.0.0.1/", NULL);
    check_refused("expect-length", "--expect-length", "-1", "http://127.0.0.1/", NULL);
    check_refused("one server", "http://127.0.0.1/", "http://127.0.0.2/", NULL);
    check_refused("one server", "http://127.0.0.1/", "http://127.0.0.1:81/", NULL);
    check_refused("one server", "http://127.0.0.1:81/", "https://127.0.0.1:81/", NULL);
    check_refused("require an https URL", "--resume", "http://127.0.0.1/", NULL);
    check_refused("mutually exclusive", "--ca", "a", "--insecure", "https://127.0.0.1/", NULL);
    check_refused("requires --cert", "--cert-key", "/nonexistent", "https://127.0.0.1/", NULL);
    check_refused("rate above 0", "--rate", "0", "http://127.0.0.1/", NULL);
    check_refused("cannot read /", "--body", "@/", "http://127.0.0.1/", NULL);
    check_refused("cannot read /nonexistent", "--body", "@/nonexistent", "http://127.0.0.1/", NULL);
    check_refused("mutually exclusive", "--rate", "5", "--think", "1", "http://127.0.0.1/", NULL);
    check_refused("--poisson requires --rate", "--poisson", "http://127.0.0.1/", NULL);
    check_refused("127/8", "--source-addresses", "4", "http://[::1]/", NULL);
}

TEST(more_connections_than_open_files_are_refused_with_the_limit)
{
    check_refused("limit of 100 open files", "-c", "18446744073709551615", "http://127.0.0.1/",
                  NULL);
    check_refused("17408 with 256 processes", "-c", "17409", "http://127.0.0.1/", NULL);
    check_refused("136 with 2 processes", "-c", "137", "--processes", "2", "http://127.0.0.1/",
                  NULL);
    check_refused("allows 0", "-c", "1", "-t", "11", "http://127.0.0.1/", NULL);
}
