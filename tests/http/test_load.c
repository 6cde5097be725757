/* Loads, operation by operation: which operations are requested, and the effects of their
 * results. */
#include "http/load.h"
#include "tests/test.h"

#include <linux/openat2.h>

#define ROOT 500 /* not a real descriptor: the test provides the results of system calls */
#define FILE_FD 600

static const struct gs_http_site site = {.root_fd = ROOT};
static struct gs_http_options options;
static struct gs_http_file_op op;
static struct gs_http_load *load;

static void start(const char *path, bool is_directory, struct gs_http_page *cached)
{
    gs_http_options_default(&options);
    options.max_cached_file = 100;
    struct gs_http_text text = {path, strlen(path)};
    load = gs_http_load_new(text, is_directory, &site, &options, cached);
    CHECK(load);
}

static void expect(enum gs_http_file_op_kind kind)
{
    op = (struct gs_http_file_op){0};
    CHECK(gs_http_load_next(load, &op));
    CHECK_EQ(op.kind, kind);
}

static void open_file(void)
{
    expect(GS_HTTP_FILE_OPEN);
    gs_http_load_set_result(load, FILE_FD);
}

static void stat_file(mode_t mode, off_t size, int64_t modified)
{
    expect(GS_HTTP_FILE_STAT);
    CHECK_EQ(op.fd, FILE_FD);
    *op.stat = (struct stat){.st_mode = mode, .st_size = size, .st_mtim = {.tv_sec = modified}};
    gs_http_load_set_result(load, 0);
}

static void finish(unsigned status, bool closes)
{
    if (closes) {
        expect(GS_HTTP_FILE_CLOSE);
        CHECK_EQ(op.fd, FILE_FD);
        gs_http_load_set_result(load, 0);
    }
    CHECK(!gs_http_load_next(load, &op));
    CHECK_EQ(load->status, status);
    CHECK_EQ(load->page != NULL, status == 200);
}

static void stop(void)
{
    gs_http_load_free(load);
    load = NULL;
}

#define LOAD_TEST(name_) FIXTURE_TEST(name_, start("a", false, NULL), stop())

TEST(small_file_is_opened_statted_read_and_closed)
{
    start("a/b.html", false, NULL);
    expect(GS_HTTP_FILE_OPEN);
    CHECK_EQ(op.fd, ROOT);
    CHECK_STR(op.path, "a/b.html");
    CHECK(op.flags & O_CLOEXEC && op.flags & O_NONBLOCK && (op.flags & O_ACCMODE) == O_RDONLY);
    CHECK(op.resolve & RESOLVE_BENEATH && op.resolve & RESOLVE_NO_MAGICLINKS);
    gs_http_load_set_result(load, FILE_FD);
    stat_file(S_IFREG, 10, 1);
    expect(GS_HTTP_FILE_READ);
    CHECK_EQ(op.n, 10);
    memcpy(op.bytes, "hello", 5);
    gs_http_load_set_result(load, 5);
    expect(GS_HTTP_FILE_READ);
    CHECK_EQ(op.offset, 5);
    CHECK_EQ(op.n, 5);
    gs_http_load_set_result(load, -EINTR);
    expect(GS_HTTP_FILE_READ);
    memcpy(op.bytes, "world", 5);
    gs_http_load_set_result(load, 5);
    stat_file(S_IFREG, 10, 1);
    finish(200, true);
    CHECK(!memcmp(load->page->body, "helloworld", 10));
    CHECK(gs_http_text_is(load->page->path, "a/b.html"));
    CHECK(gs_http_text_is(load->page->media_type, "text/html; charset=utf-8"));
    stop();
}

TEST(links_out_of_the_root_are_opened_only_if_enabled)
{
    gs_http_options_default(&options);
    options.follow_symlinks = true;
    load = gs_http_load_new(GS_HTTP_TEXT("a"), false, &site, &options, NULL);
    expect(GS_HTTP_FILE_OPEN);
    CHECK(!(op.resolve & RESOLVE_BENEATH));
    CHECK(op.resolve & RESOLVE_NO_MAGICLINKS);
    stop();
}

