#include "serve/operations/options.h"

#include "serve/arch/arch.h"
#include "serve/log/error_log.h"
#include "serve/operations/encode.h"
#include "serve/operations/poller.h"

#include <errno.h>
#include <gossamer/stage.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Descriptors that are not connections: listeners, logs, pollers, cached files. */
#define OTHER_DESCRIPTORS 64

/* Of each worker, at most a quarter in all: so that those who download the same files
 * share them. */
#define CACHED_DESCRIPTORS_MIN 8

#define WORKERS_MAX 1024
#define NOT_GIVEN UINT64_MAX

/* Longer than ten thousand busy connections take for a round: 80 to 100 ms. A connection whose
 * stack comes back for each request costs a seventh more. */

/* Set by cli_parse; the members of the options themselves are narrower. */
static struct {
    const char *arch, *priority, *bottleneck, *controllers, *log_level, *compress;
    uint64_t request_line, header, fields, page_cache, cached_file, requests;
    bool no_defer_accept, no_eviction;
} words;

static struct serve_options parsed;

static const struct cli_option table[] = {
    {"arch", 'a', "NAME", "concurrency architecture; `list` shows them", CLI_TEXT, &words.arch,
     .group = "Server"},
    {"listen", 'l', "WHERE",
     "ADDRESS:PORT, PORT (all addresses) or unix:PATH; with TLS: https://WHERE; port 0: any free "
     "port; repeatable (default: 127.0.0.1:8080)",
     CLI_LIST, &parsed.listen},
    {"workers", 'w', "N", "number of workers; see --arch list for their meaning and default",
     CLI_NUMBER, &parsed.workers, 1, WORKERS_MAX},
    {"favor", 0, "connections|accept",
     "user: threads to run first under load (default: in FIFO order)", CLI_TEXT, &words.priority},
    {"nonblocking", 0, NULL, "queue: workers never wait for a client", CLI_FLAG,
     &parsed.nonblocking},
    {"controllers", 0, "LIST",
     "stage: controllers that adapt the stages to the load: threads, batches, threads,batches or "
     "none (default: threads)",
     CLI_TEXT, &words.controllers},
    {"admission", 0, "TIME",
     "stage: answer 503 to requests that would take longer (default: admit all)", CLI_DURATION,
     &parsed.admission_ns, GS_MILLISECOND},
    {"poller", 0, "NAME",
     "poller of the event loops: auto, epoll, io_uring, poll or select (default: auto; --arch list "
     "shows its choice and the reason)",
     CLI_TEXT, &parsed.poller},
    {"user", 'u', "NAME", "run as this user once the sockets are open", CLI_TEXT, &parsed.user},
    {"access-log", 'L', "FILE",
     "log requests in the combined format; - is stdout; SIGUSR1 and SIGHUP reopen it", CLI_TEXT,
     &parsed.access_log},
    {"log-tls", 0, NULL, "add the version of TLS, the cipher and the server name to each line",
     CLI_FLAG, &parsed.logs_tls},
    {"log-level", 0, "error|warn|info",
     "messages on stderr; info adds the reasons of responses 400, 403 and 404, at most 10 a second",
     CLI_TEXT, &words.log_level},
    {"backlog", 0, "N", "length of the accept queue", CLI_NUMBER, &parsed.backlog, 1, 65535},
    {"no-defer-accept", 0, NULL, "accept connections before their first bytes arrive", CLI_FLAG,
     &words.no_defer_accept},
    {"no-eviction", 0, NULL, "never close idle connections to make room for new clients", CLI_FLAG,
     &words.no_eviction},
    {"drain-timeout", 0, "TIME", "time for requests in flight to complete after SIGTERM",
     CLI_DURATION, &parsed.drain_timeout_ns},
    {"certificate", 0, "FILE",
     "certificate chain for https://, PEM; clients choose among several by name, or get the first",
     CLI_LIST, &parsed.certificates, .group = "TLS"},
    {"key", 0, "FILE", "private key of each certificate, in order (default: in its file)", CLI_LIST,
     &parsed.keys},
    {"passphrase-file", 0, "FILE", "file with the passphrase of the keys", CLI_TEXT,
     &parsed.passphrase_file},
    {"ocsp", 0, "FILE", "response of OCSP for each certificate, in order, DER, to be stapled",
     CLI_LIST, &parsed.ocsp},
    {"tls-modern", 0, NULL, "speak TLS 1.3 only (default: also 1.2)", CLI_FLAG, &parsed.is_modern},
    {"redirect-https", 0, NULL, "redirect requests without TLS to the first https://", CLI_FLAG,
     &parsed.redirects},
    {"hsts", 0, "TIME", "have browsers use https:// only, for so long (Strict-Transport-Security)",
     CLI_DURATION, &parsed.hsts_ns, GS_SECOND},
    {"dotfiles", 0, NULL, "serve files whose names begin with a dot", CLI_FLAG,
     &parsed.http.dotfiles, .group = "Files"},
    {"follow-symlinks", 0, NULL, "follow symbolic links that leave ROOT", CLI_FLAG,
     &parsed.http.follow_symlinks},
    {"portable-etags", 0, NULL, "ETags without inodes, equal for copies of a file", CLI_FLAG,
     &parsed.http.portable_etags},
    {"precompressed", 0, NULL,
     "send FILE.br, FILE.zst or FILE.gz in place of FILE to clients that accept it", CLI_FLAG,
     &parsed.http.precompressed},
    {"compress", 0, "LIST",
     "compress text in the background, once for each version of a file: br, zstd, gzip or all",
     CLI_TEXT, &words.compress},
    {"page-cache", 0, "SIZE", "memory per worker for the contents of small files", CLI_SIZE,
     &words.page_cache},
    {"cached-file", 0, "SIZE", "largest file to keep in memory", CLI_SIZE, &words.cached_file, 0,
     1 << 30},
    {"metrics", 0, "PATH", "serve metrics at this path, in Prometheus's text format", CLI_TEXT,
     &parsed.metrics},
    {"bottleneck", 0, "PATH=MS",
     "serve a page of 8192 bytes at PATH that costs MS milliseconds of processor time", CLI_TEXT,
     &words.bottleneck},
    {"max-connections", 'c', "N",
     "maximum number of open connections (default: 10000, or as many as the limit of open files "
     "allows)",
     CLI_NUMBER, &parsed.max_connections, 1, 1 << 30, .group = "Limits"},
    {"requests-per-connection", 'k', "N",
     "close a connection after N requests; 0: never (default: 100 for pool, otherwise 0)",
     CLI_NUMBER, &words.requests},
    {"request-line", 0, "SIZE", "longest request line", CLI_SIZE, &words.request_line, 64, 1 << 20},
    {"header-size", 0, "SIZE", "largest request header", CLI_SIZE, &words.header, 256, 1 << 24},
    {"header-fields", 0, "N", "maximum number of fields in a request", CLI_NUMBER, &words.fields, 1,
     100000},
    {"body-size", 0, "SIZE", "largest request body; bodies are discarded", CLI_SIZE,
     &parsed.http.max_body},
    {"header-timeout", 0, "TIME", "maximum time to receive a request's header", CLI_DURATION,
     &parsed.http.header_timeout_ns, 1},
    {"idle-timeout", 0, "TIME", "maximum time between two requests of a connection", CLI_DURATION,
     &parsed.http.idle_timeout_ns, 1},
    {"rate", 0, "SIZE", "minimum transfer rate of a client in bytes per second; 0: no limit",
     CLI_SIZE, &parsed.http.min_rate},
    {"rate-grace", 0, "TIME", "time over which --rate is measured", CLI_DURATION,
     &parsed.http.rate_window_ns, GS_MILLISECOND},
};

