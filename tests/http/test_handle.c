#include "tests/http/drive.h"
#include "tests/test.h"

#include <gossamer/sys.h>

#define GET(target_) "GET " target_ " HTTP/1.1\r\nHost: a\r\n\r\n"

static struct drive drive;
static struct drive_response response;

static void check_response(const char *request, unsigned status)
{
    drive_send(&drive, request);
    if (!drive_next_response(&drive, !strncmp(request, "HEAD", 4), &response))
        TEST_FAIL("no response to %s", request);
    if (response.status != status)
        TEST_FAIL("%u, not %u, to %s", response.status, status, request);
}

static void check_body(const char *request, const char *body)
{
    check_response(request, 200);
    CHECK_EQ(response.body_length, strlen(body));
    CHECK(!memcmp(response.body, body, response.body_length));
}

#define DRIVE_TEST(name_)                                                                          \
    FIXTURE_TEST(name_, drive_start(&drive, NULL), CHECK_EQ(drive_stop(&drive), 0))

DRIVE_TEST(file_is_sent_with_its_fields)
{
    drive_write(&drive, "page.html", "hello");
    check_body(GET("/page.html"), "hello");
    CHECK(response.keep_alive);
    CHECK(drive_has_field(&response, "Date: " DRIVE_DATE));
    CHECK(drive_has_field(&response, "Last-Modified: " DRIVE_MODIFIED));
    CHECK(drive_has_field(&response, "Content-Type: text/html; charset=utf-8"));
    CHECK(drive_has_field(&response, "Content-Length: 5"));
    CHECK(drive_has_field(&response, "Accept-Ranges: bytes"));
    CHECK(drive_has_field(&response, "Server: gossamer"));
    CHECK(memmem(response.head, response.head_length, "\r\nETag: \"", 9));
    CHECK(!memmem(response.head, response.head_length, "\r\nConnection:", 13));
}

DRIVE_TEST(head_gives_the_same_head_and_no_body)
{
    drive_write(&drive, "page.html", "hello");
    check_response(GET("/page.html"), 200);
    struct drive_response first = response;
    check_response("HEAD /page.html HTTP/1.1\r\nHost: a\r\n\r\n", 200);
    CHECK_EQ(response.head_length, first.head_length);
    CHECK(!memcmp(response.head, first.head, first.head_length));
    check_response("HEAD /none HTTP/1.1\r\nHost: a\r\n\r\n", 404);
    CHECK(drive_has_field(&response, "Content-Length: 14"));
    CHECK_EQ(drive.parsed, drive.output_n);
}

DRIVE_TEST(directory_is_served_as_its_index_file_or_refused)
{
    drive_write(&drive, "index.html", "root");
    drive_mkdir(&drive, "sub");
    drive_write(&drive, "sub/index.html", "below");
    drive_mkdir(&drive, "bare");
    drive_mkdir(&drive, "odd");
    drive_mkdir(&drive, "odd/index.html");
    check_body(GET("/"), "root");
    CHECK(drive_has_field(&response, "Content-Type: text/html; charset=utf-8"));
    check_body(GET("/sub/"), "below");
    check_body(GET("/sub/."), "below");
    check_body(GET("/sub/x/.."), "below");
    check_body(GET("//sub//"), "below");
    check_response(GET("/bare/"), 403);
    check_response(GET("/odd/"), 403);
    check_response(GET("/odd/index.html"), 301);
}

DRIVE_TEST(directory_without_its_slash_is_redirected_with_its_query)
{
    drive_mkdir(&drive, "sub");
    check_response(GET("/sub"), 301);
    CHECK(drive_has_field(&response, "Location: /sub/"));
    check_response(GET("/sub?a=b&c"), 301);
    CHECK(drive_has_field(&response, "Location: /sub/?a=b&c"));
    check_response(GET("/sub?"), 301);
    CHECK(drive_has_field(&response, "Location: /sub/?"));
    check_response(GET("http://other.example/sub"), 301);
    CHECK(drive_has_field(&response, "Location: /sub/"));
    check_response("HEAD /sub HTTP/1.1\r\nHost: a\r\n\r\n", 301);
    CHECK(drive_has_field(&response, "Location: /sub/"));
}

DRIVE_TEST(redirection_never_names_another_host)
{
    drive_mkdir(&drive, "sub");
    check_response(GET("//sub"), 301);
    CHECK(drive_has_field(&response, "Location: /sub/"));
    check_response(GET("////sub"), 301);
    CHECK(drive_has_field(&response, "Location: /sub/"));
}

