#include "load/settings.h"
#include "cli/value.h"

#include <gossamer/clock.h>

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>

static struct load_settings chosen;
static const char *expect_status, *expect_length;

static const struct cli_option options[] = {
    {"connections", 'c', "N", "number of concurrent connections", CLI_COUNT, &chosen.connections,
     .min = 1, .group = "Load"},
    {"http2", '\0', NULL, "HTTP/2: by ALPN for https, with prior knowledge for http", CLI_FLAG,
     &chosen.is_http2},
    {"streams", '\0', "N", "concurrent requests of each connection, with --http2", CLI_NUMBER,
     &chosen.streams, .min = 1, .max = 100000},
    {"duration", 'd', "TIME", "measured time (default: 10s, unless -n is given)", CLI_DURATION,
     &chosen.duration_ns, .min = 1},
    {"requests", 'n', "N", "total number of requests", CLI_COUNT, &chosen.requests, .min = 1},
    {"requests-per-connection", 'k', "K", "close each connection after K requests; 0: never",
     CLI_COUNT, &chosen.requests_per_connection},
    {"think", '\0', "TIME", "think time of each client between a response and the next request",
     CLI_MILLISECONDS, &chosen.think_ns},
    {"timeout", '\0', "TIME", "timeout for connecting and for each response; 0: none", CLI_DURATION,
     &chosen.timeout_ns},
    {"give-up", '\0', "TIME",
     "end the run if no response arrives within this time and --timeout; 0: keep trying",
     CLI_DURATION, &chosen.give_up_ns},
    {"workers", 't', "N", "kernel threads per process, which share the connections", CLI_NUMBER,
     &chosen.workers, .min = 1, .max = 256},
    {"threads", '\0', "N", "alias of --workers", CLI_NUMBER, &chosen.workers, .min = 1, .max = 256},
    {"processes", '\0', "N", "processes (default: as many as the limit of open files requires)",
     CLI_NUMBER, &chosen.processes, .min = 1, .max = LOAD_PROCESSES_MAX},
    {"source-addresses", '\0', "N",
     "number of source addresses for connections to 127/8 (default: 64)", CLI_NUMBER,
     &chosen.source_addresses, .min = 1, .max = 1 << 20},
    {"rate", 'r', "N", "send N requests per second in total, independent of responses", CLI_RATE,
     &chosen.rate, .group = "Open loop"},
    {"poisson", '\0', NULL, "send requests as a Poisson process instead of evenly spaced", CLI_FLAG,
     &chosen.is_poisson},
    {"seed", '\0', "N", "seed of the random times", CLI_NUMBER, &chosen.seed},
    {"max-send-delay", '\0', "TIME",
     "mark the run invalid if the 99th percentile of the send delay exceeds this (default: 1ms)",
     CLI_MILLISECONDS, &chosen.max_send_delay_ns, .min = 1},
    {"method", 'm', "NAME", "request method (default: GET, or POST with --body)", CLI_TEXT,
     &chosen.method, .group = "Requests"},
    {"body", '\0', "TEXT",
     "body of each request; @FILE reads it from a file, @- from standard input", CLI_TEXT,
     &chosen.body},
    {"header", 'H', "LINE", "add the field \"Name: value\" to each request; repeatable", CLI_LIST,
     &chosen.headers},
    {"expect-status", '\0', "CODE", "expected status (default: any from 200 to 399)", CLI_TEXT,
     &expect_status},
    {"expect-length", '\0', "BYTES",
     "expected body length; same: as in the first response (default: any)", CLI_TEXT,
     &expect_length},
    {"ca", '\0', "FILE",
     "verify the server's certificate, by the CAs in this PEM file (default: those of the system, "
     "and not for loopback addresses)",
     CLI_TEXT, &chosen.ca, .group = "TLS"},
    {"insecure", '\0', NULL, "do not verify the server's certificate", CLI_FLAG,
     &chosen.is_insecure},
    {"cert", '\0', "FILE", "certificate for servers that ask for one, with its issuers, PEM",
     CLI_TEXT, &chosen.cert},
    {"cert-key", '\0', "FILE", "key of --cert, PEM (default: in the same file)", CLI_TEXT,
     &chosen.cert_key},
    {"resume", '\0', NULL,
     "resume the TLS session of a client's connection in its next one, instead of full handshakes",
     CLI_FLAG, &chosen.resumes},
    {"warmup", '\0', "TIME", "run this long before the measured time", CLI_DURATION,
     &chosen.warmup_ns, .group = "Measurement"},
    {"drop", '\0', "K", "exclude the first and last K responses from the histograms", CLI_NUMBER,
     &chosen.drop, .max = 10000000},
    {"idle-spin", '\0', NULL, "keep idle cores spinning, for less variance on virtual machines",
     CLI_FLAG, &chosen.spins_when_idle},
    {"json", '\0', "FILE", "write the result as JSON (-: to stdout, instead of the text)", CLI_TEXT,
     &chosen.json},
    {"hdr", '\0', "FILE",
     "write the response times as an HdrHistogram percentile table, in microseconds", CLI_TEXT,
     &chosen.hdr},
    {"hdr-log", '\0', "FILE", "write the histograms as an HdrHistogram log", CLI_TEXT,
     &chosen.hdr_log},
    {"log", '\0', "FILE", "write start, duration and status of each request; use at low rates",
     CLI_TEXT, &chosen.log},
};