const struct cli_command serve_command = {
    .name = "gossamer serve",
    .operands = "ROOT",
    .summary = "Serve the files below ROOT over HTTP.",
    .options = table,
    .count = sizeof table / sizeof *table,
    .epilogue =
        "On SIGTERM, SIGINT or SIGQUIT the server completes the requests in flight and exits.",
};

uint64_t serve_processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : (uint64_t)CPU_COUNT(&set);
}

static uint64_t descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return 1024;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_max;
}

/* Check that there are descriptors for the connections that were asked for. */
static int limit_connections(void)
{
    uint64_t loops = parsed.arch->has_single_listener ? 1 : parsed.workers;
    uint64_t others = OTHER_DESCRIPTORS + loops * (4 + parsed.listen.count);
    uint64_t limit = descriptors();
    uint64_t max = limit > others ? limit - others : 1;
    if (parsed.max_connections > max)
        return cli_fail(
            &serve_command,
            "--max-connections %llu is more than the limit of %llu open files allows: %llu",
            (unsigned long long)parsed.max_connections, (unsigned long long)limit,
            (unsigned long long)max);
    uint64_t max_default = max < 10000 ? max : 10000;
    if (!parsed.max_connections)
        parsed.max_connections = max_default;
    if (parsed.arch->has_worker_per_connection && parsed.workers > parsed.max_connections)
        parsed.workers = parsed.max_connections;
    uint64_t left = (max - parsed.max_connections) / parsed.workers;
    uint64_t least = max / 4 / parsed.workers;
    least = least < CACHED_DESCRIPTORS_MIN ? least : CACHED_DESCRIPTORS_MIN;
    left = left < least ? least : left;
    parsed.http.max_cached_descriptors = (unsigned)(left < 256 ? left : 256);
    parsed.max_descriptors = max;
    return 0;
}

