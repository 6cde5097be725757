/* Which site a request is for. */
#include "http/request.h"
#include "http/service.h"
#include "http/site.h"
#include "tests/http/drive_check.h"

#include <errno.h>

#define ENTRIES(array_) array_, sizeof(array_) / sizeof *(array_)

static const char *const example_hosts[] = {"example.org", "www.Example.org", "[2001:db8::1]"};
static const char *const below_hosts[] = {"*.example.org", "*.net"};
static const char *const deep_hosts[] = {"*.a.example.org", "exact.a.example.org."};
static const struct gs_http_site all[] = {
    {.hosts = example_hosts, .host_count = 3},
    {.hosts = below_hosts, .host_count = 2},
    {.is_default = true},
    {.hosts = deep_hosts, .host_count = 2},
};
enum { EXAMPLE, BELOW, DEFAULT, DEEP };

static struct gs_http_sites sites;

static void check_site(const char *host, int expected)
{
    struct gs_http_text text = {host, host ? strlen(host) : 0};
    const struct gs_http_site *site = gs_http_sites_find(&sites, text);
    if (site != &all[expected])
        TEST_FAIL("%s: site %d, not %d", host, (int)(site - all), expected);
}

#define SITE_TEST(name_)                                                                           \
    FIXTURE_TEST(name_, CHECK_EQ(gs_http_sites_init(&sites, ENTRIES(all)), 0),                     \
                 gs_http_sites_done(&sites))

SITE_TEST(a_host_is_found_with_or_without_a_port_in_any_case)
{
    check_site("example.org", EXAMPLE);
    check_site("EXAMPLE.ORG", EXAMPLE);
    check_site("www.example.org:8080", EXAMPLE);
    check_site("Example.Org.:443", EXAMPLE);
    check_site("[2001:DB8::1]:80", EXAMPLE);
    check_site("[2001:db8::1]", EXAMPLE);
}

SITE_TEST(an_exact_name_precedes_suffixes_and_a_longer_suffix_a_shorter_one)
{
    check_site("b.example.org", BELOW);
    check_site("a.example.org", BELOW);
    check_site("c.b.example.org:1", BELOW);
    check_site("b.A.example.org", DEEP);
    check_site("exact.a.example.org", DEEP);
    check_site("www.example.org", EXAMPLE);
    check_site("a.net", BELOW);
}

SITE_TEST(other_hosts_are_the_defaults)
{
    check_site(NULL, DEFAULT);
    check_site("", DEFAULT);
    check_site("example.com", DEFAULT);
    check_site("net", DEFAULT);
    check_site(".net", DEFAULT);
    check_site("..example.org.", DEFAULT);
    check_site("xexample.org", DEFAULT);
    check_site("[2001:db8::2]", DEFAULT);
    check_site(":80", DEFAULT);
    check_site(".", DEFAULT);
    char longest[400];
    memset(longest, 'a', sizeof longest);
    strcpy(longest + sizeof longest - sizeof ".net", ".net");
    check_site(longest, DEFAULT);
    check_site(longest + sizeof longest - 1 - 255, BELOW);
}

TEST(the_first_site_is_the_default_if_none_is_marked)
{
    const struct gs_http_site two[] = {{.hosts = example_hosts, .host_count = 3},
                                       {.hosts = below_hosts, .host_count = 2}};
    CHECK_EQ(gs_http_sites_init(&sites, two, 2), 0);
    CHECK(gs_http_sites_find(&sites, GS_HTTP_TEXT("x")) == &two[0]);
    CHECK(gs_http_sites_find(&sites, GS_HTTP_TEXT("x.net")) == &two[1]);
    gs_http_sites_done(&sites);
    CHECK_EQ(gs_http_sites_init(&sites, two, 1), 0);
    CHECK(gs_http_sites_find(&sites, GS_HTTP_TEXT("x.net")) == &two[0]);
    gs_http_sites_done(&sites);
}

