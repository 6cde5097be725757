/* Get a page: https_get URL [CA-FILE]. Without a file, the system's CAs are trusted. */
#include <gossamer/http_client.h>
#include <gossamer/thread.h>
#include <gossamer/tls_context.h>

#include <stdio.h>

struct page {
    struct gs_http_client *client;
    const char *url;
};

/* Returns whether the page is complete. */
static bool print_page(struct gs_http_response *response, uint64_t deadline_ns)
{
    char bytes[4096];
    ssize_t n;
    while ((n = gs_http_response_read(response, bytes, sizeof bytes, deadline_ns)) > 0)
        fwrite(bytes, 1, (size_t)n, stdout);
    return !n;
}

static void *get(void *argument)
{
    const struct page *page = argument;
    uint64_t deadline_ns = gs_clock_now() + 30 * GS_SECOND;
    struct gs_http_response *response = NULL;
    bool is_there = !gs_http_get(page->client, page->url, deadline_ns, &response) &&
                    print_page(response, deadline_ns);
    if (!is_there)
        fprintf(stderr, "%s\n", gs_http_client_error());
    else if (response->status >= 400)
        fprintf(stderr, "%s: status %u\n", response->url, response->status);
    bool is_well = is_there && response->status < 400;
    gs_http_response_free(response);
    return is_well ? NULL : argument;
}

int main(int argc, char **argv)
{
    const struct gs_tls_options for_tls = {.is_client = true,
                                           .ca_file = argc == 3 ? argv[2] : NULL};
    struct gs_http_client_options options = {0};
    char text[GS_TLS_TEXT] = "usage: https_get URL [CA-FILE]";
    struct page page = {.url = argv[argc > 1]};
    void *failed = &page;
    if (argc < 2 || argc > 3 || gs_tls_context_new(&for_tls, &options.tls, text))
        fprintf(stderr, "%s\n", text);
    else if (!gs_http_client_new(&options, &page.client))
        (void)!gs_threads_run(NULL, get, &page, &failed);
    gs_http_client_free(page.client);
    gs_tls_context_release(options.tls);
    return failed != NULL;
}
