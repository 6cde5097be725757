/* Get a page by HTTPS: https_get HOST:PORT/PATH [CA-FILE]. Without a file, the system's CAs are
 * trusted. */
#include <gossamer/tls.h>

#include <errno.h>
#include <gossamer/error.h>
#include <gossamer/thread.h>
#include <stdio.h>
#include <string.h>

static ssize_t request(struct gs_tls *tls, const char *host, const char *path, uint64_t deadline_ns)
{
    struct gs_writer writer;
    int err = gs_tls_writer_init(&writer, tls, NULL, 1024);
    if (err)
        return err;
    gs_writer_printf(&writer, deadline_ns, "GET /%s HTTP/1.0\r\nHost: %s\r\n\r\n", path, host);
    err = gs_writer_flush(&writer, deadline_ns);
    gs_writer_done(&writer);
    return err;
}

/* Without the end of the stream, the page may be incomplete. */
static ssize_t print_response(struct gs_tls *tls, uint64_t deadline_ns)
{
    char bytes[4096];
    ssize_t n;
    while ((n = gs_tls_recv(tls, bytes, sizeof bytes, deadline_ns)) > 0)
        fwrite(bytes, 1, (size_t)n, stdout);
    return n;
}

struct page {
    struct gs_tls_context *context;
    char *host, *path;
    char text[GS_TLS_TEXT];
};

static void *get(void *argument)
{
    struct page *page = argument;
    uint64_t deadline_ns = gs_clock_now() + 30 * GS_SECOND;
    struct gs_tls *tls;
    if (gs_dial_tls(page->context, page->host, deadline_ns, &tls, page->text))
        return page;
    ssize_t err = request(tls, page->host, page->path, deadline_ns);
    if (!err)
        err = print_response(tls, deadline_ns);
    gs_tls_error(tls, page->text);
    gs_tls_close(tls, deadline_ns);
    if (err && !page->text[0])
        snprintf(page->text, sizeof page->text, "%s", gs_strerror((int)err));
    return err ? page : NULL;
}

int main(int argc, char **argv)
{
    struct page page = {.host = argv[argc > 1],
                        .text = "usage: https_get HOST:PORT/PATH [CA-FILE]"};
    const struct gs_tls_options options = {.is_client = true,
                                           .ca_file = argc == 3 ? argv[2] : NULL};
    void *failed = &page;
    page.path = argc > 1 ? strchr(page.host, '/') : NULL;
    if (page.path && argc <= 3 && !gs_tls_context_new(&options, &page.context, page.text)) {
        *page.path++ = '\0';
        if (gs_threads_run(NULL, get, &page, &failed))
            failed = &page;
    }
    if (failed)
        fprintf(stderr, "%s\n", page.text);
    gs_tls_context_release(page.context);
    return failed != NULL;
}
