#include "cli/value.h"
#include "load/settings.h"

#include <gossamer/clock.h>

#include <errno.h>
#include <string.h>

static struct load_settings chosen;
static const char *expect_status, *expect_length;

static const struct cli_option options[] = {
    {"connections", 'c', "N", "connections open at any time", CLI_NUMBER, &chosen.connections,
     .least = 1, .group = "Load"},
    {"duration", 'd', "TIME", "how long to measure (default: 10s, unless -n is given)",
     CLI_DURATION, &chosen.duration_ns, .least = 1},
    {"requests", 'n', "N", "how many requests to make, in all", CLI_NUMBER, &chosen.requests,
     .least = 1},
    {"requests-per-connection", 'k', "K", "close a connection after K requests; 0: keep it",
     CLI_NUMBER, &chosen.requests_per_connection},
    {"think", '\0', "TIME", "pause of each client between answer and next request",
     CLI_MILLISECONDS, &chosen.think_ns},
    {"timeout", '\0', "TIME", "longest wait for a connection, and for an answer", CLI_DURATION,
     &chosen.timeout_ns, .least = 1},
    {"threads", 't', "N", "kernel threads, each with its share of the connections", CLI_NUMBER,
     &chosen.threads, .least = 1, .most = 256},
    {"source-addresses", '\0', "N",
     "addresses of 127/8 that connections rotate through (default: 64)", CLI_NUMBER,
     &chosen.source_addresses, .least = 1, .most = 1 << 20},
    {"method", 'm', "NAME", "of the requests", CLI_TEXT, &chosen.method, .group = "Requests"},
    {"header", 'H', "LINE", "another field of the request, \"Name: value\"; may be repeated",
     CLI_LIST, &chosen.headers},
    {"expect-status", '\0', "CODE",
     "status of a right answer (default: the first one's, of 200 to 299)", CLI_TEXT,
     &expect_status},
    {"expect-length", '\0', "BYTES", "length of a right answer's body (default: the first one's)",
     CLI_TEXT, &expect_length},
    {"warmup", '\0', "TIME", "run so long before anything is counted", CLI_DURATION,
     &chosen.warmup_ns, .group = "Measurement"},
    {"drop", '\0', "K", "leave the first and the last K answers out of the histograms", CLI_NUMBER,
     &chosen.drop, .most = 10000000},
    {"json", '\0', "FILE", "write the result as JSON (-: instead of the text)", CLI_TEXT,
     &chosen.json},
    {"hdr", '\0', "FILE",
     "write the response times as HdrHistogram's percentile table, in microseconds", CLI_TEXT,
     &chosen.hdr},
    {"hdr-log", '\0', "FILE", "write the three histograms as an HdrHistogram log", CLI_TEXT,
     &chosen.hdr_log},
};

const struct cli_command gs_load_command = {
    .name = "gossamer load",
    .operands = "URL...",
    .summary = "Put a web server under load: each connection sends a request, reads and checks the "
               "answer, and goes "
               "on. Several URLs of the same server are asked for in turn.",
    .options = options,
    .count = sizeof options / sizeof *options,
    .epilogue = "Exit status: 0, 1 if there were errors, 2 for wrong options.",
};

/* What RFC 9110 allows in the name of a method or field. */
static bool is_token(const char *word, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)word[i];
        bool is_letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z', is_digit = c >= '0' && c <= '9';
        if (!is_letter && !is_digit && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return n > 0;
}

static bool is_field(const char *line)
{
    const char *colon = strchr(line, ':');
    if (!colon || !is_token(line, (size_t)(colon - line)))
        return false;
    for (const char *at = colon; *at; at++) {
        if (((unsigned char)*at < ' ' && *at != '\t') || *at == 0x7f)
            return false;
    }
    return true;
}

static int read_expected(const char *name, const char *word, uint64_t least, uint64_t *ret_value)
{
    *ret_value = LOAD_ANY;
    if (!word)
        return 0;
    if (cli_value_parse(CLI_NUMBER, word, ret_value) || *ret_value < least)
        return cli_fail(&gs_load_command, "--%s takes a number, not \"%s\"", name, word);
    return 0;
}

static int check(struct load_settings *settings)
{
    int err = read_expected("expect-status", expect_status, 100, &settings->expect_status);
    if (!err)
        err = read_expected("expect-length", expect_length, 0, &settings->expect_length);
    if (err)
        return err;
    if (!settings->url_count)
        return cli_fail(&gs_load_command, "no URL given");
    if (settings->duration_ns && settings->requests)
        return cli_fail(&gs_load_command, "-d and -n exclude each other");
    if (!is_token(settings->method, strlen(settings->method)) ||
        !strcmp(settings->method, "CONNECT"))
        return cli_fail(&gs_load_command, "not a method to load a server with: \"%s\"",
                        settings->method);
    for (size_t i = 0; i < settings->headers.count; i++) {
        const char *line = settings->headers.items[i];
        if (!is_field(line))
            return cli_fail(&gs_load_command, "not a header field: \"%.*s\"",
                            (int)strcspn(line, "\r\n"), line);
    }
    if (settings->threads > settings->connections)
        settings->threads = settings->connections;
    if (!settings->duration_ns && !settings->requests)
        settings->duration_ns = 10 * GS_SECOND;
    return 0;
}

int gs_load_settings_read(int argc, char **argv, struct load_settings *ret_settings)
{
    int first, err;
    expect_status = expect_length = NULL;
    chosen = (struct load_settings){
        .connections = 16, .threads = 1, .timeout_ns = 10 * GS_SECOND, .method = "GET"};
    err = cli_parse(&gs_load_command, argc, argv, &first);
    if (!err) {
        chosen.urls = argv + first;
        chosen.url_count = (uint64_t)(argc - first);
        err = check(&chosen);
    }
    if (err < 0)
        gs_load_settings_done(&chosen);
    else
        *ret_settings = chosen;
    return err;
}

void gs_load_settings_done(struct load_settings *settings)
{
    cli_list_done(&settings->headers);
}

bool gs_load_is_head(const struct load_settings *settings)
{
    return !strcmp(settings->method, "HEAD");
}
