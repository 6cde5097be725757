#include "serve/log/error_log.h"

#include "serve/log/access_log.h"
#include "tests/test.h"

#include <gossamer/clock.h>

static struct serve_refusals refusals;
static char written[1 << 16];
static FILE *file;
static int saved;

static void start(const char *level)
{
    refusals = (struct serve_refusals){0};
    CHECK_EQ(serve_error_log_set_level(level), 0);
    fflush(stderr);
    file = tmpfile();
    saved = dup(STDERR_FILENO);
    CHECK(file && saved >= 0);
    dup2(fileno(file), STDERR_FILENO);
}

/* Returns the number of lines that were written. */
static unsigned stop(void)
{
    unsigned lines = 0;
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    written[fread(written, 1, sizeof written - 1, file)] = '\0';
    fclose(file);
    for (const char *c = written; *c; c++)
        lines += *c == '\n';
    return lines;
}

static void report(const char *path, size_t n)
{
    serve_refusals_report(404, GS_HTTP_REFUSED_NOT_FOUND, path, n, &refusals);
}

TEST(a_warning_is_one_line_with_the_name_of_the_program)
{
    start("warn");
    serve_warn("can't do %s: %d", "this", 7);
    CHECK_EQ(stop(), 1);
    CHECK_STR(written, "gossamer serve: can't do this: 7\n");
}

TEST(warnings_are_left_out_below_their_level)
{
    start("error");
    serve_warn("this");
    CHECK_EQ(stop(), 0);
    start("info");
    serve_warn("that");
    CHECK_EQ(stop(), 1);
}

TEST(an_unknown_level_is_refused_and_changes_nothing)
{
    CHECK_EQ(serve_error_log_set_level("warn"), 0);
    CHECK_EQ(serve_error_log_set_level("debug"), -EINVAL);
    CHECK_EQ(serve_error_log_set_level(""), -EINVAL);
    CHECK_EQ(serve_error_log_level(), SERVE_LOG_WARN);
}

TEST(a_very_long_warning_is_still_one_line)
{
    static char text[5000];
    memset(text, 'x', sizeof text - 1);
    start("warn");
    serve_warn("%s", text);
    CHECK_EQ(stop(), 1);
    CHECK(strlen(written) < 1000 && written[strlen(written) - 1] == '\n');
}

TEST(a_refusal_has_its_status_path_and_reason)
{
    start("info");
    report("a/b", 3);
    serve_refusals_report(403, GS_HTTP_REFUSED_PERMISSION, "c", 1, &refusals);
    CHECK_EQ(stop(), 2);
    CHECK_STR(written, "gossamer serve: 404 \"/a/b\": not found\n"
                       "gossamer serve: 403 \"/c\": permission denied\n");
}

TEST(what_could_forge_a_line_is_escaped)
{
    static const char path[] = "a\n\"\\\x1b[2J\x7f\xff\0b";
    start("info");
    report(path, sizeof path - 1);
    CHECK_EQ(stop(), 1);
    CHECK_STR(written,
              "gossamer serve: 404 \"/a\\x0A\\x22\\x5C\\x1B[2J\\x7F\\xFF\\x00b\": not found\n");
}

TEST(the_end_of_a_long_path_is_left_out)
{
    static char path[5000];
    memset(path, '\n', sizeof path);
    start("info");
    report(path, sizeof path);
    CHECK_EQ(stop(), 1);
    CHECK(strlen(written) < 600 && strstr(written, "\\x0A\": not found\n"));
}

TEST(a_text_is_escaped_into_at_most_the_given_bytes)
{
    char out[16];
    CHECK_EQ(serve_log_escape(out, sizeof out, "ab", 2), 2);
    CHECK_EQ(serve_log_escape(out, sizeof out, "", 0), 0);
    for (size_t max = 0; max < sizeof out; max++) {
        memset(out, '#', sizeof out);
        size_t n = serve_log_escape(out, max, "\n\n\n\n\n\n", 6);
        CHECK(n <= max && n % 4 == 0);
        CHECK_EQ(out[max], '#');
    }
}

/* A second that has not passed when the test ends. */
static uint64_t late_second(void)
{
    return gs_clock_now() / GS_SECOND + 1000;
}

TEST(only_some_refusals_of_a_second_are_shown_and_the_others_are_counted)
{
    start("info");
    atomic_store(&refusals.window, late_second() << 32);
    for (int i = 0; i < 100000; i++)
        report("x", 1);
    CHECK_EQ(stop(), SERVE_REFUSALS_PER_SECOND);
    start("info");
    atomic_store(&refusals.suppressed, 99990);
    report("next second", 11);
    report("same second", 11);
    CHECK_EQ(stop(), 3);
    CHECK(strstr(written, "gossamer serve: 99990 more refusals are not shown\n") == written);
    CHECK(strstr(written, "/next second"));
}

TEST(the_rest_is_counted_at_the_end)
{
    start("info");
    serve_refusals_flush(&refusals);
    atomic_store(&refusals.suppressed, 5);
    serve_refusals_flush(&refusals);
    serve_refusals_flush(&refusals);
    CHECK_EQ(stop(), 1);
    CHECK_STR(written, "gossamer serve: 5 more refusals are not shown\n");
}