const struct cli_command gs_load_command = {
    .name = "gossamer load",
    .operands = "URL...",
    .summary =
        "HTTP load generator. Each connection sends a request, receives and checks the response, "
        "and continues at once, after a think time, or with --rate at the next scheduled time; "
        "with --http2 it can do so with several requests at a time. "
        "Several URLs of one server are requested in turn.",
    .options = options,
    .count = sizeof options / sizeof *options,
    .epilogue = "Exit status: 0 on success, 1 if there were errors or no response arrived, 2 for "
                "invalid\noptions, 3 if the run is invalid.",
};

/* token of RFC 9110: the name of a method or field. */
static bool is_token(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
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
    for (const char *c = colon; *c; c++) {
        if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f)
            return false;
    }
    return true;
}

static int parse_expected(const char *name, const char *text, uint64_t min, uint64_t *ret_value)
{
    *ret_value = LOAD_ANY;
    if (!text)
        return 0;
    if (cli_value_parse(CLI_NUMBER, text, ret_value) || *ret_value < min)
        return cli_fail(&gs_load_command, "--%s: \"%s\" is not a number", name, text);
    return 0;
}

/* Whether a field "Connection" of the user's has the option "close". */
static bool asks_to_close(const char *line)
{
    if (strncasecmp(line, "connection:", 11) != 0)
        return false;
    for (const char *at = line + 11; *at;) {
        at += strspn(at, ", \t");
        size_t n = strcspn(at, ", \t");
        if (n == 5 && !strncasecmp(at, "close", n))
            return true;
        at += n;
    }
    return false;
}

/* Choose what was not given. */
static void complete(struct load_settings *settings)
{
    for (size_t i = 0; i < settings->headers.count; i++) {
        if (asks_to_close(settings->headers.items[i]))
            settings->requests_per_connection = 1;
    }
    if (!settings->method)
        settings->method = settings->body ? "POST" : "GET";
    if (!settings->duration_ns && !settings->requests)
        settings->duration_ns = 10 * GS_SECOND;
    if (!settings->timeout_ns)
        settings->timeout_ns = GS_NEVER;
}

