/* A client to which memory is refused. Each allocation of the library is made to fail, for every
 * number of it; the call must fail with -ENOMEM, and the next one succeeds. The server is another
 * process. */
#include "http_client/decoder.h"
#include "tests/http_client/scripted.h"
#include "tests/http_server/survive.h"

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    return may_allocate(strlen(text) + 1) ? __real_strdup(text) : NULL;
}

/* "hello" as gzip. */
static const unsigned char zipped[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02,
                                       0x03, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x86,
                                       0xa6, 0x10, 0x36, 0x05, 0x00, 0x00, 0x00};

static bool receive_request(int fd, char *text, size_t size)
{
    size_t n = 0;
    text[0] = '\0';
    while (!strstr(text, "\r\n\r\n") ||
           (strstr(text, "chunked") && !strstr(text, "\r\n0\r\n\r\n"))) {
        ssize_t more = recv(fd, text + n, size - 1 - n, 0);
        if (more <= 0)
            return false;
        n += (size_t)more;
        text[n] = '\0';
    }
    return true;
}

/* Behind the redirect is a page in gzip, if the library was built with that. */
static void send_answer(int fd, const char *path)
{
    char answer[1000] = "HTTP/1.1 302 Found\r\nLocation: /page\r\nContent-Length: 0\r\n"
                        "Set-Cookie: id=1\r\nSet-Cookie: other=2\r\n\r\n";
    size_t n = strlen(answer);
    bool is_page = !strncmp(path, "/page", 5);
    if (is_page && gs_http_client_can_decode("gzip")) {
        n = (size_t)sprintf(answer,
                            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n"
                            "Content-Length: %zu\r\n\r\n",
                            sizeof zipped);
        memcpy(answer + n, zipped, sizeof zipped);
        n += sizeof zipped;
    } else if (is_page) {
        n = (size_t)sprintf(answer, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    }
    (void)!send(fd, answer, n, MSG_NOSIGNAL);
}

/* One connection after the other, which the client closes. */
static void serve_forever(int listener)
{
    for (;;) {
        char text[4000];
        int fd = accept(listener, NULL, NULL);
        while (fd >= 0 && receive_request(fd, text, sizeof text))
            send_answer(fd, strchr(text, ' ') + 1);
        close(fd);
    }
}

static ssize_t read_three(void *data, void *bytes, size_t n, uint64_t deadline_ns)
{
    unsigned *left = data;
    (void)n, (void)deadline_ns;
    if (!*left)
        return 0;
    *left = 0;
    memcpy(bytes, "abc", 3);
    return 3;
}

/* A request with a body in chunks, a redirect, and a coding if there is one. Returns 0 or the
 * error. */
static int go(void)
{
    struct gs_http_client *mine = NULL;
    struct gs_http_response *response = NULL;
    char url[100], *body = NULL;
    unsigned left = 3;
    snprintf(url, sizeof url, "http://me:pw@%s/", script_url + 7);
    const struct gs_http_client_request request = {
        .url = url, .read_body = read_three, .data = &left};
    const struct gs_http_client_options options = {.max_host_connections = 2, .max_cookies = 10};
    ssize_t err = gs_http_client_new(&options, &mine);
    if (!err)
        err = gs_http_fetch(mine, &request, GS_NEVER, &response);
    if (!err)
        err = gs_http_response_read_all(response, 100, GS_NEVER, &body);
    if (err > 0) {
        MUST_EQ(err, 5);
        MUST_STR(body, "hello");
        err = 0;
    } else {
        MUST_EQ(err, -ENOMEM);
        MUST(gs_http_client_error()[0]);
    }
    free(body);
    gs_http_response_free(response);
    gs_http_client_free(mine);
    return (int)err;
}

THREAD(be_in_need)
{
    (void)must_survive(go, 10); /* client, URL, fields, connection, head, input, ... */
}

TEST(client_survives_each_allocation_that_fails)
{
    listen_for_script();
    CHECK_EQ(fcntl(script_listener, F_SETFL, 0), 0);
    pid_t server = fork();
    if (!server) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        serve_forever(script_listener);
        _exit(0);
    }
    setenv("all_proxy", script_url, 1);
    setenv("no_proxy", "127.0.0.1", 1);
    run_with(1, be_in_need);
    kill(server, SIGKILL);
    CHECK_EQ(waitpid(server, NULL, 0), server);
}
