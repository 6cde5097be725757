#include "serve/operations/options.h"
#include "serve/operations/options_clients.h"

#include "serve/arch/arch.h"
#include "serve/log/error_log.h"
#include "serve/nginx/nginx.h"
#include "serve/operations/options_codings.h"
#include "serve/operations/options_file.h"
#include "serve/operations/options_limits.h"
#include "serve/operations/options_tls.h"
#include "serve/operations/poller.h"

#include <errno.h>
#include <gossamer/stage.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_ADDRESS "127.0.0.1:8080"
#define WORKERS_MAX 1024
#define NOT_GIVEN UINT64_MAX

/* Set by cli_parse; the members of the options themselves are narrower. */
static struct {
    const char *arch, *priority, *bottleneck, *controllers, *log_level, *sandbox, *listing;
    const char *config, *from_nginx, *compress;
    struct serve_client_words clients;
    uint64_t request_line, header, fields, page_cache, cached_file, requests;
    bool no_defer_accept, no_eviction, print_config, print_schema;
} words;

static struct serve_options parsed;

static const struct cli_option table[] = {
    {"config", 0, "FILE",
     "read settings and sites from this file, in place of ROOT; see gossamer-serve(1)", CLI_TEXT,
     &words.config, .group = "Configuration"},
    {"check", 0, NULL, "check the options and the file, print OK, and exit", CLI_FLAG,
     &parsed.is_check},
    {"print-config", 0, NULL, "print the options as a file for --config, with defaults, and exit",
     CLI_FLAG, &words.print_config},
    {"from-nginx", 0, "FILE",
     "print a file for --config that says what this one says of static files to nginx, and on "
     "stderr what can't be said; and exit",
     CLI_TEXT, &words.from_nginx},
    {"print-schema", 0, NULL, "print the JSON schema of such files, and exit", CLI_FLAG,
     &words.print_schema},
    {"arch", 'a', "NAME", "concurrency architecture; `list` shows them", CLI_TEXT, &words.arch,
     .group = "Server", .example = "event"},
    {"listen", 'l', "WHERE",
     "ADDRESS:PORT, PORT (all addresses) or unix:PATH; with TLS: https://WHERE; port 0: any free "
     "port; repeatable (default: 127.0.0.1:8080)",
     CLI_LIST, &parsed.listen, .example = "[\"*:80\", \"https://*:443\"]"},
    {"workers", 'w', "N", "number of workers; see --arch list for their meaning and default",
     CLI_NUMBER, &parsed.workers, 1, WORKERS_MAX, .example = "4"},
    {"favor", 0, "connections|accept",
     "user: threads to run first under load (default: in FIFO order)", CLI_TEXT, &words.priority,
     .example = "connections"},
    {"nonblocking", 0, NULL, "queue: workers never wait for a client", CLI_FLAG,
     &parsed.nonblocking, .example = "true"},
    {"controllers", 0, "LIST",
     "stage: controllers that adapt the stages to the load: threads, batches, threads,batches or "
     "none (default: threads)",
     CLI_TEXT, &words.controllers, .example = "batches"},
    {"admission", 0, "TIME",
     "stage: answer 503 to requests that would take longer (default: admit all)", CLI_DURATION,
     &parsed.admission_ns, GS_MILLISECOND, .example = "200ms"},
    {"poller", 0, "NAME",
     "poller of the event loops: auto, epoll, io_uring, poll or select (default: auto; --arch list "
     "shows its choice and the reason)",
     CLI_TEXT, &parsed.poller, .example = "epoll"},
    {"user", 'u', "NAME", "run as this user once the sockets are open", CLI_TEXT, &parsed.user,
     .example = "www-data"},
    {"group", 0, "NAME", "be in this group, with --user also in the user's other ones", CLI_TEXT,
     &parsed.group, .example = "www-data"},
    {"sandbox", 0, "auto|on|off",
     "forbid the server what it does not need: as far as possible, or else do not start (default: "
     "auto)",
     CLI_TEXT, &words.sandbox, .example = "on"},
    {"access-log", 'L', "FILE", "log requests; - is stdout; SIGUSR1 and SIGHUP reopen it", CLI_TEXT,
     &parsed.access_log, .example = "/var/log/gossamer/access.log"},
    {"log-format", 0, "combined|json", "format of the lines of --access-log (default: combined)",
     CLI_TEXT, &words.clients.log_format, .example = "json"},
    {"log-fields", 0, "LIST", "members of the lines in JSON, separated by commas", CLI_TEXT,
     &words.clients.log_fields, .example = "time,client,target,status"},
    {"log-tls", 0, NULL, "add the version of TLS, the cipher and the server name to each line",
     CLI_FLAG, &words.clients.logs_tls, .example = "true"},
    {"log-level", 0, "error|warn|info",
     "messages on stderr; info adds the reasons of responses 400, 403 and 404, at most 10 a second",
     CLI_TEXT, &words.log_level, .example = "info"},
    {"backlog", 0, "N", "length of the accept queue", CLI_NUMBER, &parsed.backlog, 1, 65535},
    {"no-defer-accept", 0, NULL, "accept connections before their first bytes arrive", CLI_FLAG,
     &words.no_defer_accept, .example = "true"},
    {"no-eviction", 0, NULL, "never close idle connections to make room for new clients", CLI_FLAG,
     &words.no_eviction, .example = "true"},
    {"drain-timeout", 0, "TIME", "time for requests in flight to complete after SIGTERM",
     CLI_DURATION, &parsed.drain_timeout_ns},
    {"supervise", 0, NULL,
     "start the server as another process: SIGHUP replaces it, SIGUSR2 also the program, and no "
     "client notices",
     CLI_FLAG, &parsed.supervises, .example = "true"},
    {"start-timeout", 0, "TIME", "time for a server that --supervise starts to become ready",
     CLI_DURATION, &parsed.start_timeout_ns, GS_MILLISECOND, .example = "2m"},
    {"certificate", 0, "FILE",
     "certificate chain for https://, PEM; clients choose among several by name, or get the first",
     CLI_LIST, &parsed.certificates, .group = "TLS"},
    {"key", 0, "FILE", "private key of each certificate, in order (default: in its file)", CLI_LIST,
     &parsed.keys},
    {"passphrase-file", 0, "FILE", "file with the passphrase of the keys", CLI_TEXT,
     &parsed.passphrase_file, .example = "/etc/ssl/passphrase"},
    {"ocsp", 0, "FILE", "response of OCSP for each certificate, in order, DER, to be stapled",
     CLI_LIST, &parsed.ocsp},
    {"tls-modern", 0, NULL, "speak TLS 1.3 only (default: also 1.2)", CLI_FLAG, &parsed.is_modern,
     .example = "true"},
    {"redirect-https", 0, NULL, "redirect requests without TLS to the first https://", CLI_FLAG,
     &parsed.redirects, .example = "true"},
    {"hsts", 0, "TIME", "have browsers use https:// only, for so long (Strict-Transport-Security)",
     CLI_DURATION, &parsed.hsts_ns, GS_SECOND, .example = "8760h"},
    {"dotfiles", 0, NULL, "serve files whose names begin with a dot", CLI_FLAG,
     &parsed.http.dotfiles, .group = "Files", .example = "true"},
    {"follow-symlinks", 0, NULL, "follow symbolic links that leave ROOT", CLI_FLAG,
     &parsed.http.follow_symlinks, .example = "true"},
    {"list", 0, "FORMAT", "list directories without index.html: html, json or off", CLI_TEXT,
     &words.listing, .example = "html"},
    {"users", 0, "FILE", "users who may request pages, and their passwords, from htpasswd -B",
     CLI_TEXT, &parsed.users, .example = "/etc/gossamer/users"},
    {"users-without-tls", 0, NULL, "let users send their passwords without TLS", CLI_FLAG,
     &parsed.users_without_tls, .example = "true"},
    {"portable-etags", 0, NULL, "ETags without inodes, equal for copies of a file", CLI_FLAG,
     &parsed.http.portable_etags, .example = "true"},
    {"precompressed", 0, NULL,
     "send FILE.br, FILE.zst or FILE.gz in place of FILE to clients that accept it", CLI_FLAG,
     &parsed.http.precompressed, .example = "true"},
    {"compress", 0, "LIST",
     "compress text in the background, once for each version of a file: br, zstd, gzip or all",
     CLI_TEXT, &words.compress, .example = "br,zstd,gzip"},
    {"page-cache", 0, "SIZE", "memory per worker for the contents of small files", CLI_SIZE,
     &words.page_cache},
    {"cached-file", 0, "SIZE", "largest file to keep in memory", CLI_SIZE, &words.cached_file, 0,
     1 << 30},
    {"metrics", 0, "PATH", "serve metrics at this path, in Prometheus's text format", CLI_TEXT,
     &parsed.metrics, .example = "/metrics"},
    {"health", 0, "PATH", "answer this path with \"ok\", without a line in the access log",
     CLI_TEXT, &parsed.health, .example = "/health"},
    {"metrics-listen", 0, "WHERE", "serve metrics only at this address", CLI_TEXT,
     &parsed.metrics_listen, .example = "127.0.0.1:9100"},
    {"bottleneck", 0, "PATH=MS",
     "serve a page of 8192 bytes at PATH that costs MS milliseconds of processor time", CLI_TEXT,
     &words.bottleneck, .example = "/slow=41"},
    {"max-connections", 'c', "N",
     "maximum number of open connections (default: 10000, or as many as the limit of open files "
     "allows)",
     CLI_NUMBER, &parsed.max_connections, 1, 1 << 30, .group = "Limits", .example = "5000"},
    {"requests-per-connection", 'k', "N",
     "close a connection after N requests; 0: never (default: 100 for pool, otherwise 0)",
     CLI_NUMBER, &words.requests, .example = "1000"},
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
    {"proxy-protocol", 0, "NETWORK",
     "connections from here begin with a header of the PROXY protocol; ADDRESS, ADDRESS/BITS or "
     "unix; repeatable",
     CLI_LIST, &words.clients.proxies, .example = "[\"10.0.0.0/8\"]", .group = "Proxies"},
    {"trusted-proxy", 0, "NETWORK",
     "log the client that the field of --forwarded-field names, of requests from here; repeatable",
     CLI_LIST, &words.clients.trusted, .example = "[\"127.0.0.1\"]"},
    {"forwarded-field", 0, "x-forwarded-for|forwarded", "the field (default: x-forwarded-for)",
     CLI_TEXT, &words.clients.forwarded, .example = "forwarded"},
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

static int limit_connections(void)
{
    return serve_options_limit_connections(&parsed);
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
    parsed.arch = serve_arch_find(words.arch);
    if (!parsed.arch)
        return serve_options_refuse(
            "--arch %s: there is no such architecture; `--arch list` shows them", words.arch);
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
        return serve_options_refuse("--log-level %s: it is error, warn or info", words.log_level);
    return 0;
}

/* The value of an option that is one of three words. Returns which, or -EINVAL after one line on
 * stderr. */
static int find_word(const char *option, const char *value, const char *const words_of_option[3])
{
    for (int i = 0; i < 3; i++)
        if (!strcmp(words_of_option[i], value))
            return i;
    return serve_options_refuse("--%s %s: it is %s, %s or %s", option, value, words_of_option[0],
                                words_of_option[1], words_of_option[2]);
}

static int choose_sandbox(void)
{
    static const char *const names[] = {
        [SERVE_SANDBOX_AUTO] = "auto", [SERVE_SANDBOX_ON] = "on", [SERVE_SANDBOX_OFF] = "off"};
    int found = find_word("sandbox", words.sandbox, names);
    parsed.sandbox = (enum serve_sandbox)(found < 0 ? 0 : found);
    return found < 0 ? found : 0;
}

/* In the order of enum gs_http_listing_format. */
static int choose_listing(void)
{
    static const char *const formats[] = {"off", "html", "json"};
    int found = find_word("list", words.listing, formats);
    parsed.http.listing = (uint8_t)(found < 0 ? 0 : found);
    return found < 0 ? found : 0;
}

static int choose_clients(void)
{
    return serve_options_choose_clients(&parsed, &words.clients);
}

static int choose_priority(void)
{
    if (!words.priority)
        return 0;
    if (!parsed.arch->has_priority)
        return serve_options_refuse("--favor: %s has no threads for connections",
                                    parsed.arch->name);
    if (!strcmp(words.priority, "connections"))
        parsed.priority = SERVE_PRIORITY_CONNECTIONS;
    else if (!strcmp(words.priority, "accept"))
        parsed.priority = SERVE_PRIORITY_ACCEPT;
    else
        return serve_options_refuse("--favor %s: it is connections or accept", words.priority);
    return 0;
}

static int choose_nonblocking(void)
{
    if (parsed.nonblocking && !parsed.arch->has_nonblocking)
        return serve_options_refuse("--nonblocking: only queue has it, not %s", parsed.arch->name);
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
        return serve_options_refuse("--%s: only stage has it, not %s",
                                    words.controllers ? "controllers" : "admission",
                                    parsed.arch->name);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (strcmp(lists[i].word, word) != 0)
            continue;
        parsed.controllers = lists[i].controllers;
        return 0;
    }
    return serve_options_refuse("--controllers %s: it is threads, batches, both or none", word);
}

