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
    {"workers", 't', "N", "kernel threads of each process, each with its share of the connections",
     CLI_NUMBER, &chosen.workers, .least = 1, .most = 256},
    {"threads", '\0', "N", "the same as --workers", CLI_NUMBER, &chosen.workers, .least = 1,
     .most = 256},
    {"processes", '\0', "N", "processes (default: as many as the limit of open files asks for)",
     CLI_NUMBER, &chosen.processes, .least = 1, .most = LOAD_MOST_PROCESSES},
    {"source-addresses", '\0', "N",
     "addresses of 127/8 that connections rotate through (default: 64)", CLI_NUMBER,
     &chosen.source_addresses, .least = 1, .most = 1 << 20},
    {"rate", 'r', "N", "an open loop: N requests a second in all, whatever the answers do",
     CLI_NUMBER, &chosen.rate, .least = 1, .most = 1000000000, .group = "Open loop"},
    {"poisson", '\0', NULL, "at random times, as independent clients come", CLI_FLAG,
     &chosen.is_poisson},
    {"seed", '\0', "N", "other random times", CLI_NUMBER, &chosen.seed},
    {"late", '\0', "TIME",
     "the run is void if one request in a hundred is sent so much too late (default: 1ms)",
     CLI_MILLISECONDS, &chosen.late_ns, .least = 1},
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
    {"keep-awake", '\0', NULL, "let no core halt while clients wait: steadier on virtual machines",
     CLI_FLAG, &chosen.keeps_awake},
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
               "on, at once or, with --rate, when the next request is due. Several URLs of the "
               "same server are asked for in turn.",
    .options = options,
    .count = sizeof options / sizeof *options,
    .epilogue =
        "Exit status: 0, 1 if there were errors, 2 for wrong options, 3 if the run is void.",
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
    if (settings->rate && settings->think_ns)
        return cli_fail(&gs_load_command, "--rate and --think exclude each other");
    if (settings->is_poisson && !settings->rate)
        return cli_fail(&gs_load_command, "--poisson needs --rate");
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
    if (!settings->duration_ns && !settings->requests)
        settings->duration_ns = 10 * GS_SECOND;
    return 0;
}

int gs_load_settings_read(int argc, char **argv, struct load_settings *ret_settings)
{
    int first, err;
    expect_status = expect_length = NULL;
    chosen = (struct load_settings){.connections = 16,
                                    .workers = 1,
                                    .timeout_ns = 10 * GS_SECOND,
                                    .late_ns = GS_MILLISECOND,
                                    .method = "GET"};
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
