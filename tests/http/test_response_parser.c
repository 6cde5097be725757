#include "http/response_parser.h"

#include "tests/test.h"

/* The result of parsing a response. */
struct outcome {
    ssize_t result; /* number of bytes used, or -errno */
    bool is_done, keep_alive;
    int status;
    uint64_t body_bytes;
};

/* Parse the text in two parts, split at `first`; if by_bytes, the second part byte by byte. */
static struct outcome feed_split(const char *text, size_t first, bool by_bytes, bool is_head)
{
    struct gs_http_response_parser parser;
    gs_http_response_parser_init(&parser, is_head);
    size_t n = strlen(text), at = 0;
    ssize_t used = 0;
    while (at < n && !gs_http_response_parser_is_done(&parser)) {
        size_t part = at < first ? first - at : by_bytes ? 1 : n - at;
        char *copy = malloc(part); /* exactly this size, so that a sanitizer detects overreads */
        memcpy(copy, text + at, part);
        used = gs_http_response_parser_feed(&parser, copy, part);
        free(copy);
        if (used < 0)
            return (struct outcome){.result = used};
        if ((size_t)used < part && !gs_http_response_parser_is_done(&parser))
            return (struct outcome){.result = -EBADE};
        at += (size_t)used;
    }
    return (struct outcome){(ssize_t)at, gs_http_response_parser_is_done(&parser),
                            parser.keep_alive, parser.status, parser.body_bytes};
}

static bool is_same(struct outcome a, struct outcome b)
{
    return a.result == b.result && a.is_done == b.is_done && a.keep_alive == b.keep_alive &&
           a.status == b.status && a.body_bytes == b.body_bytes;
}

/* Returns the outcome for the whole text, after checking that every split has the same outcome. */
static struct outcome feed(const char *text, bool is_head)
{
    struct outcome full = feed_split(text, strlen(text), false, is_head);
    for (size_t first = 0; first < strlen(text); first++) {
        CHECK(is_same(feed_split(text, first, false, is_head), full));
        CHECK(is_same(feed_split(text, first, true, is_head), full));
    }
    return full;
}

static void check_done(const char *text, int status, uint64_t body_bytes, bool keep_alive)
{
    struct outcome found = feed(text, false);
    CHECK_EQ(found.result, strlen(text));
    CHECK(found.is_done);
    CHECK_EQ(found.status, status);
    CHECK_EQ(found.body_bytes, body_bytes);
    CHECK_EQ(found.keep_alive, keep_alive);
}

static void check_refused(const char *text)
{
    struct outcome found = feed(text, false);
    if (found.result != -EPROTO)
        fprintf(stderr, "accepted: %s\n", text);
    CHECK_EQ(found.result, -EPROTO);
}

