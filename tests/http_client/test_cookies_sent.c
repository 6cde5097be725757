/* Cookies in requests: across redirects, beside a field of the program, and by many threads. */
#include "tests/http_client/scripted.h"

static const struct gs_http_client_options with_cookies = {.max_cookies = 300};
static char away[100]; /* where /away leads: "localhost" is another host than "127.0.0.1" */

static const char login[] = "HTTP/1.1 302 Found\r\nLocation: /start\r\nSet-Cookie: id=1; Path=/\r\n"
                            "set-cookie: deep=2; Path=/start/x\r\nSet-Cookie: s=3; Secure\r\n"
                            "Set-Cookie: broken\r\nContent-Length: 0\r\n\r\n";

/* "/set?NAME" sets this cookie. */
static void answer(int fd, const char *target)
{
    char text[400] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    if (!strncmp(target, "/login ", 7))
        snprintf(text, sizeof text, "%s", login);
    else if (!strncmp(target, "/away ", 6))
        snprintf(text, sizeof text,
                 "HTTP/1.1 302 Found\r\nLocation: %s\r\nSet-Cookie: away=1\r\n"
                 "Content-Length: 0\r\n\r\n",
                 away);
    else if (!strncmp(target, "/set?", 5))
        snprintf(text, sizeof text,
                 "HTTP/1.1 200 OK\r\nSet-Cookie: %.*s=1\r\nContent-Length: 2\r\n\r\nok",
                 (int)strcspn(target + 5, " "), target + 5);
    say(fd, text);
}

static void serve_cookies(int fd, unsigned number)
{
    char request[2000];
    (void)number;
    while (read_request(fd, request, sizeof request)) {
        gs_mutex_lock(&script_lock, GS_NEVER);
        snprintf(seen[request_count++ % SEEN_MAX], sizeof seen[0], "%s", request);
        gs_mutex_unlock(&script_lock);
        answer(fd, strchr(request, ' ') + 1);
    }
}

static void begin(const struct gs_http_client_options *options)
{
    snprintf(away, sizeof away, "http://localhost:%u/login", ntohs(script_address.sin_port));
    script.serve = serve_cookies;
    request_count = 0;
    new_client(options);
}

SCRIPT_TEST(cookies_are_sent_to_where_a_redirect_leads_and_later)
{
    begin(&with_cookies);
    must_get("/login", "ok");
    MUST(!strstr(seen[0], "Cookie"));
    MUST_CONTAIN(seen[1], "GET /start HTTP/1.1\r\n");
    MUST_CONTAIN(seen[1], "\r\nCookie: id=1\r\n");
    must_get("/start/x/y", "ok");
    MUST_CONTAIN(seen[2], "\r\nCookie: deep=2; id=1\r\n");
}

SCRIPT_TEST(each_request_of_a_redirect_has_the_cookies_of_its_host)
{
    begin(&with_cookies);
    must_get("/away", "ok");
    MUST_CONTAIN(seen[1], "\r\nHost: localhost:");
    MUST(!strstr(seen[1], "Cookie"));
    MUST_CONTAIN(seen[2], "\r\nHost: localhost:");
    MUST_CONTAIN(seen[2], "\r\nCookie: id=1\r\n");
    must_get("/", "ok");
    MUST_CONTAIN(seen[3], "\r\nCookie: away=1\r\n");
}

SCRIPT_TEST(returned_redirects_set_cookies)
{
    struct gs_http_client_options options = with_cookies;
    options.returns_redirects = true;
    begin(&options);
    must_get("/login", "");
    must_get("/", "ok");
    MUST_CONTAIN(seen[1], "\r\nCookie: id=1\r\n");
}

SCRIPT_TEST(no_cookies_are_kept_unless_the_client_has_room_for_them)
{
    begin(NULL);
    must_get("/login", "ok");
    must_get("/", "ok");
    for (unsigned i = 0; i < 3; i++)
        MUST(!strstr(seen[i], "Cookie"));
}

SCRIPT_TEST(a_field_of_the_program_is_sent_alone_and_its_cookies_are_not_kept)
{
    const struct gs_http_field own = {"cookie", "own=1"};
    struct gs_http_client_request request = {.fields = &own, .field_count = 1};
    begin(&with_cookies);
    must_get("/set?a", "ok");
    request.url = url_of("/set?b");
    must_end_with(fetch(&request), "ok");
    MUST_CONTAIN(seen[1], "\r\ncookie: own=1\r\n");
    MUST(!strstr(seen[1], "Cookie"));
    request.url = url_of("/away");
    must_end_with(fetch(&request), "ok");
    MUST_CONTAIN(seen[3], "\r\nHost: localhost:");
    MUST(!strcasestr(seen[3], "cookie"));
    MUST(!strcasestr(seen[4], "cookie"));
    must_get("/", "ok");
    MUST_CONTAIN(seen[5], "\r\nCookie: a=1\r\n");
}

/* ---- Many threads ---- */

#define SETTERS 8u
#define ROUNDS 5u

static void *set_cookies(void *argument)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        char path[40];
        snprintf(path, sizeof path, "/set?c%u-%u", (unsigned)(uintptr_t)argument, i);
        must_get(path, "ok");
    }
    return NULL;
}

SCRIPT_TEST(threads_share_the_cookies_of_a_client)
{
    struct gs_thread *threads[SETTERS];
    const unsigned count = SETTERS * ROUNDS;
    begin(&with_cookies);
    for (unsigned i = 0; i < SETTERS; i++)
        threads[i] = spawn(set_cookies, (void *)(uintptr_t)i);
    for (unsigned i = 0; i < SETTERS; i++)
        join(threads[i]);
    must_get("/", "ok");
    MUST_EQ(request_count, count + 1);
    for (unsigned i = 0; i < count; i++) {
        char cookie[40];
        snprintf(cookie, sizeof cookie, "c%u-%u=1", i / ROUNDS, i % ROUNDS);
        MUST_CONTAIN(seen[count], cookie);
    }
}
