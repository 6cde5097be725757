/* Responses: how their bodies are delimited, cut, split and malformed. */
#include "http_client/decoder.h"
#include "tests/http_client/scripted.h"

/* The first test of the program: there has been no client. */
THREAD_TEST(before_a_failure_there_is_a_text_too, run_on_one)
{
    MUST(gs_http_client_error()[0]);
}

SCRIPT_TEST(a_page_is_got_with_its_status_and_fields)
{
    script.reply = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-One:  a b \r\nx-two: 2\r\n\r\nhello";
    struct gs_http_response *response = get("/page?x=y#fragment");
    MUST_EQ(response->status, 200);
    MUST_EQ(response->content_length, 5);
    MUST_EQ(response->field_count, 3);
    MUST_STR(gs_http_response_field(response, "x-one"), "a b");
    MUST_STR(gs_http_response_field(response, "X-Two"), "2");
    MUST(!gs_http_response_field(response, "x-three"));
    MUST_STR(response->url, url_of("/page?x=y"));
    must_end_with(response, "hello");
    MUST_CONTAIN(seen[0], "GET /page?x=y HTTP/1.1\r\nHost: 127.0.0.1:");
    MUST_CONTAIN(seen[0], "\r\nUser-Agent: gossamer/");
    MUST_EQ(strstr(seen[0], "\r\nAccept-Encoding: ") != NULL, gs_http_client_codings[0] != '\0');
}

static const struct {
    const char *reply, *body;
    bool is_reusable;
} replies[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "abc", true},
    {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", true},
    {"HTTP/1.1 204 No Content\r\n\r\n", "", true},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: "
     "x\r\n\r\n",
     "abcde", true},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", true},
    {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", "x", false},
    {"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", "x", false},
    {"HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\nx", "x", true},
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
     "x", true},
    {"HTTP/1.1 404 Not Found\nContent-Length: 2\nA: b\n c\n\nno", "no", true},
};

/* The connection is used by the next request if it may be. */
SCRIPT_TEST(each_delimiter_of_a_body_is_understood_at_once_and_byte_by_byte)
{
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        for (size_t step = 0; step < 3; step++) {
            unsigned before = connection_count;
            new_client(NULL);
            script.reply = replies[i].reply;
            script.step = step;
            script.closes = !replies[i].is_reusable;
            must_get("/", replies[i].body);
            must_get("/", replies[i].body);
            MUST_EQ(connection_count - before, replies[i].is_reusable ? 1 : 2);
        }
    }
}

SCRIPT_TEST(a_body_without_length_ends_with_the_connection)
{
    script.reply = "HTTP/1.1 200 OK\r\nA: b\r\n\r\nall there is";
    script.closes = true;
    struct gs_http_response *response = get("/");
    MUST_EQ(response->content_length, GS_HTTP_UNKNOWN);
    must_end_with(response, "all there is");
}

SCRIPT_TEST(a_response_that_is_cut_anywhere_is_an_error)
{
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        script.reply = replies[i].reply;
        for (script.cut = 1; script.cut < strlen(replies[i].reply); script.cut++)
            MUST_EQ(get_error("/"), -ECONNRESET);
        MUST_CONTAIN(gs_http_client_error(), "has ended within its ");
    }
}

SCRIPT_TEST(head_and_304_have_no_body_whatever_they_announce)
{
    script.reply = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nContent-Encoding: gzip\r\n\r\n";
    struct gs_http_client_request request = {.method = "HEAD", .url = url_of("/")};
    for (int i = 0; i < 2; i++) {
        struct gs_http_response *response = fetch(&request);
        MUST_EQ(response->content_length, 1000);
        MUST(!response->is_decoded);
        must_end_with(response, "");
    }
    script.reply = "HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\n\r\n";
    must_get("/", "");
    MUST_EQ(connection_count, 1);
    MUST_CONTAIN(seen[0], "HEAD / HTTP/1.1");
}

static const struct {
    const char *reply;
    int err;
} malformed[] = {
    {"HTTP/2.0 200 OK\r\n\r\n", -EPROTO},
    {"SSH-2.0-OpenSSH\r\n", -EPROTO},
    {"HTTP/1.1 101 Switching\r\n\r\n", -EPROTO},
    {"HTTP/1.1 099 x\r\n\r\n", -EPROTO},
    {"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", -EPROTO},
    {"HTTP/1.1 200 OK\r\n: no name\r\n\r\n", -EPROTO},
    {"HTTP/1.1 200 OK\r\nA: b\001c\r\n\r\n", -EPROTO},
    {"HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", -EPROTO},
    {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", -EPROTO},
    {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", -EPROTO},
    {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", -EPROTO},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", -EPROTO},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", -EPROTO},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", -EPROTO},
};

SCRIPT_TEST(a_malformed_response_is_an_error_with_a_text)
{
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        script.reply = malformed[i].reply;
        for (script.step = 0; script.step < 2; script.step++) {
            MUST_EQ(get_error("/"), malformed[i].err);
            MUST_CONTAIN(gs_http_client_error(), "the response of http://127.0.0.1:");
        }
    }
}

