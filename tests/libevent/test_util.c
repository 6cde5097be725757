#include "tests/test.h"

#include <event2/util.h>
#include <limits.h>
#include <netinet/tcp.h>

TEST(formatted_text_is_cut_to_its_room)
{
    char text[8] = "before";
    CHECK_EQ(evutil_snprintf(text, 0, "%d", 12345), 0);
    CHECK_STR(text, "before");
    CHECK_EQ(evutil_snprintf(text, 4, "%d", 12345), 5);
    CHECK_STR(text, "123");
    CHECK_EQ(evutil_snprintf(text, sizeof text, "%s", "abc"), 3);
    CHECK_STR(text, "abc");
}

TEST(only_ascii_letters_have_case)
{
    CHECK_EQ(evutil_ascii_strcasecmp("HeLLo", "hEllO"), 0);
    CHECK_EQ(evutil_ascii_strcasecmp("abc", "abd"), -1);
    CHECK_EQ(evutil_ascii_strcasecmp("abcd", "ABC"), 1);
    CHECK_EQ(evutil_ascii_strcasecmp("", ""), 0);
    CHECK_EQ(evutil_ascii_strcasecmp("[", "{"), -1);
    CHECK_EQ(evutil_ascii_strncasecmp("abX", "aby", 2), 0);
    CHECK_EQ(evutil_ascii_strncasecmp("abX", "aby", 3), -1);
    CHECK_EQ(evutil_ascii_strncasecmp("a", "ab", 2), -1);
    CHECK_EQ(evutil_ascii_strncasecmp("x", "y", 0), 0);
}

TEST(numbers_are_parsed_in_every_base)
{
    char *end;
    CHECK_EQ(evutil_strtoll("-9223372036854775808", NULL, 10), LLONG_MIN);
    CHECK_EQ(evutil_strtoll("7fz", &end, 16), 0x7f);
    CHECK_EQ(*end, 'z');
    CHECK_EQ(EV_SIZE_MAX, SIZE_MAX);
    CHECK_EQ(EV_SSIZE_MAX, SSIZE_MAX);
    CHECK_EQ(EV_SSIZE_MIN, -SSIZE_MAX - 1);
    CHECK_EQ(EV_UINT8_MAX, UCHAR_MAX);
    CHECK_EQ(EV_INT16_MIN, SHRT_MIN);
    CHECK_EQ(sizeof(ev_uint64_t) + sizeof(ev_off_t) + sizeof(ev_intptr_t), 24);
}

TEST(times_are_added_subtracted_and_compared)
{
    struct timeval a = {1, 700000}, b = {2, 600000}, c;
    evutil_timeradd(&a, &b, &c);
    CHECK(c.tv_sec == 4 && c.tv_usec == 300000);
    evutil_timersub(&b, &a, &c);
    CHECK(c.tv_sec == 0 && c.tv_usec == 900000);
    CHECK(evutil_timercmp(&a, &b, <=) && evutil_timercmp(&a, &a, ==) &&
          !evutil_timercmp(&a, &b, >));
    CHECK(evutil_timerisset(&a));
    evutil_timerclear(&a);
    CHECK(!evutil_timerisset(&a));
}

TEST(dates_are_those_of_http)
{
    char text[64];
    const struct tm tm = {
        .tm_year = 94, .tm_mon = 10, .tm_mday = 6, .tm_hour = 8, .tm_min = 49, .tm_sec = 37};
    CHECK_EQ(evutil_date_rfc1123(text, sizeof text, &tm), 29);
    CHECK_STR(text, "Sun, 06 Nov 1994 08:49:37 GMT");
    CHECK_EQ(evutil_date_rfc1123(text, 5, &tm), 29);
    CHECK_STR(text, "Sun,");
    CHECK_EQ(evutil_date_rfc1123(text, sizeof text, NULL), 29);
}

TEST(the_monotonic_clock_never_goes_back)
{
    for (int flags = 0; flags <= EV_MONOT_FALLBACK; flags++) {
        struct evutil_monotonic_timer *timer = evutil_monotonic_timer_new();
        struct timeval last, now;
        CHECK(timer != NULL);
        CHECK_EQ(evutil_configure_monotonic_time(timer, flags), 0);
        CHECK_EQ(evutil_gettime_monotonic(timer, &last), 0);
        for (int i = 0; i < 1000; i++, last = now) {
            CHECK_EQ(evutil_gettime_monotonic(timer, &now), 0);
            CHECK(evutil_timercmp(&now, &last, >=));
        }
        evutil_monotonic_timer_free(timer);
    }
}

TEST(random_bytes_differ)
{
    unsigned char a[300], b[300];
    CHECK_EQ(evutil_secure_rng_init(), 0);
    evutil_secure_rng_get_bytes(a, sizeof a);
    evutil_secure_rng_get_bytes(b, sizeof b);
    CHECK(memcmp(a, b, sizeof a) != 0);
    evutil_secure_rng_get_bytes(a, 0);
    evutil_secure_rng_add_bytes("seed", 4);
    CHECK_EQ(evutil_secure_rng_set_urandom_device_file((char *)(uintptr_t)"/dev/urandom"), -1);
}