TEST(a_thousand_hosts_are_told_apart)
{
    enum { COUNT = 1000 };
    static char names[COUNT][32];
    static const char *hosts[COUNT];
    static struct gs_http_site many[COUNT];
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "host%d.example", i);
        hosts[i] = names[i];
        many[i] = (struct gs_http_site){.hosts = &hosts[i], .host_count = 1};
    }
    CHECK_EQ(gs_http_sites_init(&sites, many, COUNT), 0);
    for (int i = 0; i < COUNT; i++) {
        struct gs_http_text host = {names[i], strlen(names[i])};
        CHECK(gs_http_sites_find(&sites, host) == &many[i]);
    }
    CHECK(gs_http_sites_find(&sites, GS_HTTP_TEXT("host1000.example")) == many);
    gs_http_sites_done(&sites);
}

static void check_refused(const char *first, const char *second, bool are_defaults, int err)
{
    const struct gs_http_site two[] = {
        {.hosts = &first, .host_count = 1, .is_default = are_defaults},
        {.hosts = &second, .host_count = 1, .is_default = are_defaults}};
    CHECK_EQ(gs_http_sites_init(&sites, two, 2), err);
}

TEST(sites_that_conflict_or_name_no_host_are_refused)
{
    check_refused("a", "b", false, 0);
    gs_http_sites_done(&sites);
    check_refused("*.a", "a", false, 0);
    gs_http_sites_done(&sites);
    check_refused("a", "A.", false, -EEXIST);
    check_refused("*.a", "*.A", false, -EEXIST);
    check_refused("a", "b", true, -EEXIST);
    static const char *const wrong[] = {"",      "*",        "*.",    "a:80", "a/b",
                                        "*.*.a", "a*",       "a.*.b", ".a",   "*..a",
                                        "a b",   "http://a", ":",     "[::1", "*a.b"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (!gs_http_site_host_problem(wrong[i]))
            TEST_FAIL("%s is taken", wrong[i]);
        check_refused("a", wrong[i], false, -EINVAL);
    }
    CHECK(!gs_http_site_host_problem("*.xn--bcher-kva.example."));
}

/* ---- Requests ---- */

static char other[] = "/tmp/gossamer-site-XXXXXX";
static int other_fd;

/* Two sites with files of the same names. */
static void start(void)
{
    static const char *const host = "other";
    static struct gs_http_site two[2];
    struct gs_http_options options;
    CHECK(mkdtemp(other));
    other_fd = open(other, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(other_fd >= 0);
    int fd = openat(other_fd, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    CHECK_EQ(write(fd, "other", 5), 5);
    close(fd);
    gs_http_options_default(&options);
    drive_start(&drive, &options);
    drive_write(&drive, "f", "default");
    two[0] = (struct gs_http_site){.root_fd = drive.root_fd};
    two[1] = (struct gs_http_site){.hosts = &host, .host_count = 1, .root_fd = other_fd};
    options.sites = two;
    options.site_count = 2;
    gs_http_conn_done(&drive.conn);
    gs_http_service_free(drive.service);
    CHECK_EQ(gs_http_service_new(&options, -1, &drive.counts, &drive.service), 0);
    gs_http_conn_init(&drive.conn, drive.service, drive.now_ns);
}

static void stop(void)
{
    CHECK_EQ(drive_stop(&drive), 0);
    CHECK_EQ(unlinkat(other_fd, "f", 0), 0);
    CHECK_EQ(rmdir(other), 0);
    close(other_fd);
}

FIXTURE_TEST(requests_are_answered_by_their_site_also_from_the_cache, start(), stop())
{
    for (int i = 0; i < 3; i++) {
        check_body("GET /f HTTP/1.1\r\nHost: a\r\n\r\n", "default");
        check_body("GET /f HTTP/1.1\r\nHost: OTHER:80\r\n\r\n", "other");
        check_body("GET http://other/f HTTP/1.1\r\nHost: a\r\n\r\n", "other");
        check_body("GET /f HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "default");
        CHECK_EQ(drive.service->cache.count, 2);
        drive.now_ns += i == 1 ? GS_SECOND : 0;
    }
}
