/* Each allocation of requests for pages with variants fails once: the response is another variant,
 * 503, or the connection closes; nothing leaks, and later requests are served. */
#include "http/coding.h"
#include "tests/http/allocations.h"
#include "tests/http/drive.h"
#include "tests/test.h"

#include <errno.h>
#include <stdlib.h>

#define ACCEPT(name_, value_)                                                                      \
    "GET /" name_ " HTTP/1.1\r\nHost: a\r\nAccept-Encoding: " value_ "\r\n\r\n"
#define CODED_N 5000 /* more than is copied */

static struct drive drive;
static struct drive_response response;

static int get(struct gs_http_page *page, enum gs_http_coding coding,
               struct gs_http_coded **ret_coded, void *data)
{
    (void)page, (void)coding, (void)data;
    struct gs_http_coded *coded = malloc(sizeof *coded + CODED_N);
    if (!coded)
        return -EAGAIN;
    coded->references = 1;
    coded->n = CODED_N;
    memset(coded->bytes, 'c', CODED_N);
    *ret_coded = coded;
    return 0;
}

static const struct gs_http_compressor compressor = {
    .codings = GS_HTTP_CODING_BIT(GS_HTTP_IN_BR) | GS_HTTP_CODING_BIT(GS_HTTP_IN_GZIP), .get = get};

static const struct {
    const char *request;
    unsigned status;
} session[] = {
    {ACCEPT("siblings.css", "br"), 200},     {ACCEPT("siblings.css", "gzip"), 200},
    {ACCEPT("absent.css", "gzip"), 200},     {ACCEPT("absent.css", "br"), 406},
    {ACCEPT("sub/", "gzip"), 200},           {ACCEPT("compressed.css", "br"), 200},
    {ACCEPT("compressed.css", "gzip"), 200},
};

/* Each twice: loaded, then cached. Returns how many differ from those without failures. */
static unsigned run_session(void)
{
    unsigned lost = 0;
    for (size_t i = 0; i < 2 * (sizeof session / sizeof *session); i++) {
        drive_reopen(&drive);
        drive_discard_output(&drive);
        drive.now_ns += i % 2 ? 0 : GS_SECOND;
        drive_send(&drive, session[i / 2].request);
        bool responded = drive_next_response(&drive, false, &response);
        if (responded && response.status == session[i / 2].status)
            continue;
        lost++;
        if (responded)
            CHECK(response.status == 503 || (i / 2 == 3 && response.status == 404));
        else
            CHECK_EQ(gs_http_conn_wants(&drive.conn), GS_HTTP_CLOSE);
    }
    return lost;
}

static void start(void)
{
    static char large[100000];
    struct gs_http_options options;
    gs_http_options_default(&options);
    options.max_cached_file = 4000;
    options.precompressed = true;
    options.compressor = &compressor;
    drive_start(&drive, &options);
    drive_write(&drive, "siblings.css", "a file with siblings");
    drive_write(&drive, "siblings.css.br", "small");
    drive_write_bytes(&drive, "siblings.css.gz", large, sizeof large);
    drive_write(&drive, "absent.css.gz", "small");
    drive_mkdir(&drive, "sub");
    drive_write(&drive, "sub/index.html.gz", "index");
    drive_write_bytes(&drive, "compressed.css", large, sizeof large);
}

static unsigned long run_failing(unsigned long from, unsigned long count)
{
    long before = live;
    start();
    allocations = 0;
    fails_from = from;
    fails_to = from + count;
    unsigned lost = run_session();
    unsigned long made = allocations;
    fails_from = UINT64_MAX;
    CHECK(lost <= count);
    CHECK_EQ(run_session(), 0);
    drive_reopen(&drive);
    CHECK_EQ(drive_stop(&drive), 0);
    CHECK_EQ(live, before);
    return made;
}

TEST(any_allocation_may_fail_alone_or_with_those_that_follow)
{
    unsigned long made = run_failing(UINT64_MAX - 1000, 0);
    CHECK(made > 20);
    for (unsigned long n = 1; n <= made; n++) {
        run_failing(n, 1);
        run_failing(n, 3);
    }
}