DRIVE_TEST(missing_file_is_not_found)
{
    drive_write(&drive, "file", "x");
    check_response(GET("/none"), 404);
    CHECK(response.keep_alive);
    check_response(GET("/none/"), 404);
    check_response(GET("/file/"), 404);
    check_response(GET("/file/below"), 404);
    static char request[400] = "GET /";
    memset(request + 5, 'n', 300);
    strcpy(request + 305, " HTTP/1.1\r\nHost: a\r\n\r\n");
    check_response(request, 404);
}

TEST(paths_out_of_the_root_are_bad_requests)
{
    static const char *const targets[] = {"/..",       "/../x",    "/a/../../x",   "/%2e%2e/x",
                                          "/%2E%2e",   "/a%2f..",  "/a\\..\\b",    "/%5c..",
                                          "/a%00.txt", "/%zz",     "/%",           "/%c",
                                          "/a%0d%0ab", "/.%2e/x/", "/x/%2e./../.."};
    drive_start(&drive, NULL);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        char request[100];
        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", targets[i]);
        check_response(request, 400);
        CHECK(response.keep_alive);
    }
    CHECK_EQ(drive_stop(&drive), 0);
}

DRIVE_TEST(dot_files_are_hidden_except_well_known_ones)
{
    drive_write(&drive, ".secret", "x");
    drive_mkdir(&drive, ".git");
    drive_write(&drive, ".git/config", "x");
    drive_mkdir(&drive, ".well-known");
    drive_write(&drive, ".well-known/acme", "token");
    drive_write(&drive, ".well-known/.hidden", "x");
    drive_mkdir(&drive, "sub");
    drive_mkdir(&drive, "sub/.well-known");
    drive_write(&drive, "sub/.well-known/x", "x");
    check_response(GET("/.secret"), 404);
    check_response(GET("/%2esecret"), 404);
    check_response(GET("/.git/config"), 404);
    check_response(GET("/.git/"), 404);
    check_body(GET("/.well-known/acme"), "token");
    check_response(GET("/.well-known/.hidden"), 404);
    check_response(GET("/sub/.well-known/x"), 404);
}

TEST(dot_files_are_served_if_enabled)
{
    struct gs_http_options options;
    gs_http_options_default(&options);
    options.dotfiles = true;
    drive_start(&drive, &options);
    drive_write(&drive, ".secret", "known");
    check_body(GET("/.secret"), "known");
    check_response(GET("/../x"), 400);
    CHECK_EQ(drive_stop(&drive), 0);
}

static void make_links(void)
{
    drive_mkdir(&drive, "sub");
    drive_write(&drive, "sub/file", "inside");
    CHECK_EQ(symlink("sub/file", drive_path(&drive, "inner")), 0);
    CHECK_EQ(symlink("../sub/file", drive_path(&drive, "sub/back")), 0);
    CHECK_EQ(symlink("/etc/passwd", drive_path(&drive, "outer")), 0);
    CHECK_EQ(symlink("/etc", drive_path(&drive, "folder")), 0);
    CHECK_EQ(symlink("../../../../../../../../etc/passwd", drive_path(&drive, "above")), 0);
    CHECK_EQ(symlink("loop", drive_path(&drive, "loop")), 0);
}

static void make_absolute_link(const char *name, const char *target)
{
    char path[4096];
    CHECK(strlen(drive_path(&drive, target)) < sizeof path);
    strcpy(path, drive_path(&drive, target));
    CHECK_EQ(symlink(path, drive_path(&drive, name)), 0);
}

static void check_links(void)
{
    drive_start(&drive, NULL);
    make_links();
    make_absolute_link("absolute", "sub/file");
    make_absolute_link("directory", "sub");
    make_absolute_link("self", "");
    make_absolute_link("dangling", "none");
    check_body(GET("/inner"), "inside");
    check_body(GET("/sub/back"), "inside");
    check_body(GET("/absolute"), "inside");
    check_body(GET("/directory/file"), "inside");
    check_body(GET("/self/sub/file"), "inside");
    check_body(GET("/self/self/absolute"), "inside");
    check_response(GET("/directory"), 301);
    check_response(GET("/directory/"), 403);
    check_response(GET("/directory/none"), 404);
    check_response(GET("/directory/none/below"), 404);
    check_response(GET("/directory/file/"), 404);
    check_response(GET("/dangling"), 403);
    check_response(GET("/outer"), 403);
    check_response(GET("/folder/passwd"), 403);
    check_response(GET("/folder/none"), 403);
    check_response(GET("/folder/none/below"), 403);
    check_response(GET("/folder/passwd/below"), 403);
    check_response(GET("/folder"), 403);
    check_response(GET("/folder/"), 403);
    check_response(GET("/above"), 403);
    check_response(GET("/loop"), 403);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(symbolic_links_are_followed_inside_the_root_only)
{
    check_links();
}

static long lack_openat2(long number, void *data)
{
    (void)data;
    return number == SYS_openat2 ? -ENOSYS : 0;
}

TEST(the_same_links_are_followed_by_kernels_without_openat2)
{
    gs_sys_set_fault(lack_openat2, NULL);
    check_links();
    gs_sys_set_fault(NULL, NULL);
}

TEST(symbolic_links_out_of_the_root_are_followed_if_enabled)
{
    struct gs_http_options options;
    gs_http_options_default(&options);
    options.follow_symlinks = true;
    drive_start(&drive, &options);
    make_links();
    check_body(GET("/inner"), "inside");
    check_response(GET("/outer"), 200);
    check_response(GET("/folder/passwd"), 200);
    check_response(GET("/above"), 200);
    check_response(GET("/loop"), 403);
    CHECK_EQ(drive_stop(&drive), 0);
}

DRIVE_TEST(special_files_are_refused)
{
    CHECK_EQ(mkfifo(drive_path(&drive, "pipe"), 0644), 0);
    check_response(GET("/pipe"), 403);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, drive_path(&drive, "socket"));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
    check_response(GET("/socket"), 404);
}

