/* What the command line asks for. */
#ifndef GS_SERVE_OPTIONS_H
#define GS_SERVE_OPTIONS_H

#include "cli/options.h"
#include "serve/bottleneck.h"

#include <gossamer/http.h>

struct serve_arch;

/* Which threads run first where there are both. */
enum serve_favor {
    SERVE_FAVOR_NONE,        /* whoever has waited longest */
    SERVE_FAVOR_CONNECTIONS, /* those of connections */
    SERVE_FAVOR_ACCEPT,      /* those that accept connections */
};

struct serve_options {
    const struct serve_arch *arch;
    struct cli_list listen; /* ADDR:PORT words */
    const char *root;
    uint64_t workers;
    const char *access_log; /* NULL: none; "-": stdout */
    const char *user;       /* NULL: stay who we are */
    uint64_t connections_most;
    uint64_t backlog;
    uint64_t drain_timeout_ns;
    bool defer_accept;
    bool nonblocking; /* no worker waits for a client */
    enum serve_favor favor;
    const char *metrics;                /* the target of the page; NULL: none */
    struct serve_bottleneck bottleneck; /* without a path: none */
    unsigned controllers;               /* of stages that may block: GS_STAGE_... */
    uint64_t admission_ns;              /* the target; 0: all are admitted */
    const char *poller;                 /* of the event loops; NULL: the library's choice */
    struct gs_http_options http;
};

extern const struct cli_command serve_command;

/* Returns 0; CLI_DONE after --help, --version or `--arch list`; or -EINVAL after one line on stderr. */
GS_MUST_CHECK int serve_options_parse(int argc, char **argv, struct serve_options *ret_options);

void serve_options_done(struct serve_options *options);

/* How many processors we may run on. */
uint64_t serve_processors(void);

#endif