/* ---- Sockets ---- */

static int get_option(int fd, int level, int option)
{
    int value = -1;
    socklen_t size = sizeof value;
    return getsockopt(fd, level, option, &value, &size) ? -1 : value;
}

TEST(sockets_get_their_options)
{
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    if (fd < 0)
        SKIP("no IPv6");
    CHECK_EQ(evutil_make_socket_nonblocking(fd), 0);
    CHECK_EQ(evutil_make_socket_nonblocking(fd), 0);
    CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
    CHECK_EQ(evutil_make_socket_closeonexec(fd), 0);
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    CHECK_EQ(evutil_make_listen_socket_reuseable(fd), 0);
    CHECK_EQ(get_option(fd, SOL_SOCKET, SO_REUSEADDR), 1);
    CHECK_EQ(evutil_make_listen_socket_reuseable_port(fd), 0);
    CHECK_EQ(get_option(fd, SOL_SOCKET, SO_REUSEPORT), 1);
    CHECK_EQ(evutil_make_listen_socket_ipv6only(fd), 0);
    CHECK_EQ(get_option(fd, IPPROTO_IPV6, IPV6_V6ONLY), 1);
    CHECK_EQ(evutil_make_tcp_listen_socket_deferred(fd), 0);
    CHECK(get_option(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT) > 0);
    CHECK_EQ(evutil_closesocket(fd), 0);
    CHECK_EQ(fcntl(fd, F_GETFD), -1);
}

TEST(a_closed_descriptor_gives_errors)
{
    evutil_socket_t fds[2];
    errno = 0;
    CHECK_EQ(evutil_make_socket_nonblocking(-1), -1);
    CHECK_EQ(EVUTIL_SOCKET_ERROR(), EBADF);
    CHECK_EQ(evutil_make_socket_closeonexec(-1), -1);
    CHECK_EQ(evutil_make_listen_socket_reuseable(-1), -1);
    CHECK_EQ(evutil_make_listen_socket_reuseable_port(-1), -1);
    CHECK_EQ(evutil_make_listen_socket_ipv6only(-1), -1);
    CHECK_EQ(evutil_make_tcp_listen_socket_deferred(-1), -1);
    CHECK_EQ(evutil_closesocket(EVUTIL_INVALID_SOCKET), -1);
    CHECK_EQ(evutil_socket_geterror(-1), EBADF);
    CHECK_EQ(evutil_socketpair(AF_INET, SOCK_STREAM, 0, fds), -1);
    EVUTIL_SET_SOCKET_ERROR(EAGAIN);
    CHECK_EQ(errno, EAGAIN);
    CHECK_STR(evutil_socket_error_to_string(EAGAIN), "Resource temporarily unavailable");
}

TEST(a_pair_of_sockets_is_connected)
{
    evutil_socket_t fds[2];
    char byte = 'x';
    CHECK_EQ(evutil_socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    CHECK_EQ(write(fds[0], "a", 1), 1);
    CHECK_EQ(read(fds[1], &byte, 1), 1);
    CHECK_EQ(byte, 'a');
    EVUTIL_CLOSESOCKET(fds[0]);
    EVUTIL_CLOSESOCKET(fds[1]);
}

/* ---- Addresses ---- */

static const char *const addresses[] = {
    "[::1]:80",
    "[::1]",
    "::1",
    "1.2.3.4:80",
    "1.2.3.4",
    "1.2.3.4:",
    "1.2.3.4:0",
    "1.2.3.4:65535",
    "1.2.3.4:65536",
    "1.2.3.4:80x",
    "1.2.3.4: 80",
    "[::1]x",
    "[::1",
    "[1.2.3.4]:80",
    ":80",
    "::",
    "",
    "[]",
    "fe80::1%lo",
    "fe80::1%7",
    "fe80::1%",
    "fe80::1%lox",
    "[fe80::1%7]:9",
    "1.2.3:4",
    "1.2.3.4:-5",
    "[::1]:",
    "::1:80",
    "01.002.3.4",
    "1.2.3.256",
    "1.2.3.4.5",
    "::ffff:1.2.3.4",
    "1::2::3",
    "12345::",
    "a.b.c.d",
    "1..2.3",
};

TEST(texts_are_parsed_as_addresses_and_ports)
{
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        struct sockaddr_storage storage;
        struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)&storage;
        int length = sizeof storage;
        int result = evutil_parse_sockaddr_port(addresses[i], (struct sockaddr *)&storage, &length);
        printf("%s: %d", addresses[i], result);
        if (!result) {
            char host[INET6_ADDRSTRLEN] = "";
            bool is_ipv6 = storage.ss_family == AF_INET6;
            const void *bytes = is_ipv6 ? (const void *)&ipv6->sin6_addr
                                        : (const void *)&((struct sockaddr_in *)&storage)->sin_addr;
            CHECK(evutil_inet_ntop(storage.ss_family, bytes, host, sizeof host) == host);
            printf(" %s port %d scope %u length %d", host, ntohs(ipv6->sin6_port),
                   is_ipv6 ? ipv6->sin6_scope_id : 0, length);
        }
        printf("\n");
    }
}