DRIVE_TEST(options_returns_the_allowed_methods)
{
    check_response("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 200);
    CHECK(drive_has_field(&response, "Allow: GET, HEAD, OPTIONS"));
    CHECK(drive_has_field(&response, "Content-Length: 0"));
    check_response("OPTIONS /none HTTP/1.1\r\nHost: a\r\n\r\n", 200);
    CHECK(response.keep_alive);
}

TEST(known_methods_are_not_allowed_and_others_not_implemented)
{
    static const char *const known[] = {"POST", "PUT", "DELETE", "PATCH", "TRACE"};
    static const char *const others[] = {"get",      "GETS", "BREW",
                                         "PROPFIND", "x",    "G!#$%&'*+-.^_`|~"};
    char request[100];
    drive_start(&drive, NULL);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        snprintf(request, sizeof request, "%s / HTTP/1.1\r\nHost: a\r\n\r\n", known[i]);
        check_response(request, 405);
        CHECK(drive_has_field(&response, "Allow: GET, HEAD, OPTIONS"));
        CHECK(response.keep_alive);
    }
    check_response("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 405);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(request, sizeof request, "%s / HTTP/1.1\r\nHost: a\r\n\r\n", others[i]);
        check_response(request, 501);
        CHECK(response.keep_alive);
    }
    CHECK_EQ(drive_stop(&drive), 0);
}

DRIVE_TEST(keep_alive_depends_on_the_version_and_the_request)
{
    drive_write(&drive, "f", "x");
    check_response("GET /f HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", 200);
    CHECK(drive_has_field(&response, "Connection: keep-alive"));
    check_response("GET /f HTTP/1.1\r\nHost: a\r\nConnection: x, keep-alive\r\n\r\n", 200);
    check_response("GET /f HTTP/1.9\r\nHost: a\r\n\r\n", 200);
    CHECK(response.keep_alive);
    check_response("GET /f HTTP/1.0\r\n\r\n", 200);
    CHECK(drive_has_field(&response, "Connection: close"));
    CHECK_EQ(gs_http_conn_wants(&drive.conn), GS_HTTP_CLOSE);
    static const char *const closing[] = {
        "GET /f HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /f HTTP/1.1\r\nHost: a\r\nConnection: foo, CLOSE\r\n\r\n",
        "GET /f HTTP/1.1\r\nHost: a\r\nConnection: foo\r\nConnection: close\r\n\r\n",
        "GET /f HTTP/1.1\r\nHost: a\r\nConnection: close, keep-alive\r\n\r\n",
        "GET /f HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n",
        "HEAD /f HTTP/1.0\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof closing / sizeof *closing; i++) {
        drive_reopen(&drive);
        check_response(closing[i], 200);
        CHECK(drive_has_field(&response, "Connection: close"));
        CHECK_EQ(gs_http_conn_wants(&drive.conn), GS_HTTP_CLOSE);
    }
}

TEST(connection_closes_after_its_maximum_of_requests)
{
    struct gs_http_options options;
    gs_http_options_default(&options);
    options.max_requests = 2;
    drive_start(&drive, &options);
    check_response(GET("/a"), 404);
    CHECK(response.keep_alive);
    check_response(GET("/b"), 404);
    CHECK(drive_has_field(&response, "Connection: close"));
    /* The client may have sent another request already. */
    CHECK(drive.is_shut_down);
    drive_send(&drive, GET("/c"));
    CHECK_EQ(drive.parsed, drive.output_n);
    drive_send_eof(&drive);
    CHECK_EQ(gs_http_conn_wants(&drive.conn), GS_HTTP_CLOSE);
    CHECK_EQ(drive.counts.requests, 2);
    CHECK_EQ(drive_stop(&drive), 0);
}
