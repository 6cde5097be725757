/* A client of HTTP/2 to which memory is refused: each allocation of the library and of the session
 * of libnghttp2 is made to fail, for every number of it. The call fails with -ENOMEM, or, where
 * libnghttp2 then ends the connection, with -ECONNRESET, and the next one succeeds. The server is
 * another process. */
#include "tests/http_client/http2/serving.h"
#include "tests/http_server/survive.h"

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    return may_allocate(strlen(text) + 1) ? __real_strdup(text) : NULL;
}

static size_t left;

static ssize_t read_some(void *data, void *bytes, size_t n, uint64_t deadline_ns)
{
    (void)data, (void)deadline_ns;
    n = n < left ? n : left;
    left -= n;
    memset(bytes, 'x', n);
    return (ssize_t)n;
}

/* Returns 0 or the error. */
static int post(struct gs_http_client *mine)
{
    struct gs_http_response *response = NULL;
    char *body = NULL;
    const struct gs_http_client_request request = {.url = url_of("/count"), .read_body = read_some};
    left = 40000;
    ssize_t err = gs_http_fetch(mine, &request, GS_NEVER, &response);
    if (!err)
        err = gs_http_response_read_all(response, 100, GS_NEVER, &body);
    if (err > 0)
        MUST_STR(body, "40000");
    free(body);
    gs_http_response_free(response);
    return err > 0 ? 0 : (int)err;
}

static int get_large(struct gs_http_client *mine)
{
    char bytes[10000];
    struct gs_http_response *response = NULL;
    ssize_t n = gs_http_get(mine, url_of("/large"), GS_NEVER, &response);
    for (int i = 0; !n && i < 3; i++) {
        n = gs_http_response_read(response, bytes, sizeof bytes, GS_NEVER);
        n = n > 0 ? 0 : n;
    }
    gs_http_response_free(response); /* before its end */
    return (int)n;
}

static int go(void)
{
    struct gs_http_client *mine = NULL;
    const struct gs_http_client_options options = {.assumes_http2 = true};
    int err = gs_http_client_new(&options, &mine);
    if (!err)
        err = post(mine);
    if (!err)
        err = get_large(mine);
    gs_http_client_free(mine);
    if (err && err != -ENOMEM && err != -ECONNRESET)
        fprintf(stderr, "%d: %s\n", err, gs_http_client_error());
    MUST(!err || err == -ENOMEM || err == -ECONNRESET);
    return err;
}

THREAD(be_in_need)
{
    (void)must_survive(go, 20);
}

static void *serve_forever(void *unused)
{
    (void)!gs_http_serve(script_listener, &server);
    return unused;
}

TEST(client_survives_each_allocation_that_fails)
{
    server = (struct gs_http_server){.handler = obey};
    listen_for_script();
    pid_t child = fork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)!gs_threads_run(NULL, serve_forever, NULL, NULL);
        _exit(0);
    }
    run_with(1, be_in_need);
    kill(child, SIGKILL);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    gs_sys_close(script_listener);
}
