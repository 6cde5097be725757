#include "http/host.h"
#include "tests/test.h"

static void check(bool expected, struct gs_http_text value)
{
    if (gs_http_host_is_valid(value) != expected)
        TEST_FAIL("%s: %.*s", expected ? "refused" : "taken", (int)value.n, value.bytes);
}

#define VALID(value) check(true, GS_HTTP_TEXT(value))
#define INVALID(value) check(false, GS_HTTP_TEXT(value))

TEST(names_are_valid)
{
    VALID("www.example.org");
    VALID("localhost");
    VALID("EXAMPLE.org.");
    VALID("a");
    VALID("xn--bcher-kva.example");
    VALID("under_score.example");
    VALID("a%20b");
    VALID("b%C3%BCcher.example");
    VALID("-._~!$&'()*+;=");
    VALID("192.0.2.1");
    VALID("999.1");
}

TEST(port_is_a_number_or_empty)
{
    VALID("example.org:80");
    VALID("example.org:");
    VALID("example.org:0");
    VALID("example.org:65535");
    VALID("example.org:00080");
    VALID("127.0.0.1:8080");
    VALID("[::1]:8080");
    VALID("[::1]:");
    INVALID("example.org:65536");
    INVALID("example.org:99999999999999999999999");
    INVALID("example.org:-1");
    INVALID("example.org:+1");
    INVALID("example.org:80a");
    INVALID("example.org: 80");
    INVALID("example.org:80:80");
    INVALID("example.org::");
    INVALID("[::1]80");
    INVALID("[::1]x");
}

TEST(empty_host_is_not_valid)
{
    INVALID("");
    INVALID(":");
    INVALID(":80");
    INVALID("[]");
    INVALID("[]:80");
    check(false, (struct gs_http_text){NULL, 0});
}

TEST(delimiters_are_not_part_of_a_name)
{
    INVALID("a b");
    INVALID(" a");
    INVALID("a ");
    INVALID("a\tb");
    INVALID("a,b");
    INVALID("a, b");
    INVALID("user@example.org");
    INVALID("user:pass@example.org");
    INVALID("example.org/");
    INVALID("http://example.org");
    INVALID("example.org?x");
    INVALID("example.org#x");
    INVALID("a\\b");
    INVALID("a\"b");
    INVALID("<a>");
    INVALID("a|b");
    INVALID("a^b");
    INVALID("a[b]");
    INVALID("a]");
    INVALID("{a}");
    INVALID("`");
}

TEST(control_and_high_bytes_are_not_valid)
{
    INVALID("a\0");
    INVALID("\0");
    INVALID("a\r\nb");
    INVALID("a\x7f");
    INVALID("b\xc3\xbc"
            "cher.example");
}

TEST(escapes_must_be_complete)
{
    INVALID("%");
    INVALID("a%");
    INVALID("a%2");
    INVALID("a%2g");
    INVALID("a%g2");
    INVALID("a%:80");
    VALID("%41");
}

TEST(ipv6_addresses_are_valid)
{
    VALID("[::]");
    VALID("[::1]");
    VALID("[1::]");
    VALID("[2001:db8::1]");
    VALID("[2001:DB8:0:0:8:800:200C:417A]");
    VALID("[1:2:3:4:5:6:7:8]");
    VALID("[1:2:3:4:5:6:7::]");
    VALID("[::2:3:4:5:6:7:8]");
    VALID("[1::3:4:5:6:7:8]");
    VALID("[fe80::1234:5678]");
    VALID("[::ffff:192.0.2.1]");
    VALID("[::192.0.2.1]");
    VALID("[64:ff9b::192.0.2.33]");
    VALID("[1:2:3:4:5:6:192.0.2.1]");
    VALID("[1:2:3:4:5::192.0.2.1]");
    VALID("[0000:0000::]");
}

TEST(malformed_ipv6_addresses_are_not_valid)
{
    INVALID("[");
    INVALID("[:");
    INVALID("[:]");
    INVALID("[:::]");
    INVALID("[1]");
    INVALID("[1:2]");
    INVALID("[:1]");
    INVALID("[1:]");
    INVALID("[1::2:]");
    INVALID("[1:::2]");
    INVALID("[1::2::3]");
    INVALID("[::1::]");
    INVALID("[1:2:3:4:5:6:7]");
    INVALID("[1:2:3:4:5:6:7:8:9]");
    INVALID("[1:2:3:4::5:6:7:8]");
    INVALID("[::1:2:3:4:5:6:7:8]");
    INVALID("[12345::]");
    INVALID("[00001::]");
    INVALID("[g::]");
    INVALID("[::1");
    INVALID("::1");
    INVALID("::1]");
    INVALID("[fe80::1%25eth0]");
    INVALID("[fe80::1%eth0]");
    INVALID("[::1 ]");
    INVALID("[::1]]");
    INVALID("[[::1]]");
}

TEST(ipv4_within_ipv6_is_four_numbers_at_the_end)
{
    INVALID("[192.0.2.1]");
    INVALID("[::192.0.2]");
    INVALID("[::192.0.2.]");
    INVALID("[::192.0.2.1.1]");
    INVALID("[::192.0.2.256]");
    INVALID("[::192.0.2.01]");
    INVALID("[::192.0.2.1000]");
    INVALID("[::.0.2.1]");
    INVALID("[::a.0.2.1]");
    INVALID("[::192.0.2.1:1]");
    INVALID("[192.0.2.1::]");
    INVALID("[1:2:3:4:5:6:7:192.0.2.1]");
    INVALID("[1:2:3:4:5:192.0.2.1]");
    INVALID("[1:2:3:4:5:6::192.0.2.1]");
    VALID("[::0.0.0.0]");
    VALID("[::255.255.255.255]");
}

TEST(addresses_of_later_versions_are_valid)
{
    VALID("[v1.fe80::a+en1]");
    VALID("[V7F.x]:80");
    INVALID("[v]");
    INVALID("[v1]");
    INVALID("[v1.]");
    INVALID("[v.x]");
    INVALID("[vg.x]");
    INVALID("[v1.a/b]");
    INVALID("[v1.a%20b]");
    INVALID("[v1:x]");
}
