#include "tests/http/drive.h"
#include "tests/test.h"

#include <fcntl.h>
#include <gossamer/sys.h>
#include <linux/openat2.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define GET(target_) "GET " target_ " HTTP/1.1\r\nHost: a\r\n\r\n"

static struct drive drive;
static struct drive_answer answer;

static void check_answer(const char *request, unsigned status)
{
    drive_say(&drive, request);
    if (!drive_next(&drive, !strncmp(request, "HEAD", 4), &answer))
        TEST_FAIL("no answer to %s", request);
    if (answer.status != status)
        TEST_FAIL("%u, not %u, to %s", answer.status, status, request);
}

static void check_body(const char *request, const char *body)
{
    check_answer(request, 200);
    CHECK_EQ(answer.body_n, strlen(body));
    CHECK(!memcmp(answer.body, body, answer.body_n));
}

TEST(file_is_answered_with_its_fields)
{
    drive_start(&drive, NULL);
    drive_write(&drive, "page.html", "hello");
    check_body(GET("/page.html"), "hello");
    CHECK(answer.keep_alive);
    CHECK(drive_has(&answer, "Date: " DRIVE_DATE));
    CHECK(drive_has(&answer, "Last-Modified: " DRIVE_MODIFIED));
    CHECK(drive_has(&answer, "Content-Type: text/html; charset=utf-8"));
    CHECK(drive_has(&answer, "Content-Length: 5"));
    CHECK(drive_has(&answer, "Accept-Ranges: bytes"));
    CHECK(drive_has(&answer, "Server: gossamer"));
    CHECK(memmem(answer.head, answer.head_n, "\r\nETag: \"", 9));
    CHECK(!memmem(answer.head, answer.head_n, "\r\nConnection:", 13));
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(head_gives_the_same_head_and_no_body)
{
    drive_start(&drive, NULL);
    drive_write(&drive, "page.html", "hello");
    check_answer(GET("/page.html"), 200);
    struct drive_answer first = answer;
    check_answer("HEAD /page.html HTTP/1.1\r\nHost: a\r\n\r\n", 200);
    CHECK_EQ(answer.head_n, first.head_n);
    CHECK(!memcmp(answer.head, first.head, first.head_n));
    check_answer("HEAD /none HTTP/1.1\r\nHost: a\r\n\r\n", 404);
    CHECK(drive_has(&answer, "Content-Length: 14"));
    CHECK_EQ(drive.read, drive.output_n);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(folder_gives_its_index_file_or_is_refused)
{
    drive_start(&drive, NULL);
    drive_write(&drive, "index.html", "root");
    drive_folder(&drive, "sub");
    drive_write(&drive, "sub/index.html", "below");
    drive_folder(&drive, "bare");
    drive_folder(&drive, "odd");
    drive_folder(&drive, "odd/index.html");
    check_body(GET("/"), "root");
    CHECK(drive_has(&answer, "Content-Type: text/html; charset=utf-8"));
    check_body(GET("/sub/"), "below");
    check_body(GET("/sub/."), "below");
    check_body(GET("/sub/x/.."), "below");
    check_body(GET("//sub//"), "below");
    check_answer(GET("/bare/"), 403);
    check_answer(GET("/odd/"), 403);
    check_answer(GET("/odd/index.html"), 301);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(folder_without_its_slash_is_redirected_with_its_query)
{
    drive_start(&drive, NULL);
    drive_folder(&drive, "sub");
    check_answer(GET("/sub"), 301);
    CHECK(drive_has(&answer, "Location: /sub/"));
    check_answer(GET("/sub?a=b&c"), 301);
    CHECK(drive_has(&answer, "Location: /sub/?a=b&c"));
    check_answer(GET("/sub?"), 301);
    CHECK(drive_has(&answer, "Location: /sub/?"));
    check_answer(GET("http://other.example/sub"), 301);
    CHECK(drive_has(&answer, "Location: /sub/"));
    check_answer("HEAD /sub HTTP/1.1\r\nHost: a\r\n\r\n", 301);
    CHECK(drive_has(&answer, "Location: /sub/"));
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(redirection_never_names_another_host)
{
    drive_start(&drive, NULL);
    drive_folder(&drive, "sub");
    check_answer(GET("//sub"), 301);
    CHECK(drive_has(&answer, "Location: /sub/"));
    check_answer(GET("////sub"), 301);
    CHECK(drive_has(&answer, "Location: /sub/"));
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(what_is_not_there_is_not_found)
{
    drive_start(&drive, NULL);
    drive_write(&drive, "file", "x");
    check_answer(GET("/none"), 404);
    CHECK(answer.keep_alive);
    check_answer(GET("/none/"), 404);
    check_answer(GET("/file/"), 404);
    check_answer(GET("/file/below"), 404);
    static char request[400] = "GET /";
    memset(request + 5, 'n', 300);
    strcpy(request + 305, " HTTP/1.1\r\nHost: a\r\n\r\n");
    check_answer(request, 404);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(paths_that_lead_out_of_the_root_are_bad_requests)
{
    static const char *const targets[] = {"/..",       "/../x",    "/a/../../x",   "/%2e%2e/x",
                                          "/%2E%2e",   "/a%2f..",  "/a\\..\\b",    "/%5c..",
                                          "/a%00.txt", "/%zz",     "/%",           "/%c",
                                          "/a%0d%0ab", "/.%2e/x/", "/x/%2e./../.."};
    drive_start(&drive, NULL);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        char request[100];
        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", targets[i]);
        check_answer(request, 400);
        CHECK(answer.keep_alive);
    }
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(dot_files_are_hidden_except_well_known_ones)
{
    drive_start(&drive, NULL);
    drive_write(&drive, ".secret", "x");
    drive_folder(&drive, ".git");
    drive_write(&drive, ".git/config", "x");
    drive_folder(&drive, ".well-known");
    drive_write(&drive, ".well-known/acme", "token");
    drive_write(&drive, ".well-known/.hidden", "x");
    drive_folder(&drive, "sub");
    drive_folder(&drive, "sub/.well-known");
    drive_write(&drive, "sub/.well-known/x", "x");
    check_answer(GET("/.secret"), 404);
    check_answer(GET("/%2esecret"), 404);
    check_answer(GET("/.git/config"), 404);
    check_answer(GET("/.git/"), 404);
    check_body(GET("/.well-known/acme"), "token");
    check_answer(GET("/.well-known/.hidden"), 404);
    check_answer(GET("/sub/.well-known/x"), 404);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(dot_files_are_served_where_they_are_allowed)
{
    struct gs_http_options options;
    gs_http_options_default(&options);
    options.dotfiles = true;
    drive_start(&drive, &options);
    drive_write(&drive, ".secret", "known");
    check_body(GET("/.secret"), "known");
    check_answer(GET("/../x"), 400);
    CHECK_EQ(drive_stop(&drive), 0);
}

static void make_links(void)
{
    drive_folder(&drive, "sub");
    drive_write(&drive, "sub/file", "inside");
    CHECK_EQ(symlink("sub/file", drive_path(&drive, "inner")), 0);
    CHECK_EQ(symlink("../sub/file", drive_path(&drive, "sub/back")), 0);
    CHECK_EQ(symlink("/etc/passwd", drive_path(&drive, "outer")), 0);
    CHECK_EQ(symlink("/etc", drive_path(&drive, "folder")), 0);
    CHECK_EQ(symlink("../../../../../../../../etc/passwd", drive_path(&drive, "above")), 0);
    CHECK_EQ(symlink("loop", drive_path(&drive, "loop")), 0);
}

/* Without openat2, none is. */
static bool are_links_followed(void)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC};
    long fd = gs_syscall(SYS_openat2, AT_FDCWD, (long)"/", (long)&how, sizeof how, 0, 0);
    return fd >= 0 && !close((int)fd);
}

TEST(symbolic_links_are_followed_inside_the_root_only)
{
    drive_start(&drive, NULL);
    make_links();
    if (are_links_followed()) {
        check_body(GET("/inner"), "inside");
        check_body(GET("/sub/back"), "inside");
    } else {
        check_answer(GET("/inner"), 403);
        check_answer(GET("/sub/back"), 403);
    }
    check_answer(GET("/outer"), 403);
    check_answer(GET("/folder/passwd"), 403);
    check_answer(GET("/folder/"), 403);
    check_answer(GET("/above"), 403);
    check_answer(GET("/loop"), 403);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(symbolic_links_lead_out_where_that_is_wanted)
{
    struct gs_http_options options;
    gs_http_options_default(&options);
    options.follow_symlinks = true;
    drive_start(&drive, &options);
    make_links();
    check_body(GET("/inner"), "inside");
    check_answer(GET("/outer"), 200);
    check_answer(GET("/folder/passwd"), 200);
    check_answer(GET("/above"), 200);
    check_answer(GET("/loop"), 403);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(what_is_not_a_file_is_refused)
{
    drive_start(&drive, NULL);
    CHECK_EQ(mkfifo(drive_path(&drive, "pipe"), 0644), 0);
    check_answer(GET("/pipe"), 403);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, drive_path(&drive, "socket"));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
    check_answer(GET("/socket"), 404);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(options_say_what_is_allowed)
{
    drive_start(&drive, NULL);
    check_answer("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 200);
    CHECK(drive_has(&answer, "Allow: GET, HEAD, OPTIONS"));
    CHECK(drive_has(&answer, "Content-Length: 0"));
    check_answer("OPTIONS /none HTTP/1.1\r\nHost: a\r\n\r\n", 200);
    CHECK(answer.keep_alive);
    CHECK_EQ(drive_stop(&drive), 0);
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
        check_answer(request, 405);
        CHECK(drive_has(&answer, "Allow: GET, HEAD, OPTIONS"));
        CHECK(answer.keep_alive);
    }
    check_answer("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 405);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(request, sizeof request, "%s / HTTP/1.1\r\nHost: a\r\n\r\n", others[i]);
        check_answer(request, 501);
        CHECK(answer.keep_alive);
    }
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(connection_stays_open_as_the_version_and_the_request_say)
{
    drive_start(&drive, NULL);
    drive_write(&drive, "f", "x");
    check_answer("GET /f HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", 200);
    CHECK(drive_has(&answer, "Connection: keep-alive"));
    check_answer("GET /f HTTP/1.1\r\nHost: a\r\nConnection: x, keep-alive\r\n\r\n", 200);
    check_answer("GET /f HTTP/1.9\r\nHost: a\r\n\r\n", 200);
    CHECK(answer.keep_alive);
    check_answer("GET /f HTTP/1.0\r\n\r\n", 200);
    CHECK(drive_has(&answer, "Connection: close"));
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
        check_answer(closing[i], 200);
        CHECK(drive_has(&answer, "Connection: close"));
        CHECK_EQ(gs_http_conn_wants(&drive.conn), GS_HTTP_CLOSE);
    }
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(connection_ends_after_its_last_request)
{
    struct gs_http_options options;
    gs_http_options_default(&options);
    options.requests_most = 2;
    drive_start(&drive, &options);
    check_answer(GET("/a"), 404);
    CHECK(answer.keep_alive);
    check_answer(GET("/b"), 404);
    CHECK(drive_has(&answer, "Connection: close"));
    /* The peer may have sent another already. */
    CHECK(drive.is_shut_down);
    drive_say(&drive, GET("/c"));
    CHECK_EQ(drive.read, drive.output_n);
    drive_end(&drive);
    CHECK_EQ(gs_http_conn_wants(&drive.conn), GS_HTTP_CLOSE);
    CHECK_EQ(drive.counts.requests, 2);
    CHECK_EQ(drive_stop(&drive), 0);
}
