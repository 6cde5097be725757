/* What is sent: bodies, fields, authorization, and what redirects change of it. */
#include "tests/http_client/scripted.h"

static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

SCRIPT_TEST(a_body_in_memory_has_a_length)
{
    const struct gs_http_field type = {"Content-Type", "text/plain"};
    struct gs_http_client_request request = {
        .url = url_of("/"), .fields = &type, .field_count = 1, .body = "hello", .body_n = 5};
    script.reply = ok;
    must_end_with(fetch(&request), "ok");
    MUST_CONTAIN(seen[0], "POST / HTTP/1.1\r\n");
    MUST_CONTAIN(seen[0], "\r\nContent-Type: text/plain\r\n");
    MUST_CONTAIN(seen[0], "\r\nContent-Length: 5\r\n\r\nhello");
    request = (struct gs_http_client_request){.method = "POST", .url = url_of("/")};
    must_end_with(fetch(&request), "ok");
    MUST_CONTAIN(seen[1], "\r\nContent-Length: 0\r\n\r\n");
}

/* The server sends back how long the body is. */
static void count_body(int fd, unsigned number)
{
    static const size_t size = 4096;
    char *text = malloc(size + 1), answer[200];
    size_t n = 0, total = 0, length = 0;
    const char *end = NULL;
    (void)number;
    while (!end) {
        ssize_t more = gs_recv(fd, text + n, size - n, 0, after(PATIENCE_NS));
        if (more <= 0)
            goto free_text;
        n += (size_t)more;
        text[n] = '\0';
        end = strstr(text, "\r\n\r\n");
    }
    length = strtoul(strcasestr(text, "content-length: ") + 16, NULL, 10);
    total = n - (size_t)(end + 4 - text);
    while (total < length) {
        ssize_t more = gs_recv(fd, text, size, 0, after(PATIENCE_NS));
        MUST(more > 0);
        total += (size_t)more;
    }
    MUST_EQ(total, length);
    snprintf(answer, sizeof answer,
             "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%zu",
             snprintf(NULL, 0, "%zu", total), total);
    say(fd, answer);
free_text:
    free(text);
}

struct source {
    size_t left, part;
    int err;
};

static ssize_t read_source(void *data, void *bytes, size_t n, uint64_t deadline_ns)
{
    struct source *source = data;
    (void)deadline_ns;
    gs_thread_yield();
    if (!source->left && source->err)
        return source->err;
    n = n < source->part ? n : source->part;
    n = n < source->left ? n : source->left;
    memset(bytes, 'x', n);
    source->left -= n;
    return (ssize_t)n;
}

SCRIPT_TEST(a_large_body_arrives_from_memory_and_from_a_function)
{
    static char body[3000000];
    struct source source = {sizeof body, 100000, 0};
    struct gs_http_client_request request = {
        .url = url_of("/"), .body = body, .body_n = sizeof body};
    script.serve = count_body;
    must_end_with(fetch(&request), "3000000");
    request = (struct gs_http_client_request){
        .url = url_of("/"), .read_body = read_source, .data = &source, .body_length = sizeof body};
    must_end_with(fetch(&request), "3000000");
}

SCRIPT_TEST(a_body_of_unknown_length_is_sent_in_chunks)
{
    struct source source = {7, 5, 0};
    const struct gs_http_client_request request = {
        .method = "PUT", .url = url_of("/"), .read_body = read_source, .data = &source};
    script.reply = ok;
    must_end_with(fetch(&request), "ok");
    MUST_CONTAIN(seen[0], "PUT / HTTP/1.1\r\n");
    MUST_CONTAIN(seen[0],
                 "\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nxxxxx\r\n2\r\nxx\r\n0\r\n\r\n");
}

SCRIPT_TEST(a_body_that_fails_or_has_another_length_ends_the_request)
{
    static const struct source sources[] = {{3, 2, -EIO}, {3, 2, -EPIPE}, {4, 2, 0}, {6, 2, 0}};
    struct gs_http_response *response = NULL;
    script.reply = ok;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct source source = sources[i];
        const struct gs_http_client_request request = {
            .url = url_of("/"), .read_body = read_source, .data = &source, .body_length = 5};
        int err = gs_http_fetch(client, &request, after(PATIENCE_NS), &response);
        MUST_EQ(err, sources[i].err ? sources[i].err : -EINVAL);
        MUST_CONTAIN(gs_http_client_error(), "the ");
    }
    must_get("/", "ok");
}

