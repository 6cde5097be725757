/* What the words of the command line ask for. */
#ifndef GS_LOAD_SETTINGS_H
#define GS_LOAD_SETTINGS_H

#include "cli/options.h"

#include <stdbool.h>
#include <stdint.h>

/* A status or length that was not given: the first answer's counts. */
#define LOAD_ANY UINT64_MAX

enum { LOAD_MOST_PROCESSES = 256 };

struct load_settings {
    char **urls;
    uint64_t url_count;
    uint64_t connections;
    uint64_t workers;               /* kernel threads of each process */
    uint64_t processes;             /* 0: as many as the limit of open files asks for */
    uint64_t duration_ns, requests; /* 0: no limit; not both */
    uint64_t think_ns, warmup_ns, timeout_ns;
    uint64_t requests_per_connection; /* 0: no limit */
    uint64_t rate;                    /* requests a second, in all; 0: a closed loop */
    bool is_poisson;                  /* intervals are random, exponentially distributed */
    uint64_t seed;                    /* of those */
    uint64_t late_ns;                 /* later sends make the run void */
    uint64_t drop;
    bool keeps_awake;          /* cores do not halt while clients wait */
    uint64_t source_addresses; /* 0: as the server's address suggests */
    uint64_t expect_status, expect_length;
    const char *method;
    struct cli_list headers;
    const char *json, *hdr, *hdr_log; /* NULL: none */
};

extern const struct cli_command gs_load_command;

/* Returns 0, CLI_DONE, or -EINVAL after a line on stderr. gs_load_settings_done in any case but the
 * last. */
GS_MUST_CHECK int gs_load_settings_read(int argc, char **argv, struct load_settings *ret_settings);
void gs_load_settings_done(struct load_settings *settings);

/* Whether the method's answers have no body. */
bool gs_load_is_head(const struct load_settings *settings);

#endif