/* The path is resolved once: a link that is turned meanwhile is refused. */
TEST(a_resolved_path_is_opened_beneath_the_root)
{
    char directory[] = "/tmp/gossamer-load-XXXXXX";
    CHECK(mkdtemp(directory));
    gs_http_options_default(&options);
    int root_fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const struct gs_http_site real = {.root_fd = root_fd};
    load = gs_http_load_new(GS_HTTP_TEXT("a/b"), false, &real, &options, NULL);
    expect(GS_HTTP_FILE_OPEN);
    gs_http_load_set_result(load, -EXDEV);
    expect(GS_HTTP_FILE_OPEN);
    CHECK_STR(op.path, "a/b");
    CHECK_EQ(op.flags, O_PATH | O_CLOEXEC);
    CHECK_EQ(op.resolve, RESOLVE_NO_MAGICLINKS);
    gs_http_load_set_result(load, -ENOENT);
    expect(GS_HTTP_FILE_OPEN);
    CHECK_STR(op.path, "a");
    gs_http_load_set_result(load, open(directory, O_PATH | O_CLOEXEC));
    expect(GS_HTTP_FILE_OPEN);
    CHECK_STR(op.path, "./b");
    CHECK(op.resolve & RESOLVE_BENEATH && op.resolve & RESOLVE_NO_MAGICLINKS);
    gs_http_load_set_result(load, -EXDEV);
    finish(403, false);
    CHECK_EQ(load->refusal, GS_HTTP_REFUSED_LINK);
    stop();
    close(root_fd);
    rmdir(directory);
}

LOAD_TEST(large_file_keeps_its_descriptor)
{
    open_file();
    stat_file(S_IFREG, 101, 1);
    finish(200, false);
    CHECK_EQ(load->page->fd, FILE_FD);
    CHECK(!load->page->body);
    load->page->fd = -1;
}

LOAD_TEST(empty_file_is_not_read)
{
    open_file();
    stat_file(S_IFREG, 0, 1);
    finish(200, true);
}

TEST(directory_loads_its_index_file)
{
    start("sub/", true, NULL);
    expect(GS_HTTP_FILE_OPEN);
    CHECK_STR(op.path, "sub/index.html");
    gs_http_load_set_result(load, FILE_FD);
    stat_file(S_IFREG, 0, 1);
    finish(200, true);
    CHECK(gs_http_text_is(load->page->path, "sub/"));
    CHECK(gs_http_text_is(load->page->media_type, "text/html; charset=utf-8"));
    stop();
    start("", true, NULL);
    expect(GS_HTTP_FILE_OPEN);
    CHECK_STR(op.path, "index.html");
    stop();
}

TEST(directory_without_index_is_forbidden_and_missing_one_not_found)
{
    start("sub/", true, NULL);
    expect(GS_HTTP_FILE_OPEN);
    gs_http_load_set_result(load, -ENOENT);
    expect(GS_HTTP_FILE_OPEN);
    CHECK_STR(op.path, "sub/");
    CHECK(op.flags & O_DIRECTORY);
    gs_http_load_set_result(load, FILE_FD);
    finish(403, true);
    stop();
    start("sub/", true, NULL);
    expect(GS_HTTP_FILE_OPEN);
    gs_http_load_set_result(load, -ENOENT);
    expect(GS_HTTP_FILE_OPEN);
    gs_http_load_set_result(load, -ENOENT);
    finish(404, false);
    stop();
    start("", true, NULL);
    expect(GS_HTTP_FILE_OPEN);
    gs_http_load_set_result(load, -ENOENT);
    expect(GS_HTTP_FILE_OPEN);
    CHECK_STR(op.path, ".");
    stop();
}

TEST(directory_without_its_slash_is_redirected)
{
    start("sub", false, NULL);
    open_file();
    stat_file(S_IFDIR, 4096, 1);
    finish(301, true);
    stop();
}

