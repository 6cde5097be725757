/* Options of the command line. */
#ifndef GS_SERVE_OPTIONS_H
#define GS_SERVE_OPTIONS_H

#include "cli/options.h"
#include "serve/config/config.h"
#include "serve/log/forwarded.h"
#include "serve/log/line.h"
#include "serve/operations/bottleneck.h"

#include <gossamer/http.h>

struct serve_arch;

/* Which threads run first (--favor). */
enum serve_priority {
    SERVE_PRIORITY_NONE,        /* the thread that has waited longest */
    SERVE_PRIORITY_CONNECTIONS, /* those of connections */
    SERVE_PRIORITY_ACCEPT,      /* those that accept connections */
};

/* Whether the server is contained (--sandbox). */
enum serve_sandbox {
    SERVE_SANDBOX_AUTO, /* as far as the kernel can, without a change of what is served */
    SERVE_SANDBOX_ON,   /* or the server does not start */
    SERVE_SANDBOX_OFF,
};

struct serve_options {
    struct serve_config config; /* without hosts: there is no file */
    bool is_check;              /* serve nothing */
    const struct serve_arch *arch;
    struct cli_list listen;             /* words of serve_address_parse */
    bool is_listen_default;             /* it was not given */
    struct cli_list certificates, keys; /* files; without keys, they are with the certificates */
    struct cli_list ocsp;               /* files with a response for each certificate, or none */
    bool is_modern;                     /* TLS 1.3 only */
    const char *passphrase_file;        /* of the keys; NULL: they are not encrypted */
    const char *users;                  /* file of who may request pages; NULL: everybody may */
    bool users_without_tls;             /* users may send their passwords without TLS */
    bool redirects;                     /* all that comes without TLS */
    uint64_t hsts_ns;                   /* 0: the field is not sent */
    const char *root;                   /* NULL: the hosts of the file have theirs */
    uint64_t workers;
    const char *access_log; /* NULL: none; "-": stdout */
    struct serve_log_format log_format;
    const char *user;  /* NULL: the present one */
    const char *group; /* NULL: the user's */
    enum serve_sandbox sandbox;
    struct serve_networks proxies;    /* that begin connections with a header (PROXY protocol) */
    struct serve_forwarded forwarded; /* those whose fields of requests name the client */
    uint64_t max_connections;
    uint64_t max_descriptors; /* of connections and of the files that they send */
    uint64_t backlog;
    uint64_t drain_timeout_ns;
    bool supervises;           /* the process starts the server as another one (supervisor.h) */
    uint64_t start_timeout_ns; /* of that one */
    bool defer_accept;
    bool evicts;      /* connections give way to clients that wait for a place */
    bool nonblocking; /* queue: no worker waits for a client */
    enum serve_priority priority;
    const char *metrics;                /* the path of the page; NULL: none */
    const char *health;                 /* the path of the page for probes; NULL: none */
    const char *metrics_listen;         /* where that page is, and nowhere else; NULL: everywhere */
    struct serve_bottleneck bottleneck; /* without a path: none */
    unsigned controllers;               /* of stages that may block: GS_STAGE_... */
    uint64_t admission_ns;              /* the target; 0: all are admitted */
    unsigned compressed;                /* the set of codings that pages are compressed in */
    const char *poller;                 /* of the event loops; NULL: GS_POLLER, or no loops */
    struct gs_http_options http;
};

extern const struct cli_command serve_command;

/* Returns 0; CLI_DONE after --help, --version, `--arch list` and what else
 * prints and ends; or -EINVAL after one line on
 * stderr. */
GS_MUST_CHECK int serve_options_parse(int argc, char **argv, struct serve_options *ret_options);

/* Print what is wrong with an option, whose name with two dashes begins the message; if the file
 * gives it, its line and name there. Returns -EINVAL. */
int serve_options_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

void serve_options_done(struct serve_options *options);

/* The number of processors that the process may run on. */
uint64_t serve_processors(void);

#endif