/* It answers and closes before the body has arrived. */
static void refuse_early(int fd, unsigned number)
{
    char bytes[1000];
    (void)number;
    MUST(gs_recv(fd, bytes, sizeof bytes, 0, after(PATIENCE_NS)) > 0);
    say(fd, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig");
    MUST_EQ(shutdown(fd, SHUT_WR), 0);
    for (int i = 0; i < 20; i++)
        gs_thread_end_turn();
}

SCRIPT_TEST_WITH(an_early_response_is_returned_or_the_connection_breaks, run_on_one)
{
    static char body[8 << 20];
    struct gs_http_response *response = NULL;
    const struct gs_http_client_request request = {
        .url = url_of("/"), .body = body, .body_n = sizeof body};
    script.serve = refuse_early;
    int err = gs_http_fetch(client, &request, after(PATIENCE_NS), &response);
    MUST(!err || err == -EPIPE || err == -ECONNRESET);
    if (!err)
        MUST_EQ(response->status, 413);
    gs_http_response_free(response);
}

/* It answers without reading the body, and waits for the end of the connection. */
static struct gs_semaphore client_is_done;
static void refuse_without_reading(int fd, unsigned number)
{
    (void)number;
    say(fd, "HTTP/1.1 103 Early Hints\r\n\r\n");
    say(fd, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig");
    MUST_EQ(gs_semaphore_wait(&client_is_done, after(PATIENCE_NS)), 0);
}

SCRIPT_TEST(a_response_ends_the_sending_of_a_body_that_nobody_reads)
{
    static char body[16 << 20];
    struct source source = {SIZE_MAX, 16384, 0};
    const struct gs_http_client_request requests[] = {
        {.url = url_of("/"), .body = body, .body_n = sizeof body},
        {.url = url_of("/"), .read_body = read_source, .data = &source}};
    script.serve = refuse_without_reading;
    for (int i = 0; i < 2; i++) {
        struct gs_http_response *response = fetch(&requests[i]);
        MUST_EQ(response->status, 413);
        must_end_with(response, "big");
        gs_semaphore_post(&client_is_done);
    }
    MUST_EQ(connection_count, 2);
}

/* The end of a line that is malformed would be a valid line. */
static void refuse_in_parts(int fd, unsigned number)
{
    (void)number;
    say(fd, "HTTP/1.1 413 Too Large\r\nContent-Length: 3,");
    for (int i = 0; i < 20; i++)
        gs_thread_end_turn();
    say(fd, "4: x\r\n\r\nbig");
    MUST_EQ(gs_semaphore_wait(&client_is_done, after(PATIENCE_NS)), 0);
}

SCRIPT_TEST(a_malformed_response_that_ends_the_sending_of_a_body_is_an_error)
{
    static char body[16 << 20];
    struct gs_http_response *response = NULL;
    const struct gs_http_client_request request = {
        .url = url_of("/"), .body = body, .body_n = sizeof body};
    script.serve = refuse_in_parts;
    synchronise();
    int err = gs_http_fetch(client, &request, after(PATIENCE_NS), &response);
    MUST(err == -EPROTO || err == -EPIPE);
    MUST_CONTAIN(gs_http_client_error(), "is not valid: Content-Length is not a number");
    gs_semaphore_post(&client_is_done);
}

/* Interim responses do not end it. */
static void hint_and_count(int fd, unsigned number)
{
    say(fd, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n");
    gs_thread_end_turn();
    count_body(fd, number);
}

SCRIPT_TEST(an_interim_response_does_not_end_the_sending_of_a_body)
{
    static char body[3000000];
    const struct gs_http_client_request request = {
        .url = url_of("/"), .body = body, .body_n = sizeof body};
    script.serve = hint_and_count;
    must_end_with(fetch(&request), "3000000");
}

SCRIPT_TEST(fields_that_are_the_clients_or_invalid_are_refused)
{
    static const struct gs_http_field fields[] = {{"Host", "x"},
                                                  {"content-length", "1"},
                                                  {"Transfer-Encoding", "chunked"},
                                                  {"Upgrade", "x"},
                                                  {"Expect", "x"},
                                                  {"Connection", "close"},
                                                  {"a b", "x"},
                                                  {"", "x"},
                                                  {"x", "a\r\nb"},
                                                  {"x:", "y"},
                                                  {"x", "\x7f"},
                                                  {"Proxy-Authorization", "x"},
                                                  {"x\r\ny", "z"}};
    struct gs_http_response *response = NULL;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const struct gs_http_client_request request = {
            .url = url_of("/"), .fields = &fields[i], .field_count = 1};
        MUST_EQ(gs_http_fetch(client, &request, after(PATIENCE_NS), &response), -EINVAL);
        MUST_CONTAIN(gs_http_client_error(), "the field");
    }
    static const char *const methods[] = {"", "GE T", "CONNECT", "G\r\n"};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        const struct gs_http_client_request request = {.method = methods[i], .url = url_of("/")};
        MUST_EQ(gs_http_fetch(client, &request, after(PATIENCE_NS), &response), -EINVAL);
    }
    MUST_EQ(connection_count, 0);
}

SCRIPT_TEST(the_request_overrides_what_the_client_adds)
{
    static const struct gs_http_field fields[] = {
        {"user-agent", "mine"}, {"Accept-Encoding", "identity"}, {"Authorization", "Bearer x"}};
    char url[100];
    snprintf(url, sizeof url, "http://me:secret@%s/", script_url + 7);
    const struct gs_http_client_request request = {.url = url, .fields = fields, .field_count = 3};
    script.reply = ok;
    must_end_with(fetch(&request), "ok");
    MUST_CONTAIN(seen[0], "user-agent: mine\r\nAccept-Encoding: identity\r\n"
                          "Authorization: Bearer x\r\n\r\n");
}

SCRIPT_TEST(the_user_of_a_url_becomes_basic_authorization)
{
    char url[100];
    snprintf(url, sizeof url, "http://Aladdin:open%%20sesame@%s/#x", script_url + 7);
    const struct gs_http_client_request request = {.url = url};
    script.reply = ok;
    struct gs_http_response *response = fetch(&request);
    MUST_STR(response->url, url_of("/"));
    must_end_with(response, "ok");
    MUST_CONTAIN(seen[0], "\r\nAuthorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n");
}

/* ---- Redirects ---- */

static unsigned redirect_status;
static const char *redirect_location;
static unsigned redirect_times;

static void redirect(int fd, unsigned number)
{
    char reply[1000];
    (void)number;
    while (next_request(fd)) {
        if (request_count > redirect_times) {
            say(fd, ok);
            continue;
        }
        snprintf(reply, sizeof reply,
                 "HTTP/1.1 %u x\r\nLocation: %s\r\nContent-Length: 4\r\n\r\nmove", redirect_status,
                 redirect_location);
        say(fd, reply);
    }
}

static void redirect_once(unsigned status, const char *to)
{
    synchronise();
    script.serve = redirect;
    redirect_status = status;
    redirect_location = to;
    redirect_times = 1;
    request_count = 0;
    synchronise();
}

SCRIPT_TEST(a_redirect_is_followed_on_the_same_connection)
{
    static const char *const cases[][2] = {{"/next", "/next"},
                                           {"next?a=b#c", "/a/next?a=b"},
                                           {"../x", "/x"},
                                           {"?q", "/a/b?q"},
                                           {"/sp ace\xc3\xa4", "/sp%20ace%C3%A4"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        redirect_once(302, cases[i][0]);
        struct gs_http_response *response = get("/a/b");
        MUST_STR(response->url, url_of(cases[i][1]));
        must_end_with(response, "ok");
    }
    MUST_EQ(connection_count, 1);
}

static const struct {
    unsigned status;
    const char *method, *then;
    bool keeps_body;
} changes[] = {
    {301, "POST", "GET /next", false}, {302, "POST", "GET /next", false},
    {303, "POST", "GET /next", false}, {303, "PUT", "GET /next", false},
    {301, "PUT", "PUT /next", true},   {302, "DELETE", "DELETE /next", true},
    {307, "POST", "POST /next", true}, {308, "PATCH", "PATCH /next", true},
};

SCRIPT_TEST(a_request_may_have_the_host_that_a_proxy_was_asked_for)
{
    struct gs_http_client_request request = {.url = url_of("/"), .host = "example.org:81"};
    struct gs_http_response *response = NULL;
    redirect_once(302, url_of("/other"));
    must_end_with(fetch(&request), "ok");
    MUST_CONTAIN(seen[0], "Host: example.org:81\r\n");
    MUST(!strstr(seen[1], "example.org"));
    request.host = "a\r\nX: y";
    MUST_EQ(gs_http_fetch(client, &request, after(PATIENCE_NS), &response), -EINVAL);
    MUST_CONTAIN(gs_http_client_error(), "the host");
}

SCRIPT_TEST(methods_and_bodies_change_as_in_browsers)
{
    static const struct gs_http_field type = {"Content-Type", "text/plain"};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const struct gs_http_client_request request = {.method = changes[i].method,
                                                       .url = url_of("/a"),
                                                       .fields = &type,
                                                       .field_count = 1,
                                                       .body = "data",
                                                       .body_n = 4};
        redirect_once(changes[i].status, "/next");
        must_end_with(fetch(&request), "ok");
        MUST(!strncmp(seen[1], changes[i].then, strlen(changes[i].then)));
        MUST_EQ(strstr(seen[1], "data") != NULL, changes[i].keeps_body);
        MUST_EQ(strstr(seen[1], "Content-Type") != NULL, changes[i].keeps_body);
        MUST_EQ(strstr(seen[1], "Content-Length") != NULL, changes[i].keeps_body);
    }
}

SCRIPT_TEST(a_body_by_function_is_not_sent_again)
{
    struct gs_http_response *response = NULL;
    struct source source = {4, 4, 0};
    const struct gs_http_client_request request = {
        .url = url_of("/"), .read_body = read_source, .data = &source, .body_length = 4};
    redirect_once(307, "/next");
    MUST_EQ(gs_http_fetch(client, &request, after(PATIENCE_NS), &response), -ENOTSUP);
    MUST_CONTAIN(gs_http_client_error(), "in memory");
    redirect_once(303, "/next");
    source.left = 4;
    must_end_with(fetch(&request), "ok");
}

SCRIPT_TEST(redirects_are_limited_and_may_be_returned)
{
    redirect_once(302, "/");
    redirect_times = 10;
    must_get("/", "ok");
    redirect_once(302, "/");
    redirect_times = 11;
    MUST_EQ(get_error("/"), -ELOOP);
    MUST_CONTAIN(gs_http_client_error(), "more than 10 redirects");
    new_client(&(struct gs_http_client_options){.max_redirects = 1});
    redirect_once(302, "/");
    redirect_times = 2;
    MUST_EQ(get_error("/"), -ELOOP);
    new_client(&(struct gs_http_client_options){.returns_redirects = true});
    redirect_once(302, "/x");
    struct gs_http_response *response = get("/");
    MUST_EQ(response->status, 302);
    MUST_STR(gs_http_response_field(response, "location"), "/x");
    must_end_with(response, "move");
}

SCRIPT_TEST(a_redirect_to_nowhere_is_an_error)
{
    static const char *const locations[] = {"ftp://h/",    "http://", "javascript:x",
                                            "http://a:x/", "//",      "mailto:a@b"};
    for (size_t i = 0; i < sizeof locations / sizeof *locations; i++) {
        redirect_once(301, locations[i]);
        MUST_EQ(get_error("/"), -EPROTO);
        MUST_CONTAIN(gs_http_client_error(), "the URL ");
    }
    redirect_once(301, "https://localhost/");
    MUST_EQ(get_error("/"), -EPROTONOSUPPORT);
    new_client(NULL);
    script.serve = NULL;
    script.reply = "HTTP/1.1 302 Found\r\nContent-Length: 1\r\n\r\nx";
    must_get("/", "x");
}

/* "localhost" is another host than "127.0.0.1". */
SCRIPT_TEST(secrets_stay_with_their_host)
{
    static const struct gs_http_field fields[] = {{"Cookie", "c=1"}, {"X-Other", "stays"}};
    char url[100], to[100];
    snprintf(url, sizeof url, "http://me:pw@%s/", script_url + 7);
    const struct gs_http_client_request request = {.url = url, .fields = fields, .field_count = 2};
    redirect_once(302, "/same");
    must_end_with(fetch(&request), "ok");
    MUST_CONTAIN(seen[1], "\r\nCookie: c=1\r\n");
    MUST_CONTAIN(seen[1], "\r\nAuthorization: Basic ");
    snprintf(to, sizeof to, "http://you:x@localhost:%u/", ntohs(script_address.sin_port));
    redirect_once(302, to);
    must_end_with(fetch(&request), "ok");
    MUST_CONTAIN(seen[0], "\r\nAuthorization: Basic ");
    MUST_CONTAIN(seen[1], "\r\nHost: localhost:");
    MUST_CONTAIN(seen[1], "\r\nX-Other: stays\r\n");
    MUST(!strstr(seen[1], "Cookie"));
    MUST(!strstr(seen[1], "Authorization"));
}