TEST(special_file_is_forbidden)
{
    static const mode_t modes[] = {S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        start("a", false, NULL);
        open_file();
        stat_file(modes[i], 0, 1);
        finish(403, true);
        stop();
    }
    start("sub/", true, NULL);
    open_file();
    stat_file(S_IFDIR, 0, 1);
    finish(403, true);
    stop();
}

TEST(unchanged_cached_page_is_not_read_again)
{
    struct stat state = {.st_mode = S_IFREG, .st_size = 10, .st_mtim = {.tv_sec = 1}};
    struct gs_http_page *cached =
        gs_http_page_new(GS_HTTP_TEXT("a"), &state, NULL, GS_HTTP_PAGE_IN_MEMORY);
    cached->is_settled = true;
    start("a", false, cached);
    open_file();
    stat_file(S_IFREG, 10, 1);
    finish(200, true);
    CHECK(load->page == cached);
    stop();
    start("a", false, cached);
    open_file();
    stat_file(S_IFREG, 10, 2);
    expect(GS_HTTP_FILE_READ);
    gs_http_load_set_result(load, 10);
    stat_file(S_IFREG, 10, 2);
    finish(200, true);
    CHECK(load->page != cached);
    stop();
    CHECK_EQ(cached->references, 1);
    gs_http_page_unref(cached);
}

TEST(errors_map_to_statuses)
{
    static const struct {
        int err;
        unsigned status;
    } failures[] = {{ENOENT, 404}, {ENOTDIR, 404}, {ENAMETOOLONG, 404}, {ENXIO, 404},
                    {EACCES, 403}, {EPERM, 403},   {ELOOP, 403},        {EXDEV, 403},
                    {EMFILE, 503}, {ENFILE, 503},  {ENOMEM, 503},       {EIO, 500},
                    {ENOSYS, 500}};
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        start("a", false, NULL);
        expect(GS_HTTP_FILE_OPEN);
        gs_http_load_set_result(load, -failures[i].err);
        if (failures[i].err == EXDEV) {
            expect(GS_HTTP_FILE_OPEN);
            gs_http_load_set_result(load, -EXDEV);
        }
        finish(failures[i].status, false);
        stop();
        start("a", false, NULL);
        open_file();
        expect(GS_HTTP_FILE_STAT);
        gs_http_load_set_result(load, -failures[i].err);
        finish(failures[i].status, true);
        stop();
        start("a", false, NULL);
        open_file();
        stat_file(S_IFREG, 10, 1);
        expect(GS_HTTP_FILE_READ);
        gs_http_load_set_result(load, -failures[i].err);
        finish(failures[i].status, true);
        stop();
    }
}

LOAD_TEST(interrupted_open_is_retried_a_limited_number_of_times)
{
    expect(GS_HTTP_FILE_OPEN);
    gs_http_load_set_result(load, -EAGAIN);
    expect(GS_HTTP_FILE_OPEN);
    gs_http_load_set_result(load, -EINTR);
    open_file();
    stat_file(S_IFREG, 0, 1);
    finish(200, true);
    stop();
    start("a", false, NULL);
    int tries = 0;
    while (gs_http_load_next(load, &op)) {
        gs_http_load_set_result(load, -EAGAIN);
        CHECK(++tries < 10);
    }
    finish(503, false);
}

LOAD_TEST(file_that_shrinks_while_it_is_read_is_reread)
{
    open_file();
    stat_file(S_IFREG, 10, 1);
    expect(GS_HTTP_FILE_READ);
    gs_http_load_set_result(load, 4);
    expect(GS_HTTP_FILE_READ);
    gs_http_load_set_result(load, 0);
    stat_file(S_IFREG, 4, 2);
    expect(GS_HTTP_FILE_READ);
    CHECK_EQ(op.offset, 0);
    CHECK_EQ(op.n, 4);
    gs_http_load_set_result(load, 4);
    stat_file(S_IFREG, 4, 2);
    finish(200, true);
    CHECK_EQ(load->page->stat.st_size, 4);
}

