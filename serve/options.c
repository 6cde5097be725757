#include "serve/options.h"

#include "serve/arch/arch.h"

#include <errno.h>
#include <gossamer/stage.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Descriptors that are not connections: listeners, logs, pollers, cached files. */
#define OTHER_DESCRIPTORS 64

#define WORKERS_MOST 1024
#define NOT_GIVEN UINT64_MAX

/* What cli_parse fills in; the sizes are narrower in the options themselves. */
static struct {
    const char *arch, *favor, *bottleneck, *controllers;
    uint64_t request_line, header, fields, page_cache, cached_file, requests;
    bool no_defer_accept;
} words;

static struct serve_options parsed;

static const struct cli_option table[] = {
    {"arch", 'a', "NAME", "concurrency architecture; `list` shows them", CLI_TEXT, &words.arch,
     .group = "Server"},
    {"listen", 'l', "ADDR:PORT",
     "where to listen, repeatable; port 0 takes a free one (default: 127.0.0.1:8080)", CLI_LIST,
     &parsed.listen},
    {"workers", 'w', "N", "see --arch list, for the default too", CLI_NUMBER, &parsed.workers, 1,
     WORKERS_MOST},
    {"favor", 0, "connections|accept",
     "under load, run these threads first (default: whoever has waited longest)", CLI_TEXT,
     &words.favor},
    {"nonblocking", 0, NULL, "queue: no worker waits for a client", CLI_FLAG, &parsed.nonblocking},
    {"controllers", 0, "LIST",
     "stage: what adapts its stages: threads, batches, both with a comma, or none (default: "
     "threads)",
     CLI_TEXT, &words.controllers},
    {"admission", 0, "TIME",
     "stage: refuse what would take longer than this with 503 (default: admit all)", CLI_DURATION,
     &parsed.admission_ns, GS_MILLISECOND},
    {"poller", 0, "NAME",
     "what the event loops wait with: epoll, io_uring, poll or select (default: epoll)", CLI_TEXT,
     &parsed.poller},
    {"user", 'u', "NAME", "become this user once the sockets are open", CLI_TEXT, &parsed.user},
    {"access-log", 'L', "FILE",
     "log requests in the combined format; - is stdout; SIGUSR1 opens it anew", CLI_TEXT,
     &parsed.access_log},
    {"backlog", 0, "N", "length of the accept queue", CLI_NUMBER, &parsed.backlog, 1, 65535},
    {"no-defer-accept", 0, NULL, "accept connections before they have sent anything", CLI_FLAG,
     &words.no_defer_accept},
    {"drain-timeout", 0, "TIME", "how long requests in flight may take after SIGTERM", CLI_DURATION,
     &parsed.drain_timeout_ns},
    {"dotfiles", 0, NULL, "serve files whose names begin with a dot", CLI_FLAG,
     &parsed.http.dotfiles, .group = "Files"},
    {"follow-symlinks", 0, NULL, "follow symbolic links that lead out of ROOT", CLI_FLAG,
     &parsed.http.follow_symlinks},
    {"page-cache", 0, "SIZE", "memory for the contents of small files, of each worker", CLI_SIZE,
     &words.page_cache},
    {"cached-file", 0, "SIZE", "the largest file that is kept in memory", CLI_SIZE,
     &words.cached_file, 0, 1 << 30},
    {"metrics", 0, "PATH", "serve counts and times there, in Prometheus's text format", CLI_TEXT,
     &parsed.metrics},
    {"bottleneck", 0, "PATH=MS",
     "serve 8192 bytes there that take so many milliseconds of processor time", CLI_TEXT,
     &words.bottleneck},
    {"max-connections", 'c', "N",
     "connections at a time (default: 10000, or what the limit of open files allows)", CLI_NUMBER,
     &parsed.connections_most, 1, 1 << 30, .group = "Limits"},
    {"requests-per-connection", 'k', "N",
     "close a connection after so many requests; 0: never (default: 100 for pool, or 0)",
     CLI_NUMBER, &words.requests},
    {"request-line", 0, "SIZE", "longest request line", CLI_SIZE, &words.request_line, 64, 1 << 20},
    {"header-size", 0, "SIZE", "largest request header", CLI_SIZE, &words.header, 256, 1 << 24},
    {"header-fields", 0, "N", "most fields in a request", CLI_NUMBER, &words.fields, 1, 100000},
    {"body-size", 0, "SIZE", "largest request body (it is discarded)", CLI_SIZE,
     &parsed.http.body_most},
    {"header-timeout", 0, "TIME", "time for a request's header to be complete", CLI_DURATION,
     &parsed.http.header_timeout_ns, 1},
    {"idle-timeout", 0, "TIME", "time between two requests of a connection", CLI_DURATION,
     &parsed.http.idle_timeout_ns, 1},
    {"rate", 0, "SIZE", "fewest bytes a second at which a client sends or receives; 0: no limit",
     CLI_SIZE, &parsed.http.rate_least},
    {"rate-grace", 0, "TIME", "the time over which --rate is measured", CLI_DURATION,
     &parsed.http.rate_window_ns, GS_MILLISECOND},
};