static uint64_t choose_default_workers(const struct serve_arch *arch)
{
    uint64_t per_processor = arch->workers_per_processor ? arch->workers_per_processor : 1;
    uint64_t workers =
        arch->default_workers ? arch->default_workers : per_processor * serve_processors();
    return workers < WORKERS_MAX ? workers : WORKERS_MAX;
}

static int choose_arch(void)
{
    if (!strcmp(words.arch, "list")) {
        serve_arch_list();
        return CLI_DONE;
    }
    parsed.arch = serve_arch_find(words.arch);
    if (!parsed.arch)
        return cli_fail(&serve_command,
                        "--arch %s: there is no such architecture; `--arch list` shows them",
                        words.arch);
    if (!parsed.workers)
        parsed.workers = choose_default_workers(parsed.arch);
    if (parsed.workers < parsed.arch->min_workers) {
        serve_warn("--workers raised to %llu, the minimum of %s",
                   (unsigned long long)parsed.arch->min_workers, parsed.arch->name);
        parsed.workers = parsed.arch->min_workers;
    }
    return 0;
}

static int choose_log_level(void)
{
    if (serve_error_log_set_level(words.log_level))
        return cli_fail(&serve_command, "--log-level %s: it is error, warn or info",
                        words.log_level);
    return 0;
}

static int choose_priority(void)
{
    if (!words.priority)
        return 0;
    if (!parsed.arch->has_priority)
        return cli_fail(&serve_command, "--favor: %s has no threads for connections",
                        parsed.arch->name);
    if (!strcmp(words.priority, "connections"))
        parsed.priority = SERVE_PRIORITY_CONNECTIONS;
    else if (!strcmp(words.priority, "accept"))
        parsed.priority = SERVE_PRIORITY_ACCEPT;
    else
        return cli_fail(&serve_command, "--favor %s: it is connections or accept", words.priority);
    return 0;
}

static int choose_nonblocking(void)
{
    if (parsed.nonblocking && !parsed.arch->has_nonblocking)
        return cli_fail(&serve_command, "--nonblocking: only queue has it, not %s",
                        parsed.arch->name);
    return 0;
}

