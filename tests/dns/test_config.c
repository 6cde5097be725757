/* What nsswitch.conf and resolv.conf leave to c-ares. */
#include "dns/config.h"
#include "tests/test.h"

static struct dns_config config;

static void read_nsswitch(const char *text)
{
    char copy[256];
    config = (struct dns_config){0};
    strcpy(copy, text);
    gs_dns_parse_nsswitch(&config, copy);
}

static void read_resolv(const char *text)
{
    char copy[256];
    config = (struct dns_config){0};
    strcpy(copy, text);
    gs_dns_parse_resolv(&config, copy);
}

static bool suits(const char *name)
{
    struct resolution *resolution = gs_resolution_new(name, "80", NULL);
    CHECK(resolution);
    bool does = gs_dns_config_suits(&config, resolution);
    gs_resolution_free(resolution);
    return does;
}

TEST(sources_that_are_not_dns_or_files_are_asked_by_getaddrinfo)
{
    const char *ours[] = {
        "hosts: files dns\n",
        "hosts:\tdns  files # mdns4\n",
        "passwd: ldap\n  hosts:files dns\n",
        "hosts: files mdns4_minimal [NOTFOUND=return] dns\n",
        "hosts: files myhostname dns\n",
        "#hosts: ldap\n",
        "",
    };
    const char *others[] = {
        "hosts: files\n",
        "hosts:\n",
        "hosts: files mdns4 dns\n",
        "hosts: files ldap dns\n",
        "hosts: files resolve [!UNAVAIL=return] dns\n",
        "hosts: files dns [NOTFOUND=return]\n",
        "hosts: files [NOTFOUND=return] dns\n",
        "hosts: files mdns4_minimal [NOTFOUND=continue] dns\n",
        "hosts: files dns mymachines",
    };
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        read_nsswitch(ours[i]);
        CHECK(suits("www.example.org"));
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        read_nsswitch(others[i]);
        CHECK(!suits("www.example.org"));
    }
}

TEST(names_of_other_sources_are_looked_up_by_getaddrinfo)
{
    char own[256];
    CHECK_EQ(gethostname(own, sizeof own), 0);
    read_nsswitch("hosts: files dns\n");
    CHECK(suits("printer.local"));
    CHECK(suits(own));
    CHECK(!suits("localhost"));
    CHECK(!suits("a.LOCALHOST."));
    CHECK(!suits(""));
    CHECK(suits("notlocalhost"));
    read_nsswitch("hosts: files mdns4_minimal [NOTFOUND=return] dns\n");
    CHECK(!suits("printer.local"));
    CHECK(!suits("a.printer.Local."));
    CHECK(!suits("local"));
    CHECK(suits("printer.locale"));
    read_nsswitch("hosts: files myhostname dns\n");
    CHECK(!suits(own));
    CHECK(!suits("_gateway"));
    CHECK(suits("www.example.org"));
}

TEST(options_that_c_ares_does_not_know_are_getaddrinfo_s)
{
    const char *ours[] = {
        "nameserver 10.0.0.1\nsearch a.test b.test\noptions ndots:3 timeout:2\n",
        "options edns0 trust-ad rotate attempts:3\n",
        "; options inet6\n# sortlist\n",
        "optionsinet6\n",
        "",
    };
    const char *others[] = {
        "options inet6\n",           "options ndots:2 no-aaaa\n", "options\tuse-vc\n",
        "nameserver fe80::1%eth0\n", "sortlist 10.0.0.0\n",
    };
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        read_resolv(ours[i]);
        CHECK(!config.has_other_options);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        read_resolv(others[i]);
        CHECK(config.has_other_options);
    }
}

TEST(options_have_the_limits_of_glibc)
{
    read_resolv("options timeout:3 attempts:4 rotate\n");
    CHECK_EQ(config.timeout_s, 3);
    CHECK_EQ(config.attempts, 4);
    CHECK(config.rotates);
    read_resolv("options timeout:999999999999999999999 attempts:-1\n");
    CHECK_EQ(config.timeout_s, 30);
    CHECK_EQ(config.attempts, 5);
}

TEST(files_that_are_missing_leave_the_defaults)
{
    config = (struct dns_config){0};
    gs_nsswitch_conf = gs_resolv_conf = "/nonexistent";
    gs_dns_config_refresh(&config, 1);
    CHECK(suits("www.example.org"));
    CHECK_EQ(config.timeout_s, 5);
    CHECK_EQ(config.attempts, 2);
    CHECK(!config.rotates);
}

static char path[] = "/tmp/test_config.XXXXXX";

static void write_options(const char *text)
{
    FILE *file = fopen(path, "w");
    CHECK(file);
    fputs(text, file);
    fclose(file);
}

TEST(files_are_looked_at_once_a_second)
{
    close(mkstemp(path));
    config = (struct dns_config){0};
    gs_nsswitch_conf = "/nonexistent";
    gs_resolv_conf = path;
    write_options("options timeout:3\n");
    gs_dns_config_refresh(&config, 1000);
    CHECK_EQ(config.timeout_s, 3);
    CHECK_EQ(config.version, 1);
    write_options("options timeout:11\n");
    gs_dns_config_refresh(&config, 1000000999);
    CHECK_EQ(config.timeout_s, 3);
    gs_dns_config_refresh(&config, 1000001000);
    CHECK_EQ(config.timeout_s, 11);
    CHECK_EQ(config.version, 2);
    gs_dns_config_refresh(&config, 3000000000);
    CHECK_EQ(config.version, 2);
    unlink(path);
    gs_dns_config_refresh(&config, 5000000000);
    CHECK_EQ(config.timeout_s, 5);
}

TEST(file_that_cannot_be_read_is_getaddrinfo_s)
{
    config = (struct dns_config){0};
    gs_nsswitch_conf = "/nonexistent";
    gs_resolv_conf = "/";
    gs_dns_config_refresh(&config, 1);
    CHECK(config.has_other_options);
}
