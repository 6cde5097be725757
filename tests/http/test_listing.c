#include "http/listing.h"

#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static struct gs_http_listing listing;

static void add(const char *name, bool is_directory)
{
    const struct gs_http_listing_entry entry = {
        .name = (char *)name, .modified = 784111777, .size = 1234, .is_directory = is_directory};
    CHECK_EQ(gs_http_listing_add(&listing, &entry), 0);
}

static const char *write_page(enum gs_http_listing_format format, const char *path)
{
    static char page[16384];
    size_t n = gs_http_listing_write(&listing, path, format, NULL);
    CHECK(n < sizeof page);
    CHECK_EQ(gs_http_listing_write(&listing, path, format, page), n);
    page[n] = '\0';
    return page;
}

static void done(void)
{
    gs_http_listing_done(&listing);
    CHECK(!listing.entries);
}

TEST(entries_are_sorted_as_people_do)
{
    static const char *const sorted[] = {
        "a", "B1",      "b2", "b10", "b10a", "C", "c01", "c1x", "c99999999999999999999999",
        "d", "\xc3\xa4"};
    const size_t count = sizeof sorted / sizeof *sorted;
    for (size_t i = 0; i < count; i++)
        add(sorted[(i * 7 + 3) % count], false);
    add("zoo", true);
    gs_http_listing_sort(&listing);
    CHECK_STR(listing.entries[0].name, "zoo");
    for (size_t i = 0; i < count; i++)
        CHECK_STR(listing.entries[i + 1].name, sorted[i]);
    done();
}

TEST(an_empty_directory_has_a_page)
{
    gs_http_listing_sort(&listing);
    CHECK_STR(write_page(GS_HTTP_LISTING_JSON, ""), "[]\n");
    const char *page = write_page(GS_HTTP_LISTING_HTML, "");
    CHECK(strstr(page, "<title>/</title>"));
    CHECK(!strstr(page, "../"));
    CHECK(strstr(page, "0 directories, 0 files"));
    done();
}

TEST(names_cannot_be_taken_for_markup_or_for_urls)
{
    add("<script>\"'&", false);
    add("javascript:x", false);
    add("100% #1?", true);
    add("\xff\xc3", false);
    add("\xc3\xa4 b", false);
    const char *page = write_page(GS_HTTP_LISTING_HTML, "a<b/c/");
    CHECK(!strstr(page, "<script"));
    CHECK(strstr(page, "<title>/a&lt;b/c/</title>"));
    CHECK(strstr(page, "<a href=\"%3Cscript%3E%22%27%26\">&lt;script&gt;&quot;&#39;&amp;</a>"));
    CHECK(strstr(page, "<a href=\"./javascript:x\">javascript:x</a>"));
    CHECK(strstr(page, "<a href=\"100%25%20%231%3F/\">100% #1?/</a>"));
    CHECK(strstr(page, "<a href=\"%FF%C3\">\xef\xbf\xbd\xef\xbf\xbd</a>"));
    CHECK(strstr(page, "<a href=\"%C3%A4%20b\">\xc3\xa4 b</a>"));
    done();
}

TEST(a_page_leads_to_all_directories_above)
{
    const char *page = write_page(GS_HTTP_LISTING_HTML, "a/b/");
    CHECK(strstr(page, "<h1><a href=\"../../\">Home</a><a href=\"../\">a</a><a href=\"./\">b</a>"));
    CHECK(strstr(page, "<a href=\"../\">../</a>"));
    done();
}

TEST(sizes_and_times_are_for_people_and_exact_in_json)
{
    add("file", false);
    add("folder", true);
    gs_http_listing_sort(&listing);
    const char *page = write_page(GS_HTTP_LISTING_HTML, "");
    CHECK(strstr(page, "<td class=\"s\">1.2 kB</td>"));
    CHECK(strstr(page, "<time datetime=\"1994-11-06T08:49:37Z\">1994-11-06 08:49</time>"));
    CHECK(strstr(page, "1 directory, 1 file, 1.2 kB"));
    CHECK_STR(
        write_page(GS_HTTP_LISTING_JSON, ""),
        "[\n{\"name\":\"folder\",\"type\":\"directory\",\"mtime\":\"1994-11-06T08:49:37Z\"},\n"
        "{\"name\":\"file\",\"type\":\"file\",\"mtime\":\"1994-11-06T08:49:37Z\",\"size\":1234}"
        "\n]\n");
    done();
}