static int check(struct load_settings *settings)
{
    int err = parse_expected("expect-status", expect_status, 100, &settings->expect_status);
    if (!err && expect_length && !strcmp(expect_length, "same"))
        settings->expect_length = LOAD_FIRST;
    else if (!err)
        err = parse_expected("expect-length", expect_length, 0, &settings->expect_length);
    if (err)
        return err;
    if (!settings->url_count)
        return cli_fail(&gs_load_command, "no URL given");
    if (settings->streams > 1 && !settings->is_http2)
        return cli_fail(&gs_load_command, "--streams requires --http2");
    if (gs_load_is_open_loop(settings) && settings->think_ns)
        return cli_fail(&gs_load_command, "--rate and --think are mutually exclusive");
    if (settings->is_poisson && !gs_load_is_open_loop(settings))
        return cli_fail(&gs_load_command, "--poisson requires --rate");
    if (settings->method && (!is_token(settings->method, strlen(settings->method)) ||
                             !strcmp(settings->method, "CONNECT")))
        return cli_fail(&gs_load_command, "unsupported method: \"%s\"", settings->method);
    for (size_t i = 0; i < settings->headers.count; i++) {
        const char *line = settings->headers.items[i];
        if (!is_field(line))
            return cli_fail(&gs_load_command, "invalid header field: \"%.*s\"",
                            (int)strcspn(line, "\r\n"), line);
    }
    if (settings->ca && settings->is_insecure)
        return cli_fail(&gs_load_command, "--ca and --insecure are mutually exclusive");
    if (settings->cert_key && !settings->cert)
        return cli_fail(&gs_load_command, "--cert-key requires --cert");
    complete(settings);
    return 0;
}

int gs_load_settings_read(int argc, char **argv, struct load_settings *ret_settings)
{
    int first, err;
    expect_status = expect_length = NULL;
    chosen = (struct load_settings){
        .connections = 16,
        .streams = 1,
        .workers = 1,
        .timeout_ns = 10 * GS_SECOND,
        .give_up_ns = 10 * GS_SECOND,
        .max_send_delay_ns = GS_MILLISECOND,
    };
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

bool gs_load_is_open_loop(const struct load_settings *settings)
{
    return settings->rate > 0;
}

bool gs_load_has_tls_option(const struct load_settings *settings)
{
    return settings->ca || settings->cert || settings->is_insecure || settings->resumes;
}

bool gs_load_is_head(const struct load_settings *settings)
{
    return !strcmp(settings->method, "HEAD");
}

/* ---- Number of processes ---- */

/* Descriptors other than connections: standard streams and inherited ones, and those of each event
 * loop. */
enum { RESERVED_PER_PROCESS = 16, RESERVED_PER_LOOP = 8 };

static uint64_t raise_file_limit(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files))
        return RLIM_INFINITY;
    rlim_t soft = files.rlim_cur;
    files.rlim_cur = files.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &files) ? soft : files.rlim_cur;
}

static uint64_t min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t divide_rounding_up(uint64_t dividend, uint64_t divisor)
{
    return dividend / divisor + (dividend % divisor > 0);
}

int gs_load_settings_choose_processes(struct load_settings *settings)
{
    uint64_t limit = raise_file_limit(), connections = settings->connections;
    uint64_t reserved = RESERVED_PER_PROCESS + RESERVED_PER_LOOP * (settings->workers + 1);
    uint64_t per_process = limit > reserved ? limit - reserved : 0;
    uint64_t max_processes = settings->processes ? settings->processes : LOAD_PROCESSES_MAX;
    uint64_t max_connections = per_process * max_processes;
    if (!per_process || divide_rounding_up(connections, max_processes) > per_process)
        return cli_fail(&gs_load_command,
                        "%llu connections exceed the limit of %llu open files, which allows %llu "
                        "with %llu processes",
                        (unsigned long long)connections, (unsigned long long)limit,
                        (unsigned long long)max_connections, (unsigned long long)max_processes);
    if (!settings->processes)
        settings->processes = divide_rounding_up(connections, per_process);
    settings->processes = min(settings->processes, connections);
    settings->workers = min(settings->workers, connections / settings->processes);
    return 0;
}