static int choose_codings(void)
{
    return serve_options_choose_codings(&parsed, words.compress);
}

static int choose_pages(void)
{
    if (parsed.metrics && (parsed.metrics[0] != '/' || !parsed.metrics[1]))
        return serve_options_refuse("--metrics %s: it is a path, such as /metrics", parsed.metrics);
    if (parsed.health && (parsed.health[0] != '/' || !parsed.health[1]))
        return serve_options_refuse("--health %s: it is a path, such as /health", parsed.health);
    if (parsed.metrics_listen && !parsed.metrics)
        return serve_options_refuse("--metrics-listen needs --metrics");
    if (parsed.metrics_listen && !strncmp(parsed.metrics_listen, "https:", strlen("https:")))
        return serve_options_refuse("--metrics-listen %s: it has no TLS", parsed.metrics_listen);
    if (words.bottleneck && serve_bottleneck_parse(words.bottleneck, &parsed.bottleneck))
        return serve_options_refuse(
            "--bottleneck %s: it is a path and milliseconds, such as /slow=41", words.bottleneck);
    return 0;
}

static int choose_certificates(void)
{
    return serve_options_choose_tls(&parsed, words.clients.logs_tls);
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
    return serve_options_refuse("--poller %s: it is auto, epoll, io_uring, poll or select",
                                parsed.poller);
}