const struct cli_command serve_command = {
    .name = "gossamer serve",
    .operands = "ROOT",
    .summary = "Serve the files below ROOT over HTTP.",
    .options = table,
    .count = sizeof table / sizeof *table,
    .epilogue = "SIGTERM and SIGINT finish the requests in flight and end the server.",
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

/* As many connections as were asked for, if the descriptors suffice. */
static int limit_connections(void)
{
    uint64_t others = OTHER_DESCRIPTORS + parsed.workers * (4 + parsed.listen.count);
    uint64_t limit = descriptors();
    uint64_t most = limit > others ? limit - others : 1;
    if (parsed.connections_most > most)
        return cli_fail(
            &serve_command,
            "--max-connections %llu is more than the limit of %llu open files allows: %llu",
            (unsigned long long)parsed.connections_most, (unsigned long long)limit,
            (unsigned long long)most);
    uint64_t usual = most < 10000 ? most : 10000;
    if (!parsed.connections_most)
        parsed.connections_most = usual;
    if (parsed.arch->has_worker_each && parsed.workers > parsed.connections_most)
        parsed.workers = parsed.connections_most;
    uint64_t left = (most - parsed.connections_most) / parsed.workers;
    parsed.http.cached_descriptors = (unsigned)(left < 256 ? left : 256);
    return 0;
}

static uint64_t usual_workers(const struct serve_arch *arch)
{
    uint64_t each = arch->workers_a_processor ? arch->workers_a_processor : 1;
    uint64_t usual = arch->workers_usual ? arch->workers_usual : each * serve_processors();
    return usual < WORKERS_MOST ? usual : WORKERS_MOST;
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
        parsed.workers = usual_workers(parsed.arch);
    if (parsed.workers < parsed.arch->workers_least) {
        fprintf(stderr, "%s: --workers raised to %llu, the least that %s works with\n",
                serve_command.name, (unsigned long long)parsed.arch->workers_least,
                parsed.arch->name);
        parsed.workers = parsed.arch->workers_least;
    }
    return 0;
}

static int choose_favor(void)
{
    if (!words.favor)
        return 0;
    if (!parsed.arch->has_favor)
        return cli_fail(&serve_command, "--favor: %s has no threads to be favoured",
                        parsed.arch->name);
    if (!strcmp(words.favor, "connections"))
        parsed.favor = SERVE_FAVOR_CONNECTIONS;
    else if (!strcmp(words.favor, "accept"))
        parsed.favor = SERVE_FAVOR_ACCEPT;
    else
        return cli_fail(&serve_command, "--favor %s: it is connections or accept", words.favor);
    return 0;
}

static int choose_blocking(void)
{
    if (parsed.nonblocking && !parsed.arch->has_nonblocking)
        return cli_fail(&serve_command, "--nonblocking: it is for the workers of queue, not for %s",
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
        return cli_fail(&serve_command, "--%s: it is for stage; %s has no stages",
                        words.controllers ? "controllers" : "admission", parsed.arch->name);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (strcmp(lists[i].word, word) != 0)
            continue;
        parsed.controllers = lists[i].controllers;
        return 0;
    }
    return cli_fail(&serve_command, "--controllers %s: it is threads, batches, both or none", word);
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

/* The environment tells every loop of the program, those of user-level threads too. */
static int choose_poller(void)
{
    const char *const names[] = {"epoll", "io_uring", "poll", "select"};
    if (!parsed.poller)
        return 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(parsed.poller, names[i]))
            return setenv("GS_POLLER", parsed.poller, 1) ? -ENOMEM : 0;
    return cli_fail(&serve_command, "--poller %s: it is epoll, io_uring, poll or select",
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
    words.request_line = parsed.http.request_line_most;
    words.header = parsed.http.header_most;
    words.fields = parsed.http.fields_most;
    words.page_cache = parsed.http.cache_most;
    words.cached_file = parsed.http.cached_file_most;
    words.requests = NOT_GIVEN;
    words.no_defer_accept = false;
    words.favor = words.bottleneck = words.controllers = NULL;
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

int serve_options_parse(int argc, char **argv, struct serve_options *ret_options)
{
    static const char *usual_address = "127.0.0.1:8080";
    int first;
    set_defaults();
    int err = cli_parse(&serve_command, argc, argv, &first);
    if (!err)
        err = choose_arch();
    if (!err)
        err = choose_favor();
    if (!err)
        err = choose_blocking();
    if (!err)
        err = choose_controllers();
    if (!err)
        err = choose_pages();
    if (!err)
        err = choose_poller();
    if (!err)
        err = take_operands(argc, argv, first);
    if (!err)
        err = limit_connections();
    if (err) {
        cli_list_done(&parsed.listen);
        return err;
    }
    parsed.http.request_line_most = words.request_line;
    parsed.http.header_most = words.header;
    parsed.http.fields_most = (unsigned)words.fields;
    parsed.http.cache_most = words.page_cache;
    parsed.http.cached_file_most = words.cached_file;
    parsed.http.requests_most =
        words.requests == NOT_GIVEN ? parsed.arch->requests_usual : words.requests;
    parsed.defer_accept = !words.no_defer_accept;
    *ret_options = parsed;
    if (!parsed.listen.count)
        ret_options->listen = (struct cli_list){&usual_address, 1};
    return 0;
}

void serve_options_done(struct serve_options *options)
{
    if (parsed.listen.count)
        cli_list_done(&options->listen);
}