/* A server that never ends its head. */
static const char *endless;
static void send_endlessly(int fd, unsigned number)
{
    const char *part = endless;
    (void)number;
    if (!next_request(fd) || !say(fd, "HTTP/1.1 200 OK\r\n"))
        return;
    while (say(fd, part))
        ;
}

SCRIPT_TEST(an_endless_head_is_an_error)
{
    static const char *const parts[] = {"X: y\r\n", "x",
                                        "X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n y\r\n",
                                        "\r\nHTTP/1.1 103 Hints\r\n"};
    script.serve = send_endlessly;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        endless = parts[i];
        int err = get_error("/");
        MUST(err == -EMSGSIZE || (i == 3 && err == 0));
    }
}

static void send_interim_endlessly(int fd, unsigned number)
{
    (void)number;
    while (next_request(fd))
        while (say(fd, "HTTP/1.1 100 Continue\r\n\r\n"))
            ;
}

SCRIPT_TEST(endless_interim_responses_are_an_error)
{
    script.serve = send_interim_endlessly;
    MUST_EQ(get_error("/"), -EMSGSIZE);
}

SCRIPT_TEST(more_than_256_fields_are_an_error)
{
    static char reply[4000];
    char *at = stpcpy(reply, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n");
    for (int i = 0; i < 255; i++)
        at = stpcpy(at, "A: b\r\n");
    strcpy(at, "\r\n");
    script.reply = reply;
    must_get("/", "");
    strcpy(at, "C: d\r\n\r\n");
    MUST_EQ(get_error("/"), -EMSGSIZE);
}

SCRIPT_TEST(a_body_is_read_in_parts_and_with_a_limit)
{
    char bytes[4], *text;
    script.reply = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789";
    struct gs_http_response *response = get("/");
    MUST_EQ(gs_http_response_read(response, bytes, 4, after(PATIENCE_NS)), 4);
    MUST(!memcmp(bytes, "0123", 4));
    MUST_EQ(gs_http_response_read(response, bytes, 0, 0), 0);
    must_end_with(response, "456789");
    response = get("/");
    MUST_EQ(gs_http_response_read_all(response, 9, after(PATIENCE_NS), &text), -EMSGSIZE);
    MUST_CONTAIN(gs_http_client_error(), "longer than 9 bytes");
    gs_http_response_free(response);
    response = get("/");
    MUST_EQ(gs_http_response_read_all(response, 10, after(PATIENCE_NS), &text), 10);
    MUST_STR(text, "0123456789");
    free(text);
    MUST_EQ(gs_http_response_read(response, bytes, 4, 0), 0);
    gs_http_response_free(response);
}

SCRIPT_TEST(urls_that_are_no_http_urls_are_refused)
{
    static const char *const urls[] = {"ftp://h/",     "localhost/",       "http://",
                                       "http://a b/",  "http://h:x/",      "/path",
                                       "http://[::1/", "http://h/\r\nA: b"};
    struct gs_http_response *response = NULL;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        MUST_EQ(gs_http_get(client, urls[i], after(PATIENCE_NS), &response), -EINVAL);
        MUST_CONTAIN(gs_http_client_error(), "the URL ");
        MUST(!strchr(gs_http_client_error(), '\n'));
    }
    MUST_EQ(gs_http_get(client, "https://localhost/", after(PATIENCE_NS), &response),
            -EPROTONOSUPPORT);
    MUST_CONTAIN(gs_http_client_error(), "gossamer-tls");
    MUST(!response);
}

SCRIPT_TEST(errors_show_no_user_and_no_password)
{
    struct gs_http_response *response = NULL;
    MUST_EQ(gs_http_get(client, "http://user:p@ss@h:x/@", after(PATIENCE_NS), &response), -EINVAL);
    MUST_CONTAIN(gs_http_client_error(), "the URL http://h:x/@ ");
}

SCRIPT_TEST(where_nobody_listens_the_error_says_so)
{
    char url[64];
    struct gs_http_response *response;
    struct sockaddr_in address;
    gs_close(listen_anywhere(&address));
    snprintf(url, sizeof url, "http://127.0.0.1:%u/", ntohs(address.sin_port));
    MUST_EQ(gs_http_get(client, url, after(PATIENCE_NS), &response), -ECONNREFUSED);
    MUST_CONTAIN(gs_http_client_error(), "cannot connect to 127.0.0.1:");
    MUST_CONTAIN(gs_http_client_error(), "Connection refused");
}