static void set_defaults(void)
{
    parsed = (struct serve_options){
        .backlog = 4096,
        .drain_timeout_ns = 30 * GS_SECOND,
        .start_timeout_ns = 60 * GS_SECOND,
    };
    gs_http_options_default(&parsed.http);
    words.arch = serve_archs[0]->name;
    words.request_line = parsed.http.max_request_line;
    words.header = parsed.http.max_header;
    words.fields = parsed.http.max_fields;
    words.page_cache = parsed.http.max_cache;
    words.cached_file = parsed.http.max_cached_file;
    words.requests = NOT_GIVEN;
    words.no_defer_accept = words.no_eviction = words.print_config = words.print_schema = false;
    words.priority = words.bottleneck = words.controllers = words.config = words.from_nginx = NULL;
    words.compress = NULL;
    words.clients = (struct serve_client_words){0};
    words.log_level = "warn";
    words.sandbox = "auto";
    words.listing = "off";
}

static int take_operands(int argc, char **argv, int first)
{
    if (parsed.config.file && first < argc)
        return serve_options_refuse("%s: the file says what is served: leave out %s",
                                    parsed.config.file, argv[first]);
    if (parsed.config.file)
        return 0;
    if (first == argc)
        return serve_options_refuse(
            "the directory to serve is missing: gossamer serve ROOT, or --config FILE");
    if (argc - first > 1)
        return serve_options_refuse("one directory can be served, not also %s", argv[first + 1]);
    parsed.root = argv[first];
    return 0;
}

