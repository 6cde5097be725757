/* Loads of directories that are listed, with a real directory. */
#include "http/listing.h"
#include "http/load.h"
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static char root[] = "/tmp/gossamer-list-XXXXXX";
static struct gs_http_site site;
static struct gs_http_load *load;

static void touch(const char *name)
{
    int fd = openat(site.root_fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    close(fd);
}

static void make_root(enum gs_http_listing_format format)
{
    memset(root + strlen(root) - 6, 'X', 6); /* the one before is gone */
    CHECK(mkdtemp(root));
    site.root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    site.listing = (uint8_t)format;
    CHECK(site.root_fd >= 0);
    touch("a");
}

static void remove_root(void)
{
    unlinkat(site.root_fd, "a", 0);
    unlinkat(site.root_fd, "index.html", 0);
    close(site.root_fd);
    rmdir(root);
}

static void start(const char *path)
{
    struct gs_http_options options;
    gs_http_options_default(&options);
    options.fields = "X: y\r\n";
    load = gs_http_load_new((struct gs_http_text){path, strlen(path)}, true, &site, &options, NULL);
    CHECK(load);
    load->listing = site.listing;
    load->wall_ns = UINT64_C(784111777) * GS_SECOND;
}

static bool head_has(const char *text)
{
    return memmem(load->page->head.bytes, load->page->head.n, text, strlen(text));
}

TEST(a_directory_without_an_index_file_is_listed)
{
    make_root(GS_HTTP_LISTING_HTML);
    start("");
    gs_http_load_run(load);
    CHECK_EQ(load->status, 200);
    CHECK(load->page->is_listing);
    CHECK(head_has("X: y\r\nContent-Type: text/html; charset=utf-8\r\n"));
    CHECK(head_has("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nETag: \""));
    CHECK(head_has("Cache-Control: no-cache\r\nVary: Accept\r\n\r\n"));
    CHECK(memmem(load->page->body, (size_t)load->page->stat.st_size, ">a</a>", 6));
    CHECK_EQ(load->page->body, load->page->head.bytes + load->page->head.n);
    gs_http_load_free(load);
    touch("index.html");
    start("");
    gs_http_load_run(load);
    CHECK_EQ(load->status, 200);
    CHECK(!load->page->is_listing);
    gs_http_load_free(load);
    remove_root();
}

TEST(a_listing_as_json_is_not_negotiated)
{
    make_root(GS_HTTP_LISTING_JSON);
    start("");
    gs_http_load_run(load);
    CHECK_EQ(load->status, 200);
    CHECK(head_has("Content-Type: application/json\r\n"));
    CHECK(!head_has("Vary"));
    CHECK(memmem(load->page->body, (size_t)load->page->stat.st_size, "[\n{\"name\":\"a\"", 13));
    gs_http_load_free(load);
    remove_root();
}

TEST(the_same_listing_has_the_same_tag)
{
    char tag[100];
    make_root(GS_HTTP_LISTING_HTML);
    start("");
    gs_http_load_run(load);
    struct gs_http_text first = load->page->etag;
    CHECK(first.n < sizeof tag);
    memcpy(tag, first.bytes, first.n);
    gs_http_load_free(load);
    start("");
    gs_http_load_run(load);
    CHECK(load->page->etag.n == first.n && !memcmp(load->page->etag.bytes, tag, first.n));
    gs_http_load_free(load);
    touch("index.htm");
    start("");
    gs_http_load_run(load);
    CHECK(load->page->etag.n != first.n || memcmp(load->page->etag.bytes, tag, first.n) != 0);
    gs_http_load_free(load);
    unlinkat(site.root_fd, "index.htm", 0);
    remove_root();
}

/* Returns whether the load waits for its listing. */
static bool run_to_the_listing(struct gs_http_file_op *ret_op)
{
    while (gs_http_load_next(load, ret_op)) {
        if (ret_op->kind == GS_HTTP_FILE_WORK)
            return true;
        CHECK_EQ(ret_op->kind, GS_HTTP_FILE_OPEN);
        int fd = openat(ret_op->fd, ret_op->path, (int)ret_op->flags);
        gs_http_load_set_result(load, fd < 0 ? -errno : fd);
    }
    return false;
}

TEST(a_listing_that_cannot_be_made_is_an_error)
{
    static const struct {
        int err;
        unsigned status;
    } cases[] = {{-EAGAIN, 503}, {-ENOMEM, 503}, {-E2BIG, 403}, {-ENOENT, 404}, {-EIO, 500}};
    struct gs_http_file_op op;
    make_root(GS_HTTP_LISTING_HTML);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        start("");
        CHECK(run_to_the_listing(&op));
        gs_http_load_set_result(load, cases[i].err);
        gs_http_load_run(load);
        CHECK_EQ(load->status, cases[i].status);
        CHECK(!load->page);
        gs_http_load_free(load);
    }
    start("");
    load->listing = GS_HTTP_LISTING_OFF;
    gs_http_load_run(load);
    CHECK_EQ(load->status, 403);
    CHECK_EQ(load->refusal, GS_HTTP_REFUSED_NO_INDEX);
    gs_http_load_free(load);
    remove_root();
}
