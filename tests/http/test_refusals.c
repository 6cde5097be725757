/* Why files are refused with 403 or 404. */
#include "tests/http/drive.h"
#include "tests/test.h"

static struct drive drive;
static char reported[4096];

static void report(unsigned status, enum gs_http_refusal reason, const char *path, size_t n,
                   void *data)
{
    CHECK_EQ(data == &drive, true);
    size_t used = strlen(reported);
    snprintf(reported + used, sizeof reported - used, "%u %d [%.*s]\n", status, reason, (int)n,
             path);
}

static void start(int64_t (*run_op)(const struct gs_http_file_op *op))
{
    struct gs_http_options options;
    gs_http_options_default(&options);
    options.refused = report;
    options.refused_data = &drive;
    drive_start(&drive, &options);
    drive.run_op = run_op;
    reported[0] = '\0';
}

static void check_refused(const char *path, unsigned status, enum gs_http_refusal reason,
                          const char *reported_path)
{
    char request[256], expected[256];
    struct drive_response response;
    reported[0] = '\0';
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path);
    drive_send(&drive, request);
    CHECK(drive_next_response(&drive, false, &response));
    CHECK_EQ(response.status, status);
    snprintf(expected, sizeof expected, "%u %d [%s]\n", status, reason, reported_path);
    CHECK_STR(reported, expected);
}

TEST(the_reason_is_reported_with_the_decoded_path)
{
    start(NULL);
    drive_mkdir(&drive, "empty");
    drive_write(&drive, "file", "text");
    CHECK_EQ(symlink("/etc/passwd", drive_path(&drive, "out")), 0);
    CHECK_EQ(symlink("loop", drive_path(&drive, "loop")), 0);
    CHECK_EQ(mkfifo(drive_path(&drive, "pipe"), 0600), 0);
    check_refused("/none", 404, GS_HTTP_REFUSED_NOT_FOUND, "none");
    check_refused("/a/../x%20y%22", 404, GS_HTTP_REFUSED_NOT_FOUND, "x y\"");
    check_refused("/file/below", 404, GS_HTTP_REFUSED_NOT_FOUND, "file/below");
    check_refused("/none/", 404, GS_HTTP_REFUSED_NOT_FOUND, "none/");
    check_refused("/.git/config", 404, GS_HTTP_REFUSED_DOT_FILE, ".git/config");
    check_refused("/out", 403, GS_HTTP_REFUSED_LINK, "out");
    check_refused("/loop", 403, GS_HTTP_REFUSED_LINK_LOOP, "loop");
    check_refused("/empty/", 403, GS_HTTP_REFUSED_NO_INDEX, "empty/");
    check_refused("/pipe", 403, GS_HTTP_REFUSED_KIND, "pipe");
    CHECK_EQ(drive_stop(&drive), 0);
}

static void check_malformed(const char *request, enum gs_http_refusal reason, const char *line)
{
    char expected[256];
    struct drive_response response;
    start(NULL);
    drive_send(&drive, request);
    CHECK(drive_next_response(&drive, false, &response));
    CHECK_EQ(response.status, 400);
    snprintf(expected, sizeof expected, "400 %d [%s]\n", reason, line);
    CHECK_STR(reported, expected);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(malformed_requests_are_reported_with_their_line)
{
    check_malformed("GET /a\n", GS_HTTP_REFUSED_BYTES, "GET /a");
    check_malformed("\x16\x03\x01", GS_HTTP_REFUSED_BYTES, "\x16\x03\x01");
    check_malformed("\n", GS_HTTP_REFUSED_BYTES, "");
    check_malformed("GET a HTTP/1.1\r\n\r\n", GS_HTTP_REFUSED_LINE, "GET a HTTP/1.1");
    check_malformed("GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n", GS_HTTP_REFUSED_PATH,
                    "GET /%00 HTTP/1.1");
    check_malformed("GET / HTTP/1.1\r\nA : b\r\n\r\n", GS_HTTP_REFUSED_FIELD, "GET / HTTP/1.1");
    check_malformed("GET / HTTP/1.1\r\n\r\n", GS_HTTP_REFUSED_HOST, "GET / HTTP/1.1");
    check_malformed("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
                    GS_HTTP_REFUSED_FRAMING, "GET / HTTP/1.1");
    check_malformed("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx",
                    GS_HTTP_REFUSED_BODY, "GET / HTTP/1.1");
}

static int64_t open_result;

static int64_t fail_open(const struct gs_http_file_op *op)
{
    return op->kind == GS_HTTP_FILE_OPEN ? open_result : -EIO;
}

TEST(each_error_of_the_kernel_has_a_reason)
{
    static const struct {
        int err;
        unsigned status;
        enum gs_http_refusal reason;
    } rows[] = {
        {ENOENT, 404, GS_HTTP_REFUSED_NOT_FOUND},       {ENOTDIR, 404, GS_HTTP_REFUSED_NOT_FOUND},
        {ENAMETOOLONG, 404, GS_HTTP_REFUSED_NOT_FOUND}, {ENXIO, 404, GS_HTTP_REFUSED_KIND},
        {EACCES, 403, GS_HTTP_REFUSED_PERMISSION},      {EPERM, 403, GS_HTTP_REFUSED_PERMISSION},
        {ELOOP, 403, GS_HTTP_REFUSED_LINK_LOOP},        {EXDEV, 403, GS_HTTP_REFUSED_LINK},
    };
    start(fail_open);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        open_result = -rows[i].err;
        check_refused("/file", rows[i].status, rows[i].reason, "file");
    }
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(other_responses_are_not_reported)
{
    start(NULL);
    drive_write(&drive, "file", "text");
    drive_mkdir(&drive, "folder");
    drive_send(&drive, "GET /file HTTP/1.1\r\nHost: a\r\n\r\n"
                       "GET /folder HTTP/1.1\r\nHost: a\r\n\r\n"
                       "PUT /none HTTP/1.1\r\nHost: a\r\n\r\n"
                       "BREW /none HTTP/1.1\r\nHost: a\r\n\r\n");
    struct drive_response response;
    for (unsigned i = 0; i < 4; i++) {
        static const unsigned statuses[] = {200, 301, 405, 501};
        CHECK(drive_next_response(&drive, false, &response));
        CHECK_EQ(response.status, statuses[i]);
    }
    CHECK_STR(reported, "");
    CHECK_EQ(drive_stop(&drive), 0);
    start(fail_open);
    open_result = -EMFILE;
    drive_send(&drive, "GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(drive_next_response(&drive, false, &response));
    CHECK_EQ(response.status, 503);
    CHECK_STR(reported, "");
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(pipelined_requests_that_had_to_wait_for_room_are_reported_once)
{
    struct drive_response response;
    start(NULL);
    for (int i = 0; i < 40; i++)
        drive_send(&drive, "GET /.x HTTP/1.1\r\nHost: a\r\n\r\nGET /y HTTP/1.1\r\nHost: a\r\n\r\n");
    unsigned responses = 0, lines = 0;
    while (drive_next_response(&drive, false, &response))
        responses += response.status == 404;
    CHECK_EQ(responses, 80);
    for (const char *c = reported; *c; c++)
        lines += *c == '\n';
    CHECK_EQ(lines, 80);
    CHECK_EQ(drive_stop(&drive), 0);
}