static void free_lists(struct serve_options *options)
{
    cli_list_done(&options->listen);
    cli_list_done(&options->certificates);
    cli_list_done(&options->keys);
    cli_list_done(&options->ocsp);
    cli_list_done(&words.clients.proxies);
    cli_list_done(&words.clients.trusted);
    serve_networks_done(&options->proxies);
    serve_networks_done(&options->forwarded.trusted);
}

int serve_options_refuse(const char *format, ...)
{
    char text[1024], name[64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    bool names_option = sscanf(text, "--%63[a-z0-9-]", name) == 1;
    unsigned line = names_option ? serve_config_line(&parsed.config, name) : 0;
    if (!line)
        return cli_fail(&serve_command, "%s", text);
    for (char *at = text + 2; at < text + 2 + strlen(name); at++)
        *at = *at == '-' ? '_' : *at;
    fprintf(stderr, "%s:%u: %s\n", parsed.config.file, line, text + 2);
    return -EINVAL;
}

/* ---- The file ---- */

static int parse_with_file(int argc, char **argv, int *ret_first)
{
    struct serve_report report = {.file = words.config, .out = stderr};
    free_lists(&parsed);
    set_defaults();
    int err = serve_config_read(&parsed.config, &serve_command, &report);
    if (!err)
        err = serve_config_apply(&parsed.config, &serve_command);
    if (!err)
        err = serve_options_parse_over(argc, argv, ret_first);
    return err ? err : serve_options_take_certificates(&parsed);
}

static int convert(void)
{
    struct serve_report report = {.out = stderr, .max = 10000};
    return serve_nginx_convert(words.from_nginx, stdout, &report) ? -EINVAL : CLI_DONE;
}

static int parse_words(int argc, char **argv, int *ret_first)
{
    set_defaults();
    int err = cli_parse(&serve_command, argc, argv, ret_first);
    if (!err && words.print_schema) {
        serve_config_print_schema(&serve_command, stdout);
        return CLI_DONE;
    }
    if (!err && words.from_nginx)
        return convert();
    if (!err && !strcmp(words.arch, "list")) {
        serve_arch_list();
        return CLI_DONE;
    }
    if (!err && words.config)
        err = parse_with_file(argc, argv, ret_first);
    return err;
}

/* Returns the file's text, before defaults that depend on the machine are put in; NULL: it is not
 * asked for, or an error is in *ret_err. The caller frees it. */
static char *format_config(int *ret_err)
{
    char *text = NULL;
    size_t size;
    if (*ret_err || !words.print_config || (*ret_err = serve_options_make_host(&parsed)))
        return NULL;
    FILE *out = open_memstream(&text, &size);
    if (!out) {
        *ret_err = serve_options_refuse("out of memory");
        return NULL;
    }
    if (!parsed.listen.count)
        *ret_err = serve_options_add(&parsed.listen, DEFAULT_ADDRESS);
    serve_config_print(&parsed.config, &serve_command, out);
    fclose(out);
    return text;
}

static int choose_all(void)
{
    int (*const choices[])(void) = {
        choose_log_level,    choose_sandbox,     choose_listing,     choose_arch,  choose_clients,
        choose_priority,     choose_nonblocking, choose_controllers, choose_pages, choose_codings,
        choose_certificates, choose_poller,      limit_connections};
    int err = 0;
    for (size_t i = 0; i < sizeof choices / sizeof *choices && !err; i++)
        err = choices[i]();
    return err;
}

static void forget(struct serve_options *options)
{
    free_lists(options);
    serve_config_done(&options->config);
}

int serve_options_parse(int argc, char **argv, struct serve_options *ret_options)
{
    static const char *default_address = DEFAULT_ADDRESS;
    int first;
    int err = parse_words(argc, argv, &first);
    if (!err)
        err = take_operands(argc, argv, first);
    char *text = format_config(&err);
    if (!err)
        err = choose_all();
    if (!err && text) {
        fputs(text, stdout);
        err = CLI_DONE;
    }
    free(text);
    if (err) {
        forget(&parsed);
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
    if (!parsed.listen.count) {
        ret_options->listen = (struct cli_list){&default_address, 1};
        ret_options->is_listen_default = true;
    }
    return 0;
}

void serve_options_done(struct serve_options *options)
{
    if (!parsed.listen.count)
        options->listen = (struct cli_list){0};
    forget(options);
}
