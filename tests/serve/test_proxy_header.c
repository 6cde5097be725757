#include "serve/connection/proxy_header.h"

#include "tests/test.h"

#include <errno.h>
#include <string.h>

static struct serve_host client;

static ssize_t parse(const char *bytes, size_t n)
{
    return serve_proxy_header_parse(bytes, n, &client);
}

/* The whole header has this result, and each beginning of it is incomplete. */
static ssize_t parse_all(const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        CHECK_EQ(parse(bytes, i), 0);
    return parse(bytes, n);
}

#define LINE(text_) (text_ "\r\n"), sizeof(text_) + 1

TEST(a_line_names_the_client)
{
    static const unsigned char one[16] = {[15] = 1};
    CHECK_EQ(parse_all(LINE("PROXY TCP4 192.0.2.1 10.0.0.1 1 2")), 35);
    CHECK(client.family == AF_INET && !memcmp(client.bytes, (unsigned char[]){192, 0, 2, 1}, 4));
    CHECK_EQ(parse_all(LINE("PROXY TCP6 ::1 ::2 65535 65535")), 32);
    CHECK(client.family == AF_INET6 && !memcmp(client.bytes, one, 16));
    CHECK_EQ(parse_all(LINE("PROXY TCP6 ::ffff:10.0.0.1 ::2 1 2")), 36);
    CHECK(client.family == AF_INET && client.bytes[0] == 10);
    CHECK_EQ(parse_all(LINE("PROXY UNKNOWN")), 15);
    CHECK_EQ(client.family, AF_UNSPEC);
    CHECK_EQ(parse_all(LINE("PROXY UNKNOWN ffff::1 a b c")), 29);
    CHECK_EQ(client.family, AF_UNSPEC);
}

TEST(what_follows_the_header_is_not_part_of_it)
{
    CHECK_EQ(parse(LINE("PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\nGET / HTTP/1.1\r\n")), 32);
}

TEST(a_malformed_line_is_refused)
{
    static const char *const lines[] = {
        "GET / HTTP/1.1\r\n",
        "proxy TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY TCP5 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY TCP4 ::1 ::1 1 2\r\n",
        "PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY TCP4 1.2.3.4:80 1.2.3.4 1 2\r\n",
        "PROXY TCP6 [::1] ::1 1 2\r\n",
        "PROXY TCP4\r\n",
        "PROXY \r\n",
        "PROXY\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n",
        "PROXY \n",
        "PROXY TCP4  1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY UNKNOWNX\r\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        CHECK_EQ(parse(lines[i], strlen(lines[i])), -EBADMSG);
}

TEST(a_line_has_at_most_107_bytes)
{
    char line[200];
    memset(line, 'a', sizeof line);
    memcpy(line, "PROXY UNKNOWN ", 14);
    CHECK_EQ(parse(line, 106), 0);
    CHECK_EQ(parse(line, 107), -EBADMSG);
    CHECK_EQ(parse(line, sizeof line), -EBADMSG);
    memcpy(line + 105, "\r\n", 2);
    CHECK_EQ(parse(line, sizeof line), 107);
}

static char binary[5000];

static void start(unsigned command, unsigned family, unsigned length)
{
    memset(binary, 0, sizeof binary);
    memcpy(binary, "\r\n\r\n\0\r\nQUIT\n", 12);
    binary[12] = (char)command;
    binary[13] = (char)family;
    binary[14] = (char)(length >> 8);
    binary[15] = (char)length;
    for (unsigned i = 0; i < 16; i++)
        binary[16 + i] = (char)(i + 1);
}

TEST(a_binary_header_names_the_client)
{
    start(0x21, 0x11, 12);
    CHECK_EQ(parse_all(binary, 28), 28);
    CHECK(client.family == AF_INET && client.bytes[0] == 1 && client.bytes[3] == 4);
    CHECK_EQ(client.bytes[4], 0);
    start(0x21, 0x21, 36);
    CHECK_EQ(parse_all(binary, 52), 52);
    CHECK(client.family == AF_INET6 && client.bytes[15] == 16);
    start(0x21, 0x31, 216);
    CHECK_EQ(parse_all(binary, 232), 232);
    CHECK(client.family == AF_UNIX && !client.bytes[0]);
}

TEST(further_fields_are_ignored)
{
    start(0x21, 0x11, SERVE_PROXY_HEADER_MAX - 16);
    CHECK_EQ(parse_all(binary, SERVE_PROXY_HEADER_MAX), SERVE_PROXY_HEADER_MAX);
    CHECK_EQ(client.family, AF_INET);
}

TEST(a_proxy_may_speak_for_itself)
{
    start(0x20, 0, 0);
    CHECK_EQ(parse_all(binary, 16), 16);
    CHECK_EQ(client.family, AF_UNSPEC);
    start(0x20, 0x11, 12);
    CHECK_EQ(parse_all(binary, 28), 28);
    CHECK_EQ(client.family, AF_UNSPEC);
    start(0x21, 0, 5);
    CHECK_EQ(parse_all(binary, 21), 21);
    CHECK_EQ(client.family, AF_UNSPEC);
}

TEST(a_malformed_binary_header_is_refused)
{
    static const struct {
        unsigned command, family, length;
    } cases[] = {
        {0x22, 0x11, 12}, {0x11, 0x11, 12},  {0x01, 0x11, 12},   {0x21, 0x11, 11}, {0x21, 0x21, 35},
        {0x21, 0x41, 36}, {0x21, 0x31, 215}, {0x21, 0x11, 4081}, {0x20, 0, 65535},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        start(cases[i].command, cases[i].family, cases[i].length);
        CHECK_EQ(parse(binary, sizeof binary), -EBADMSG);
    }
    start(0x21, 0x11, 12);
    binary[11] = 'x';
    CHECK_EQ(parse(binary, 12), -EBADMSG);
}