TEST(json_escapes_what_it_must)
{
    add("a\"b", false);
    add("\xff", false);
    const char *page = write_page(GS_HTTP_LISTING_JSON, "");
    CHECK(strstr(page, "{\"name\":\"a\\\"b\","));
    CHECK(strstr(page, "{\"name\":\"\xef\xbf\xbd\","));
    done();
}

TEST(a_listing_has_a_limit)
{
    const struct gs_http_listing_entry entry = {.name = (char[]){"x"}};
    for (size_t i = 0; i < GS_HTTP_LISTING_ENTRIES_MAX; i++)
        CHECK_EQ(gs_http_listing_add(&listing, &entry), 0);
    CHECK_EQ(gs_http_listing_add(&listing, &entry), -E2BIG);
    done();
}

/* ---- Directories ---- */

static char root[] = "/tmp/gossamer-listing-XXXXXX";
static int root_fd = -1;

static void make_file(const char *name)
{
    int fd = openat(root_fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, "12345", 5), 5);
    close(fd);
}

static void remove_all(void)
{
    static const char *const names[] = {"sub/in",  "sub/up", "sub/deep",  "sub",    "a",
                                        ".hidden", "back\\", "new\nline", "out",    "dangling",
                                        "loop",    "below",  "pipe",      "private"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (unlinkat(root_fd, names[i], 0))
            unlinkat(root_fd, names[i], AT_REMOVEDIR);
    close(root_fd);
    rmdir(root);
}

static void make_directory(void)
{
    char absolute[100];
    CHECK(mkdtemp(root));
    root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(root_fd >= 0);
    make_file("a");
    make_file(".hidden");
    make_file("back\\");
    make_file("new\nline");
    CHECK_EQ(mkdirat(root_fd, "sub", 0755), 0);
    make_file("sub/in");
    CHECK_EQ(symlinkat("../a", root_fd, "sub/up"), 0);
    CHECK_EQ(symlinkat("/etc", root_fd, "out"), 0);
    CHECK_EQ(symlinkat("nothing", root_fd, "dangling"), 0);
    CHECK_EQ(symlinkat("loop", root_fd, "loop"), 0);
    snprintf(absolute, sizeof absolute, "%s/sub", root);
    CHECK_EQ(symlinkat(absolute, root_fd, "below"), 0);
    CHECK_EQ(mkfifoat(root_fd, "pipe", 0644), 0);
}

static void read_directory(const char *path, bool dotfiles, bool follows)
{
    int fd = openat(root_fd, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const struct gs_http_listing_source source = {.root_fd = root_fd,
                                                  .fd = fd,
                                                  .path = path,
                                                  .dotfiles = dotfiles,
                                                  .follow_symlinks = follows};
    CHECK(fd >= 0);
    CHECK_EQ(gs_http_listing_read(&source, &listing), 0);
    close(fd);
}

static const char *names(void)
{
    static char text[200];
    char *at = text;
    *at = '\0';
    for (size_t i = 0; i < listing.count; i++)
        at += sprintf(at, "%s%s ", listing.entries[i].name,
                      listing.entries[i].is_directory ? "/" : "");
    gs_http_listing_done(&listing);
    return text;
}

TEST(a_listing_has_what_the_server_would_serve)
{
    make_directory();
    read_directory("", false, false);
    CHECK_STR(names(), "below/ sub/ a ");
    read_directory("", true, true);
    CHECK_STR(names(), "below/ out/ sub/ .hidden a ");
    read_directory("sub/", false, false);
    CHECK_EQ(listing.entries[1].size, 5);
    CHECK_STR(names(), "in up ");
    remove_all();
}
