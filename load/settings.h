/* The settings of a run, from the command line. */
#ifndef GS_LOAD_SETTINGS_H
#define GS_LOAD_SETTINGS_H

#include "cli/options.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Expected statuses and lengths. LOAD_ANY: every length, and every status of success, 200 to 399.
 * LOAD_FIRST: the length of the first response. */
#define LOAD_ANY UINT64_MAX
#define LOAD_FIRST (UINT64_MAX - 1)

enum { LOAD_PROCESSES_MAX = 256 };

struct load_settings {
    char **urls;
    uint64_t url_count;
    uint64_t connections;
    bool is_http2;
    uint64_t streams;               /* concurrent requests of a connection; 1 without HTTP/2 */
    uint64_t workers;               /* kernel threads per process */
    uint64_t processes;             /* 0: chosen from the limit of open files */
    uint64_t duration_ns, requests; /* 0: no limit */
    uint64_t think_ns, warmup_ns;
    uint64_t timeout_ns;              /* GS_NEVER: no limit */
    uint64_t give_up_ns;              /* the run ends if no response arrives; 0: it never does */
    uint64_t requests_per_connection; /* 0: no limit */
    double rate;                      /* total requests per second; 0: closed loop */
    bool is_poisson;                  /* exponentially distributed intervals */
    uint64_t seed;                    /* of the random intervals */
    uint64_t max_send_delay_ns;       /* the run is invalid if the 99th percentile is above this */
    uint64_t drop;
    bool spins_when_idle;
    uint64_t source_addresses; /* 0: the default for the server's address */
    uint64_t expect_status, expect_length;
    const char *method;
    const char *body; /* NULL: none; "@NAME": that of a file */
    struct cli_list headers;
    const char *ca, *cert, *cert_key;       /* files; NULL: not given */
    bool is_insecure;                       /* the server's certificate is not verified */
    bool resumes;                           /* TLS sessions */
    const char *json, *hdr, *hdr_log, *log; /* NULL: not written */
    FILE *log_file;                         /* of `log`, while the run lasts */
};

extern const struct cli_command gs_load_command;

/* Returns 0, CLI_DONE, or -EINVAL after printing a line to stderr. Unless it returns -EINVAL, the
 * caller calls gs_load_settings_done. */
GS_MUST_CHECK int gs_load_settings_read(int argc, char **argv, struct load_settings *ret_settings);
void gs_load_settings_done(struct load_settings *settings);

/* Raise the soft limit of open files to the hard limit, and choose the number of processes if it
 * was not given, so that each process can open its share of the connections. Neither processes nor
 * workers exceed the connections. Returns 0, or -EINVAL after printing a line to stderr. */
GS_MUST_CHECK int gs_load_settings_choose_processes(struct load_settings *settings);

/* Returns the number of requests that can be in flight. */
static inline double gs_load_offered_load(const struct load_settings *settings)
{
    return (double)settings->connections * (double)settings->streams;
}

/* Whether a rate was given. */
bool gs_load_is_open_loop(const struct load_settings *settings);

/* Whether an option was given that only has a meaning with TLS. */
bool gs_load_has_tls_option(const struct load_settings *settings);

/* Whether the method is HEAD, so that responses have no body. */
bool gs_load_is_head(const struct load_settings *settings);

#endif