TEST(response_with_a_length_ends_after_its_body)
{
    check_done("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, 5, true);
    check_done("HTTP/1.1 200 OK\r\ncontent-length:5 \t\r\nServer: x\r\n\r\nhello", 200, 5, true);
    check_done("HTTP/1.1 404 Not Found\r\nCONTENT-LENGTH:\t 0\r\n\r\n", 404, 0, true);
    check_done("HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", 200, 1, true);
    check_done("HTTP/1.1 200 OK\nContent-Length: 1\n\nx", 200, 1, true);
}

TEST(bytes_after_a_response_are_not_consumed)
{
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n";
    struct outcome found = feed(text, false);
    CHECK(found.is_done);
    CHECK_EQ(found.result, strstr(text, "hiHTTP") + 2 - text);
}

TEST(connection_field_and_version_determine_keep_alive)
{
    check_done("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 200, 0, false);
    check_done("HTTP/1.1 200 OK\r\nConnection: a, CLOSE ,b\r\nContent-Length: 0\r\n\r\n", 200, 0,
               false);
    check_done("HTTP/1.1 200 OK\r\nConnection: closer\r\nContent-Length: 0\r\n\r\n", 200, 0, true);
    check_done("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 200, 0, false);
    check_done("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n", 200, 0,
               true);
    check_done("HTTP/1.1 200 OK\r\nConnection:\r\nConnection: ,,\r\nContent-Length: 0\r\n\r\n", 200,
               0, true);
}

TEST(chunks_are_counted_without_their_framing)
{
    check_done("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
               "5\r\nhello\r\nA;name=\"value\"\r\n0123456789\r\n0\r\n\r\n",
               200, 15, true);
    check_done("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n"
               "000f \r\n0123456789abcde\r\n0;last\r\nTrailer: x\r\nOther: y\r\n\r\n",
               200, 15, true);
    check_done("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"
               "Connection: close\r\n\r\n1\r\n\n\r\n0\r\n\r\n",
               200, 1, false);
}

TEST(response_without_framing_ends_with_the_connection)
{
    static const char *const texts[] = {
        "HTTP/1.1 200 OK\r\n\r\nsome text",
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nsome text",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nsome text",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct gs_http_response_parser parser;
        gs_http_response_parser_init(&parser, false);
        CHECK_EQ(gs_http_response_parser_feed(&parser, texts[i], strlen(texts[i])),
                 strlen(texts[i]));
        CHECK(!gs_http_response_parser_is_done(&parser));
        CHECK_EQ(parser.body_bytes, 9);
        CHECK(!parser.keep_alive);
        CHECK_EQ(gs_http_response_parser_end(&parser), 0);
        CHECK(gs_http_response_parser_is_done(&parser));
    }
}

TEST(response_truncated_by_the_end_of_the_connection_is_reported)
{
    static const char *const texts[] = {
        "",
        "HT",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct gs_http_response_parser parser;
        gs_http_response_parser_init(&parser, false);
        CHECK_EQ(gs_http_response_parser_feed(&parser, texts[i], strlen(texts[i])),
                 strlen(texts[i]));
        CHECK_EQ(gs_http_response_parser_has_started(&parser), texts[i][0] != '\0');
        CHECK_EQ(gs_http_response_parser_end(&parser), -ECONNABORTED);
    }
}

TEST(responses_without_a_body_end_after_their_fields)
{
    check_done("HTTP/1.1 204 No Content\r\n\r\n", 204, 0, true);
    check_done("HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n", 304, 0, true);
    struct outcome head = feed("HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n", true);
    CHECK(head.is_done && head.keep_alive);
    CHECK_EQ(head.body_bytes, 0);
    head = feed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", true);
    CHECK(head.is_done && head.keep_alive);
    head = feed("HTTP/1.1 200 OK\r\n\r\n", true);
    CHECK(head.is_done && head.keep_alive);
}

TEST(interim_responses_are_skipped)
{
    check_done("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\nConnection: "
               "close\r\n\r\n"
               "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
               200, 1, true);
    struct outcome head =
        feed("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n", true);
    CHECK(head.is_done);
}

TEST(long_fields_are_skipped_for_any_split)
{
    char text[2048];
    snprintf(text, sizeof text,
             "HTTP/1.1 200 OK\r\nSet-Cookie: %0300d\r\nContent-Length: 3\r\n\r\nabc", 0);
    check_done(text, 200, 3, true);
    /* A known field with an excessively long value. */
    snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Length: %300d\r\n\r\nabc", 3);
    check_refused(text);
}

TEST(malformed_responses_are_refused)
{
    check_refused("\r\n");
    check_refused("HTTP/2.0 200 OK\r\n\r\n");
    check_refused("http/1.1 200 OK\r\n\r\n");
    check_refused("HTTP/1.1  200 OK\r\n\r\n");
    check_refused("HTTP/1.1 20 OK\r\n\r\n");
    check_refused("HTTP/1.1 2000 OK\r\n\r\n");
    check_refused("HTTP/1.1 099 OK\r\n\r\n");
    check_refused("HTTP/1.1 101 Switching Protocols\r\n\r\n");
    check_refused("HTTP/1.1 20x OK\r\n\r\n");
    check_refused("HTTP/1.1 200 OK\r\nno colon\r\n\r\n");
    check_refused("HTTP/1.1 200 OK\r\n: no name\r\n\r\n");
}

TEST(unreliable_lengths_are_refused)
{
    static const char *const values[] = {"",
                                         "-1",
                                         "+1",
                                         "0x10",
                                         "1 2",
                                         "1,2",
                                         "1\r\n 1",
                                         "\r\n \r\n ",
                                         ",",
                                         "1e3",
                                         "3.0",
                                         "9999999999999999999",
                                         "18446744073709551617"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char text[256];
        snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n", values[i]);
        check_refused(text);
    }
    check_refused("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n");
    check_done("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", 200, 1, true);
    check_done("HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\nx", 200, 1, true);
    check_refused("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n");
    check_refused("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n");
    check_refused("HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n\r\n");
}

/* The value of a folded field is that without the line ends (RFC 9112, section 5.2). */
TEST(folded_fields_are_accepted)
{
    static const char *const fields[] = {
        "X: y\r\n folded\r\n\tagain\r\nContent-Length: 3\r\n",
        "X: y\n folded\nContent-Length: 3\n",
        "Content-Length:\r\n 3\r\n",
        "Content-Length:\r\n \r\n\t3\r\nX: y\r\n",
        "Content-Length: 3\r\n  \r\n",
        "Connection: a,\r\n b\r\nX:\r\n Content-Length: 4\r\nContent-Length: 3\r\n",
        " before any field\r\nContent-Length: 3\r\n",
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char text[256];
        snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\n%s\r\nabc", fields[i]);
        check_done(text, 200, 3, true);
    }
    check_done("HTTP/1.1 200 OK\r\nConnection:\r\n keep-alive,\r\n close\r\n"
               "Transfer-Encoding:\r\n gzip,\r\n chunked\r\n\r\n0\r\nT: x\r\n y\r\n\r\n",
               200, 0, false);
}

TEST(what_common_clients_tolerate_is_accepted)
{
    check_done("HTTP/1.1 200 OK\r\nContent-Length \t: 3\r\n\r\nabc", 200, 3, true);
    check_done("HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 3\r\n\r\nabc",
               200, 3, true);
    /* The connection cannot be trusted after these. */
    check_done("HTTP/1.1 200 OK\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n"
               "1\r\nx\r\n0\r\n\r\n",
               200, 1, false);
    check_done("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n"
               "1\r\nx\r\n0\r\n\r\n",
               200, 1, false);
}

TEST(a_refused_response_has_a_reason)
{
    static const char *const rows[][2] = {
        {"SSH-2.0\r\n", "status line"},
        {"HTTP/1.1 101 Switching\r\n", "101"},
        {"HTTP/1.1 200 OK\r\nno colon\r\n", "colon"},
        {"HTTP/1.1 200 OK\r\n:x\r\n", "name"},
        {"HTTP/1.1 200 OK\r\nContent-Length: x\r\n", "not a number"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n", "differ"},
        {"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", "empty"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n\r\n", "empty"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", "hexadecimal"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n", "longer"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gs_http_response_parser parser;
        gs_http_response_parser_init(&parser, false);
        CHECK(!parser.reason);
        CHECK(gs_http_response_parser_feed(&parser, rows[i][0], strlen(rows[i][0])) < 0);
        if (!parser.reason || !strstr(parser.reason, rows[i][1]))
            TEST_FAIL("\"%s\" was refused: %s", rows[i][0], parser.reason);
    }
}

TEST(bad_chunks_are_refused)
{
    static const char *const bodies[] = {
        "\r\n",
        "x\r\n",
        "-1\r\n",
        "+1\r\n",
        "5x\r\n",
        "0x5\r\n",
        "10000000000000000\r\n",
        ";x\r\n",
        "3\r\nabcd\r\n",
        "3\r\nabcX",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char text[256];
        snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\n",
                 bodies[i]);
        check_refused(text);
    }
}

TEST(endless_header_is_refused)
{
    struct gs_http_response_parser parser;
    ssize_t used = 0;
    gs_http_response_parser_init(&parser, false);
    for (int i = 0; i < 10000 && used >= 0; i++)
        used = gs_http_response_parser_feed(&parser, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    CHECK_EQ(used, -EMSGSIZE);
    gs_http_response_parser_init(&parser, false);
    used = gs_http_response_parser_feed(&parser, "HTTP/1.1 200 OK\r\nX: ", 20);
    for (int i = 0; i < 10000 && used >= 0; i++)
        used = gs_http_response_parser_feed(&parser, "0123456789", 10);
    CHECK_EQ(used, -EMSGSIZE);
}

TEST(body_of_many_chunks_is_not_limited)
{
    struct gs_http_response_parser parser;
    gs_http_response_parser_init(&parser, false);
    CHECK(gs_http_response_parser_feed(
              &parser, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 47) == 47);
    for (int i = 0; i < 20000; i++)
        CHECK_EQ(gs_http_response_parser_feed(&parser, "1\r\nx\r\n", 6), 6);
    CHECK_EQ(gs_http_response_parser_feed(&parser, "0\r\n\r\n", 5), 5);
    CHECK(gs_http_response_parser_is_done(&parser));
    CHECK_EQ(parser.body_bytes, 20000);
}
