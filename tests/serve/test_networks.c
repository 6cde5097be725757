#include "serve/accept/networks.h"

#include "tests/test.h"

#include <errno.h>
#include <string.h>

static bool has(const char *word, const char *address)
{
    struct serve_networks networks = {0};
    struct serve_host host;
    CHECK_EQ(serve_networks_add(&networks, word), 0);
    CHECK_EQ(serve_host_parse(address, strlen(address), &host), 0);
    bool result = serve_networks_have(&networks, &host);
    serve_networks_done(&networks);
    return result;
}

TEST(a_network_has_the_addresses_that_begin_like_it)
{
    CHECK(has("192.0.2.0/24", "192.0.2.255") && !has("192.0.2.0/24", "192.0.3.0"));
    CHECK(has("192.0.2.128/25", "192.0.2.128") && !has("192.0.2.128/25", "192.0.2.127"));
    CHECK(has("0.0.0.0/0", "255.1.2.3") && !has("0.0.0.0/0", "::1"));
    CHECK(has("10.1.2.3", "10.1.2.3") && !has("10.1.2.3", "10.1.2.2"));
    CHECK(has("2001:db8::/33", "2001:db8:7fff::1") && !has("2001:db8::/33", "2001:db8:8000::"));
    CHECK(has("::/0", "fe80::1") && !has("::/0", "1.2.3.4"));
    CHECK(has("::1", "::1") && !has("::1", "::2"));
}

TEST(an_address_of_ipv4_is_the_same_within_ipv6)
{
    CHECK(has("10.0.0.0/8", "::ffff:10.1.1.1"));
    CHECK(has("::ffff:10.0.0.0/104", "10.1.1.1") && !has("::ffff:10.0.0.0/104", "11.1.1.1"));
    CHECK(has("::ffff:10.1.1.1", "10.1.1.1"));
}

TEST(unix_sockets_are_a_network)
{
    struct serve_networks networks = {0};
    const struct serve_host local = {.family = AF_UNIX}, none = {.family = AF_UNSPEC};
    CHECK_EQ(serve_networks_add(&networks, "unix"), 0);
    CHECK(serve_networks_have(&networks, &local));
    CHECK(!serve_networks_have(&networks, &none));
    serve_networks_done(&networks);
}

TEST(what_names_no_network_is_refused)
{
    static const char *const words[] = {
        "",
        "a",
        "1.2.3",
        "1.2.3.4/",
        "1.2.3.4/33",
        "1.2.3.4/-1",
        "1.2.3.4/a",
        "/8",
        "1.2.3.4/8/8",
        "::/129",
        "[::1]",
        "1.2.3.4:80",
        "unix:",
        "::1/1000",
        "1.2.3.4/ 8",
        "::ffff:1.2.3.4/95",
    };
    struct serve_networks networks = {0};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        CHECK_EQ(serve_networks_add(&networks, words[i]), -EINVAL);
    CHECK_EQ(networks.count, 0);
}

static int parse(const char *text, struct serve_host *host)
{
    return serve_host_parse(text, strlen(text), host);
}

TEST(an_address_may_have_a_port)
{
    struct serve_host host;
    CHECK_EQ(parse("1.2.3.4:80", &host), 0);
    CHECK(host.family == AF_INET && host.bytes[3] == 4);
    CHECK_EQ(parse("[::1]:65535", &host), 0);
    CHECK(host.family == AF_INET6 && host.bytes[15] == 1);
    CHECK_EQ(parse("[::1]", &host), 0);
    CHECK_EQ(parse("::1", &host), 0);
}

TEST(what_is_no_address_is_refused)
{
    static const char *const texts[] = {
        "",       "unknown", "_hidden", "1.2.3.4:",    "1.2.3.4:a",    "1.2.3.4:123456", "[::1",
        "[::1]a", "[::1]:",  "::1]",    "[1.2.3.4]",   "[1.2.3.4]:80", "1.2.3",          ":80",
        "[]",     "[]:1",    " ::1",    "1.2.3.4:80 ", "::1%lo",
    };
    struct serve_host host;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        CHECK_EQ(parse(texts[i], &host), -EINVAL);
    CHECK_EQ(serve_host_parse("1.2.3.4\0", 8, &host), -EINVAL);
}