/* Otherwise the page would be a mixture of both. */
LOAD_TEST(file_that_changes_while_it_is_read_is_reread)
{
    open_file();
    stat_file(S_IFREG, 4, 1);
    for (int64_t modified = 2; modified < 4; modified++) {
        expect(GS_HTTP_FILE_READ);
        CHECK_EQ(op.n, 4);
        gs_http_load_set_result(load, 4);
        stat_file(S_IFREG, 4, modified);
    }
    expect(GS_HTTP_FILE_READ);
    memcpy(op.bytes, "last", 4);
    gs_http_load_set_result(load, 4);
    stat_file(S_IFREG, 4, 3);
    finish(200, true);
    CHECK_EQ(load->page->stat.st_mtim.tv_sec, 3);
    CHECK(!memcmp(load->page->body, "last", 4));
}

/* The file may have changed twice at the same time of the file system's clock, or may be about to
 * change further. */
TEST(file_that_was_read_right_after_a_change_is_read_again)
{
    struct stat state = {
        .st_mode = S_IFREG, .st_size = 4, .st_mtim = {.tv_sec = 1}, .st_ctim = {.tv_sec = 100}};
    static const struct {
        uint64_t wall_ms;
        bool is_settled;
        uint64_t fresh_ms;
    } reads[] = {{100000, false, 0},  {100003, false, 3},  {101000, false, 500},
                 {103000, true, 500}, {99000, false, 500}, {50000, true, 500}};
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        start("a", false, NULL);
        load->wall_ns = reads[i].wall_ms * GS_MILLISECOND;
        open_file();
        expect(GS_HTTP_FILE_STAT);
        *op.stat = state;
        gs_http_load_set_result(load, 0);
        CHECK_EQ(load->page->is_settled, reads[i].is_settled);
        CHECK_EQ(load->page->fresh_ns, reads[i].fresh_ms * GS_MILLISECOND);
        stop();
    }
    struct gs_http_page *cached = gs_http_page_new(GS_HTTP_TEXT("a"), &state, NULL, 1);
    CHECK(!cached->is_settled);
    start("a", false, cached);
    open_file();
    expect(GS_HTTP_FILE_STAT);
    *op.stat = state;
    gs_http_load_set_result(load, 0);
    expect(GS_HTTP_FILE_READ);
    stop();
    gs_http_page_unref(cached);
}

/* A cached large file is looked at under its descriptor; it is opened again only if it has changed,
 * or if its path may name another file already. */
TEST(cached_large_file_is_checked)
{
    static const struct {
        off_t size;
        int64_t modified;
        bool is_fresh;
        unsigned next; /* 0: the cached page is used */
    } checks[] = {{101, 1, true, 0},
                  {101, 1, false, GS_HTTP_FILE_OPEN},
                  {102, 1, true, GS_HTTP_FILE_OPEN},
                  {101, 2, true, GS_HTTP_FILE_OPEN}};
    struct stat state = {.st_mode = S_IFREG, .st_size = 101, .st_mtim = {.tv_sec = 1}};
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        struct gs_http_page *cached = gs_http_page_new(GS_HTTP_TEXT("a"), &state, NULL, 0);
        cached->fd = FILE_FD;
        start("a", false, cached);
        load->is_fresh = checks[i].is_fresh;
        stat_file(S_IFREG, checks[i].size, checks[i].modified);
        if (checks[i].next)
            expect(checks[i].next);
        else
            finish(200, false);
        CHECK(checks[i].next || load->page == cached);
        stop();
        cached->fd = -1;
        gs_http_page_unref(cached);
    }
}

TEST(file_that_keeps_shrinking_is_served_from_its_descriptor)
{
    start("a", false, NULL);
    open_file();
    for (off_t size = 10; size > 6; size--) {
        stat_file(S_IFREG, size, size);
        expect(GS_HTTP_FILE_READ);
        gs_http_load_set_result(load, 0);
    }
    stat_file(S_IFREG, 6, 1);
    finish(200, false);
    CHECK_EQ(load->page->fd, FILE_FD);
    load->page->fd = -1;
    stop();
    gs_http_load_free(NULL);
}
