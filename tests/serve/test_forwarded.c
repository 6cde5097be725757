#include "serve/log/forwarded.h"

#include "serve/accept/address.h"

#include "tests/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

static struct serve_forwarded forwarded;

static struct serve_host host_of(const char *text)
{
    struct serve_host host;
    CHECK_EQ(serve_host_parse(text, strlen(text), &host), 0);
    return host;
}

/* The client of a request that peer has sent. Proxies are 10.0.0.0/8 and fd00::/8. */
static const char *client(const char *peer, const char *value)
{
    static char text[INET6_ADDRSTRLEN];
    struct serve_host from = host_of(peer);
    CHECK_EQ(serve_networks_add(&forwarded.trusted, "10.0.0.0/8"), 0);
    CHECK_EQ(serve_networks_add(&forwarded.trusted, "fd00::/8"), 0);
    struct serve_host host = serve_forwarded_client(&forwarded, &from, value);
    serve_networks_done(&forwarded.trusted);
    CHECK(inet_ntop(host.family, host.bytes, text, sizeof text));
    return text;
}

TEST(a_proxy_that_is_trusted_names_the_client)
{
    forwarded.is_standard = false;
    CHECK_STR(client("10.0.0.1", "192.0.2.1"), "192.0.2.1");
    CHECK_STR(client("fd00::1", " 2001:db8::1\t"), "2001:db8::1");
    CHECK_STR(client("10.0.0.1", "[2001:db8::1]:443"), "2001:db8::1");
    CHECK_STR(client("::ffff:10.0.0.1", "192.0.2.1:5555"), "192.0.2.1");
}

TEST(nobody_else_is_believed)
{
    forwarded.is_standard = false;
    CHECK_STR(client("192.0.2.9", "192.0.2.1"), "192.0.2.9");
    CHECK_STR(client("10.0.0.1", "127.0.0.1, 192.0.2.1"), "192.0.2.1");
    CHECK_STR(client("10.0.0.1", "127.0.0.1,192.0.2.1,10.1.1.1"), "192.0.2.1");
}

TEST(where_nobody_is_named_the_last_proxy_is_the_client)
{
    forwarded.is_standard = false;
    CHECK_STR(client("10.0.0.1", NULL), "10.0.0.1");
    CHECK_STR(client("10.0.0.1", ""), "10.0.0.1");
    CHECK_STR(client("10.0.0.1", "192.0.2.1, unknown"), "10.0.0.1");
    CHECK_STR(client("10.0.0.1", "192.0.2.1, unknown, 10.0.0.2"), "10.0.0.2");
    CHECK_STR(client("10.0.0.1", "10.0.0.3,10.0.0.2"), "10.0.0.3");
    CHECK_STR(client("10.0.0.1", "192.0.2.1,,"), "10.0.0.1");
}

TEST(the_standard_field_has_parameters)
{
    forwarded.is_standard = true;
    CHECK_STR(client("10.0.0.1", "for=192.0.2.1"), "192.0.2.1");
    CHECK_STR(client("10.0.0.1", "proto=https; For=\"[2001:db8::1]:80\";by=10.0.0.1"),
              "2001:db8::1");
    CHECK_STR(client("10.0.0.1", "for=127.0.0.1, for=192.0.2.1;host=a, for=10.2.2.2"), "192.0.2.1");
    CHECK_STR(client("10.0.0.1", "for=192.0.2.1, for=_hidden"), "10.0.0.1");
    CHECK_STR(client("10.0.0.1", "by=192.0.2.1"), "10.0.0.1");
    CHECK_STR(client("10.0.0.1", "192.0.2.1"), "10.0.0.1");
    CHECK_STR(client("10.0.0.1", "for=\""), "10.0.0.1");
}

TEST(the_field_has_a_name_if_somebody_is_trusted)
{
    forwarded.is_standard = false;
    CHECK(!serve_forwarded_field(&forwarded));
    CHECK_EQ(serve_networks_add(&forwarded.trusted, "::1"), 0);
    CHECK_STR(serve_forwarded_field(&forwarded), "x-forwarded-for");
    forwarded.is_standard = true;
    CHECK_STR(serve_forwarded_field(&forwarded), "forwarded");
    serve_networks_done(&forwarded.trusted);
}
