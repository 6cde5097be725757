/* Proxies of the environment. */
#include "http_client/client.h"
#include "tests/http_client/scripted.h"

static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

static void clear_environment(void)
{
    static const char *const names[] = {"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY",
                                        "all_proxy",  "ALL_PROXY",  "no_proxy",    "NO_PROXY"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

static void use_proxy(const char *name, const char *value)
{
    clear_environment();
    setenv(name, value, 1);
    new_client(NULL);
}

static const char *proxy_with(const char *user)
{
    static char text[100];
    snprintf(text, sizeof text, "http://%s%s", user, script_url + 7);
    return text;
}

SCRIPT_TEST(a_proxy_gets_absolute_targets_and_its_user)
{
    script.reply = ok;
    use_proxy("http_proxy", proxy_with("me:pw@"));
    struct gs_http_response *response = NULL;
    const char *urls[] = {"http://server.test/a?b", "http://other.test:81/"};
    for (int i = 0; i < 2; i++) {
        MUST_EQ(gs_http_get(client, urls[i], after(PATIENCE_NS), &response), 0);
        MUST_STR(response->url, urls[i]);
        must_end_with(response, "ok");
    }
    MUST_CONTAIN(seen[0], "GET http://server.test/a?b HTTP/1.1\r\nHost: server.test\r\n");
    MUST_CONTAIN(seen[0], "\r\nProxy-Authorization: Basic bWU6cHc=\r\n");
    MUST_CONTAIN(seen[1], "GET http://other.test:81/ HTTP/1.1\r\nHost: other.test:81\r\n");
    MUST_EQ(connection_count, 1);
    clear_environment();
}

SCRIPT_TEST(the_variables_are_those_of_curl)
{
    struct gs_http_response *response = NULL;
    script.reply = ok;
    static const char *const names[] = {"http_proxy", "all_proxy", "ALL_PROXY"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        use_proxy(names[i], script_url + 7);
        MUST_EQ(gs_http_get(client, "http://server.invalid/", after(PATIENCE_NS), &response), 0);
        must_end_with(response, "ok");
    }
    unsigned before = connection_count;
    use_proxy("HTTP_PROXY", "http://127.0.0.1:1");
    must_get("/", "ok");
    use_proxy("https_proxy", "http://127.0.0.1:1");
    must_get("/", "ok");
    use_proxy("http_proxy", "http://127.0.0.1:1");
    MUST_EQ(get_error("/"), -ECONNREFUSED);
    MUST_CONTAIN(gs_http_client_error(), "a proxy of the environment");
    setenv("no_proxy", "127.0.0.1", 1);
    new_client(NULL);
    must_get("/", "ok");
    use_proxy("http_proxy", "http://127.0.0.1:1");
    new_client(&(struct gs_http_client_options){.ignores_proxies = true});
    must_get("/", "ok");
    MUST_EQ(connection_count, before + 4);
    clear_environment();
}

SCRIPT_TEST(a_proxy_that_cannot_be_used_is_an_error_of_the_request)
{
    static const char *const proxies[] = {"socks5://127.0.0.1:1", "https://127.0.0.1:1", "http://",
                                          "http://a b"};
    for (size_t i = 0; i < sizeof proxies / sizeof *proxies; i++) {
        use_proxy("http_proxy", proxies[i]);
        MUST_EQ(get_error("/"), -EPROTONOSUPPORT);
        MUST_CONTAIN(gs_http_client_error(), "the proxy \"");
    }
    clear_environment();
}

static const struct {
    const char *exceptions, *host;
    bool is_exception;
} cases[] = {
    {"*", "a.test", true},
    {"", "a.test", false},
    {"a.test", "a.test", true},
    {"A.Test", "a.test", true},
    {"a.test", "www.a.test", true},
    {".a.test", "www.a.test", true},
    {".a.test", "a.test", true},
    {"a.test.", "a.test", true},
    {"a.test", "a.test.", true},
    {"a.test", "xa.test", false},
    {"a.test", "test", false},
    {".", "a.test", false},
    {"b.test,a.test", "a.test", true},
    {"b.test, a.test", "a.test", true},
    {"b.test a.test", "a.test", true},
    {",,a.test", "a.test", true},
    {"127.0.0.1", "127.0.0.1", true},
    {"127.0.0.1", "127.0.0.2", false},
    {"127.0.0.0/8", "127.200.0.1", true},
    {"127.0.0.0/31", "127.0.0.1", true},
    {"127.0.0.0/31", "127.0.0.2", false},
    {"0.0.0.0/0", "1.2.3.4", true},
    {"127.0.0.0/33", "127.0.0.1", false},
    {"127.0.0.0/x", "127.0.0.0", false},
    {"::1", "::1", true},
    {"[::1]", "::1", true},
    {"fe80::/10", "fe80::1", true},
    {"fe80::/10", "::1", false},
    {"0.1", "127.0.0.1", false},
};

TEST(exceptions_are_those_of_curl)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (gs_http_client_proxy_is_exception(cases[i].exceptions, cases[i].host) !=
            cases[i].is_exception)
            TEST_FAIL("no_proxy=\"%s\", %s", cases[i].exceptions, cases[i].host);
}