static int choose_controllers(void)
{
    static const struct {
        const char *word;
        unsigned controllers;
    } lists[] = {
        {"none", 0},
        {"threads", GS_STAGE_THREADS},
        {"batches", GS_STAGE_BATCHES},
        {"threads,batches", GS_STAGE_THREADS | GS_STAGE_BATCHES},
        {"batches,threads", GS_STAGE_THREADS | GS_STAGE_BATCHES},
    };
    const char *word = words.controllers ? words.controllers : "threads";
    if ((words.controllers || parsed.admission_ns) && !parsed.arch->has_stages)
        return cli_fail(&serve_command, "--%s: only stage has it, not %s",
                        words.controllers ? "controllers" : "admission", parsed.arch->name);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (strcmp(lists[i].word, word) != 0)
            continue;
        parsed.controllers = lists[i].controllers;
        return 0;
    }
    return cli_fail(&serve_command, "--controllers %s: it is threads, batches, both or none", word);
}

/* Returns an empty set if the word is none. */
static unsigned find_codings(const char *word, size_t n)
{
    if (n == 3 && !memcmp(word, "all", n))
        return serve_encodings();
    for (unsigned coding = 1; coding < GS_HTTP_CODINGS; coding++) {
        const char *name = gs_http_coding_name((enum gs_http_coding)coding);
        if (n == strlen(name) && !memcmp(word, name, n))
            return GS_HTTP_CODING_BIT(coding);
    }
    return 0;
}

static int choose_codings(void)
{
    for (const char *word = words.compress, *end; word; word = *end ? end + 1 : NULL) {
        end = strchrnul(word, ',');
        int n = (int)(end - word);
        unsigned codings = find_codings(word, (size_t)n);
        if (!codings)
            return cli_fail(&serve_command, "--compress %.*s: it is br, zstd, gzip or all", n,
                            word);
        if (codings & ~serve_encodings())
            return cli_fail(&serve_command, "--compress %.*s: this program was built without it", n,
                            word);
        parsed.compressed |= codings;
    }
    if (!parsed.compressed || !parsed.arch->has_processes)
        return 0;
    serve_warn("--compress: the processes of %s share no memory, so nothing is compressed; "
               "--precompressed works there, too",
               parsed.arch->name);
    parsed.compressed = 0;
    return 0;
}

static int choose_pages(void)
{
    if (parsed.metrics && (parsed.metrics[0] != '/' || !parsed.metrics[1]))
        return cli_fail(&serve_command, "--metrics %s: it is a path, such as /metrics",
                        parsed.metrics);
    if (words.bottleneck && serve_bottleneck_parse(words.bottleneck, &parsed.bottleneck))
        return cli_fail(&serve_command,
                        "--bottleneck %s: it is a path and milliseconds, such as /slow=41",
                        words.bottleneck);
    return 0;
}

/* Of what each certificate has, or none. */
static int check_counts(void)
{
    const struct cli_list *lists[] = {&parsed.keys, &parsed.ocsp};
    for (int i = 0; i < 2; i++)
        if (lists[i]->count && lists[i]->count != parsed.certificates.count)
            return cli_fail(&serve_command, "--%s: there are %zu for %zu certificates",
                            i ? "ocsp" : "key", lists[i]->count, parsed.certificates.count);
    return 0;
}

static int choose_certificates(void)
{
    size_t https = 0;
    for (size_t i = 0; i < parsed.listen.count; i++)
        https += !strncmp(parsed.listen.items[i], "https:", strlen("https:"));
    if (https && !parsed.certificates.count)
        return cli_fail(&serve_command, "--listen https://... needs --certificate and --key");
    if (!https && parsed.certificates.count)
        return cli_fail(&serve_command, "--certificate: no --listen begins with https://");
    if ((parsed.redirects || parsed.hsts_ns) && !https)
        return cli_fail(&serve_command, "--%s: no --listen begins with https://",
                        parsed.redirects ? "redirect-https" : "hsts");
    if (parsed.logs_tls && (!https || !parsed.access_log))
        return cli_fail(&serve_command, "--log-tls needs --access-log, and --listen https://...");
    if (parsed.hsts_ns && !parsed.redirects && https < parsed.listen.count)
        return cli_fail(&serve_command, "--hsts needs --redirect-https, or https:// everywhere");
    if (parsed.is_modern && !https)
        return cli_fail(&serve_command, "--tls-modern: no --listen begins with https://");
    return check_counts();
}

