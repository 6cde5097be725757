#include "serve/accept/address.h"

#include "tests/test.h"

static struct serve_address parsed(const char *word)
{
    struct serve_address address;
    const char *problem;
    CHECK_EQ(serve_address_parse(word, &address, &problem), 0);
    return address;
}

static const char *formatted(const char *word)
{
    static char text[SERVE_ADDRESS_TEXT];
    struct serve_address address = parsed(word);
    serve_address_format((struct sockaddr *)&address.storage, text);
    return text;
}

static const char *problem_of(const char *word)
{
    struct serve_address address;
    const char *problem = NULL;
    CHECK_EQ(serve_address_parse(word, &address, &problem), -EINVAL);
    CHECK(problem);
    return problem;
}

TEST(an_address_is_formatted_as_it_is_written)
{
    CHECK_STR(formatted("127.0.0.1:8080"), "127.0.0.1:8080");
    CHECK_STR(formatted("0.0.0.0:0"), "0.0.0.0:0");
    CHECK_STR(formatted("255.255.255.255:65535"), "255.255.255.255:65535");
    CHECK_STR(formatted("[::1]:80"), "[::1]:80");
    CHECK_STR(formatted("[2001:DB8:0:0:0:0:0:1]:080"), "[2001:db8::1]:80");
    CHECK_STR(formatted("[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:65535"),
              "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535");
}

TEST(a_star_is_every_address_of_ipv4)
{
    CHECK_STR(formatted("*:80"), "0.0.0.0:80");
    CHECK_EQ(parsed("*:80").storage.ss_family, AF_INET);
}

TEST(a_port_alone_is_every_address_of_ipv4)
{
    CHECK_STR(formatted("8080"), "0.0.0.0:8080");
    CHECK_STR(formatted("0"), "0.0.0.0:0");
    CHECK_EQ(parsed("80").storage.ss_family, AF_INET);
    CHECK_STR(problem_of("65536"), problem_of("127.0.0.1:65536"));
}

TEST(a_scheme_says_whether_there_is_tls)
{
    CHECK(parsed("https://127.0.0.1:8443").is_tls);
    CHECK(!parsed("http://127.0.0.1:8443").is_tls);
    CHECK(!parsed("127.0.0.1:8443").is_tls);
    CHECK_STR(formatted("https://[::1]:443"), "[::1]:443");
    CHECK_STR(formatted("https://443"), "0.0.0.0:443");
    CHECK(parsed("https://unix:/run/x").is_tls);
    struct serve_address address = parsed("https://[::1]:443"), local = parsed("unix:/run/x");
    CHECK_EQ(serve_address_port(&address), 443);
    CHECK_EQ(serve_address_port(&local), 0);
    problem_of("https://127.0.0.1");
}

TEST(a_unix_socket_has_a_path)
{
    char word[120] = "unix:";
    CHECK_STR(formatted("unix:/run/a b:1"), "unix:/run/a b:1");
    CHECK_STR(formatted("unix:relative"), "unix:relative");
    CHECK_EQ(parsed("unix:/x").storage.ss_family, AF_UNIX);
    CHECK(strstr(problem_of("unix:"), "no path"));
    memset(word + 5, 'x', 107);
    CHECK_STR(formatted(word), word);
    word[5 + 107] = 'x';
    CHECK(strstr(problem_of(word), "more than 107 bytes"));
    char text[SERVE_ADDRESS_TEXT];
    struct serve_address address = parsed("unix:/x");
    serve_address_host((struct sockaddr *)&address.storage, text);
    CHECK_STR(text, "unix:");
}

TEST(an_address_has_the_length_of_its_family)
{
    CHECK_EQ(parsed("127.0.0.1:1").length, sizeof(struct sockaddr_in));
    CHECK_EQ(parsed("[::]:1").length, sizeof(struct sockaddr_in6));
}

TEST(a_word_without_a_port_is_refused)
{
    const char *problem = problem_of("127.0.0.1");
    CHECK_STR(problem_of("127.0.0.1:"), problem);
    CHECK_STR(problem_of("localhost"), problem);
    CHECK_STR(problem_of("[::1]"), problem);
    CHECK_STR(problem_of(""), problem);
    CHECK_STR(problem_of(":"), problem);
}

TEST(a_word_without_an_address_is_refused)
{
    const char *problem = problem_of(":80");
    CHECK_STR(problem_of("[]:80"), problem);
}

TEST(a_port_is_a_number_up_to_65535)
{
    CHECK_STR(problem_of("127.0.0.1:x"), problem_of("127.0.0.1:http"));
    CHECK_STR(problem_of("127.0.0.1:1x"), problem_of("127.0.0.1:+1"));
    CHECK_STR(problem_of("127.0.0.1: 1"), problem_of("127.0.0.1:-1"));
    CHECK_STR(problem_of("127.0.0.1:65536"), problem_of("127.0.0.1:18446744073709551617"));
}

TEST(ipv6_needs_brackets)
{
    CHECK_STR(problem_of("::1:80"), problem_of("fe80::1:80"));
    CHECK(strstr(problem_of("::1:80"), "brackets"));
}

TEST(a_name_too_long_for_one_is_refused)
{
    char word[600];
    memset(word, 'x', sizeof word);
    strcpy(word + sizeof word - 4, ":80");
    problem_of(word);
}

TEST(what_is_no_address_is_refused)
{
    problem_of("1.2.3.256:80");
    problem_of("[::g]:80");
    problem_of("[127.0.0.1:80");
    problem_of("a b:80");
}

TEST(a_host_is_formatted_without_port_and_brackets)
{
    char text[SERVE_ADDRESS_TEXT];
    struct serve_address address = parsed("[::1]:80");
    serve_address_host((struct sockaddr *)&address.storage, text);
    CHECK_STR(text, "::1");
    address = parsed("10.1.2.3:80");
    serve_address_host((struct sockaddr *)&address.storage, text);
    CHECK_STR(text, "10.1.2.3");
}