TEST(an_address_needs_its_room)
{
    struct sockaddr_storage storage;
    struct sockaddr *out = (struct sockaddr *)&storage;
    int length = sizeof(struct sockaddr_in) - 1;
    CHECK_EQ(evutil_parse_sockaddr_port("1.2.3.4:5", out, &length), -1);
    length = sizeof(struct sockaddr_in);
    CHECK_EQ(evutil_parse_sockaddr_port("1.2.3.4:5", out, &length), 0);
    CHECK_EQ(evutil_parse_sockaddr_port("::1", out, &length), -1);
    char text[300];
    memset(text, '1', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    length = sizeof storage;
    CHECK_EQ(evutil_parse_sockaddr_port(text, out, &length), -1);
    text[0] = '[';
    text[290] = ']';
    CHECK_EQ(evutil_parse_sockaddr_port(text, out, &length), -1);
}

TEST(scopes_are_numbers_or_interfaces)
{
    static const char *const texts[] = {"::1", "::1%1", "::1%lo", "::1%", "::1%x1", "1.2.3.4%1"};
    unsigned char bytes[16];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        unsigned scope = 77;
        int result = evutil_inet_pton_scope(AF_INET6, texts[i], bytes, &scope);
        printf("%s: %d %u\n", texts[i], result, scope);
        printf("%s: %d\n", texts[i], evutil_inet_pton_scope(AF_INET, texts[i], bytes, &scope));
    }
    unsigned scope;
    CHECK_EQ(evutil_inet_pton_scope(AF_UNIX, "x", bytes, &scope), -1);
    CHECK_EQ(evutil_inet_pton(AF_UNIX, "x", bytes), -1);
    CHECK_EQ(evutil_inet_pton(AF_INET, "1.2.3.4", bytes), 1);
}

static int sign(int value)
{
    return (value > 0) - (value < 0);
}

TEST(addresses_are_compared_with_ports_or_without)
{
    static const char *const texts[] = {"1.2.3.4:80", "1.2.3.4:81", "1.2.3.5:80", "[::1]:80",
                                        "[::2]:80"};
    struct sockaddr_storage a, b;
    for (size_t i = 0; i < 25; i++) {
        int length = sizeof a;
        CHECK_EQ(evutil_parse_sockaddr_port(texts[i / 5], (struct sockaddr *)&a, &length), 0);
        length = sizeof b;
        CHECK_EQ(evutil_parse_sockaddr_port(texts[i % 5], (struct sockaddr *)&b, &length), 0);
        for (int include_port = 0; include_port < 2; include_port++)
            printf("%d ", sign(evutil_sockaddr_cmp((struct sockaddr *)&a, (struct sockaddr *)&b,
                                                   include_port)));
    }
    printf("\n");
    const struct sockaddr other = {.sa_family = AF_UNIX};
    CHECK_EQ(evutil_sockaddr_cmp(&other, &other, 1), 1);
}

/* ---- Host names ---- */

TEST(numeric_hosts_are_resolved)
{
    struct evutil_addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = EVUTIL_AI_NUMERICHOST};
    struct evutil_addrinfo *result = NULL;
    CHECK_EQ(evutil_getaddrinfo("127.0.0.1", "80", &hints, &result), 0);
    CHECK_EQ(result->ai_family, AF_INET);
    CHECK_EQ(((struct sockaddr_in *)result->ai_addr)->sin_port, htons(80));
    CHECK(!result->ai_next);
    evutil_freeaddrinfo(result);
    CHECK_EQ(evutil_getaddrinfo("no.number", "80", &hints, &result), EVUTIL_EAI_NONAME);
    CHECK_EQ(evutil_getaddrinfo(NULL, NULL, &hints, &result), EVUTIL_EAI_NONAME);
    hints.ai_family = AF_INET6;
    CHECK_EQ(evutil_getaddrinfo("127.0.0.1", "80", &hints, &result), EVUTIL_EAI_ADDRFAMILY);
    hints.ai_family = 77;
    CHECK_EQ(evutil_getaddrinfo("127.0.0.1", "80", &hints, &result), EVUTIL_EAI_FAMILY);
}

TEST(errors_of_resolution_have_texts)
{
    static const int errors[] = {0,
                                 EVUTIL_EAI_ADDRFAMILY,
                                 EVUTIL_EAI_AGAIN,
                                 EVUTIL_EAI_BADFLAGS,
                                 EVUTIL_EAI_FAIL,
                                 EVUTIL_EAI_FAMILY,
                                 EVUTIL_EAI_MEMORY,
                                 EVUTIL_EAI_NODATA,
                                 EVUTIL_EAI_NONAME,
                                 EVUTIL_EAI_SERVICE,
                                 EVUTIL_EAI_SOCKTYPE,
                                 EVUTIL_EAI_SYSTEM,
                                 EVUTIL_EAI_CANCEL,
                                 12345};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        printf("%d %s\n", errors[i], evutil_gai_strerror(errors[i]));
}