static void choose_poller_by_measurements(void)
{
    struct serve_poller_facts facts;
    struct serve_poller_choice choice;
    serve_poller_find_facts(&facts);
    parsed.poller = NULL;
    if (!serve_poller_choose(parsed.arch, &facts, &choice))
        return;
    parsed.poller = choice.poller;
    serve_info("--poller auto: %s, %s", choice.poller, choice.reason);
}

/* The environment sets the poller of every loop of the program, also of user-level threads. */
static int choose_poller(void)
{
    const char *const names[] = {"epoll", "io_uring", "poll", "select"};
    const char *from_environment = getenv("GS_POLLER");
    if (!parsed.poller && from_environment && *from_environment)
        return 0;
    if (!parsed.poller || !strcmp(parsed.poller, "auto"))
        choose_poller_by_measurements();
    if (!parsed.poller)
        return 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(parsed.poller, names[i]))
            return setenv("GS_POLLER", parsed.poller, 1) ? -ENOMEM : 0;
    return cli_fail(&serve_command, "--poller %s: it is auto, epoll, io_uring, poll or select",
                    parsed.poller);
}

static void set_defaults(void)
{
    parsed = (struct serve_options){
        .backlog = 4096,
        .drain_timeout_ns = 30 * GS_SECOND,
    };
    gs_http_options_default(&parsed.http);
    words.arch = serve_archs[0]->name;
    words.request_line = parsed.http.max_request_line;
    words.header = parsed.http.max_header;
    words.fields = parsed.http.max_fields;
    words.page_cache = parsed.http.max_cache;
    words.cached_file = parsed.http.max_cached_file;
    words.requests = NOT_GIVEN;
    words.no_defer_accept = words.no_eviction = false;
    words.priority = words.bottleneck = words.controllers = words.compress = NULL;
    words.log_level = "warn";
}

static int take_operands(int argc, char **argv, int first)
{
    if (first == argc)
        return cli_fail(&serve_command, "the directory to serve is missing: gossamer serve ROOT");
    if (argc - first > 1)
        return cli_fail(&serve_command, "one directory can be served, not also %s",
                        argv[first + 1]);
    parsed.root = argv[first];
    return 0;
}

static void free_lists(struct serve_options *options)
{
    cli_list_done(&options->listen);
    cli_list_done(&options->certificates);
    cli_list_done(&options->keys);
    cli_list_done(&options->ocsp);
}

int serve_options_parse(int argc, char **argv, struct serve_options *ret_options)
{
    static const char *default_address = "127.0.0.1:8080";
    int first;
    set_defaults();
    int err = cli_parse(&serve_command, argc, argv, &first);
    if (!err)
        err = choose_log_level();
    if (!err)
        err = choose_arch();
    if (!err)
        err = choose_priority();
    if (!err)
        err = choose_nonblocking();
    if (!err)
        err = choose_controllers();
    if (!err)
        err = choose_pages();
    if (!err)
        err = choose_codings();
    if (!err)
        err = choose_certificates();
    if (!err)
        err = choose_poller();
    if (!err)
        err = take_operands(argc, argv, first);
    if (!err)
        err = limit_connections();
    if (err) {
        free_lists(&parsed);
        return err;
    }
    parsed.http.max_request_line = words.request_line;
    parsed.http.max_header = words.header;
    parsed.http.max_fields = (unsigned)words.fields;
    parsed.http.max_cache = words.page_cache;
    parsed.http.max_cached_file = words.cached_file;
    parsed.http.max_requests =
        words.requests == NOT_GIVEN ? parsed.arch->default_requests : words.requests;
    parsed.defer_accept = !words.no_defer_accept;
    parsed.evicts = !words.no_eviction;
    *ret_options = parsed;
    if (!parsed.listen.count)
        ret_options->listen = (struct cli_list){&default_address, 1};
    return 0;
}

void serve_options_done(struct serve_options *options)
{
    if (!parsed.listen.count)
        options->listen = (struct cli_list){0};
    free_lists(options);
}
