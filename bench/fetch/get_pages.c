/* Pages by the HTTP client, with one worker, for bench/fetch.py.
 *
 *     get_pages URL THREADS     gets N pages by THREADS threads for each line "N" of its input, and
 *                               prints how many bytes they have */
#include <gossamer/buffered.h>
#include <gossamer/http_client.h>
#include <gossamer/sync.h>
#include <gossamer/thread.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct gs_http_client *client;
static const char *url;
static unsigned threads;
static uint64_t left, bytes;
static struct gs_wait_group group;

/* Read the body to its end. Returns whether that succeeded. */
static bool read_page(struct gs_http_response *response)
{
    char part[4096];
    ssize_t n;
    while ((n = gs_http_response_read(response, part, sizeof part, GS_NEVER)) > 0)
        bytes += (uint64_t)n;
    gs_http_response_free(response);
    return !n;
}

static void *get_pages(void *unused)
{
    struct gs_http_response *response;
    while (left) {
        left--;
        if (gs_http_get(client, url, GS_NEVER, &response) || !read_page(response)) {
            fprintf(stderr, "%s\n", gs_http_client_error());
            exit(1);
        }
    }
    gs_wait_group_done(&group);
    return unused;
}

static void *run(void *unused)
{
    struct gs_reader reader;
    char *line;
    if (gs_reader_init(&reader, STDIN_FILENO, NULL, 100))
        return unused;
    while (gs_reader_read_line(&reader, 100, GS_NEVER, &line) > 0) {
        left = strtoull(line, NULL, 10);
        bytes = 0;
        gs_wait_group_add(&group, threads);
        for (unsigned i = 0; i < threads; i++)
            if (gs_thread_spawn(NULL, get_pages, NULL, NULL))
                exit(1);
        if (gs_wait_group_wait(&group, GS_NEVER))
            exit(1);
        printf("%" PRIu64 "\n", bytes);
        fflush(stdout);
    }
    gs_reader_done(&reader);
    return unused;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 1;
    url = argv[1];
    threads = (unsigned)strtoul(argv[2], NULL, 10);
    const struct gs_http_client_options options = {.max_host_idle = threads,
                                                   .ignores_proxies = true};
    int err = gs_http_client_new(&options, &client);
    if (!err)
        err = gs_threads_run(NULL, run, NULL, NULL);
    gs_http_client_free(client);
    return err != 0;
}
