/* The sites that are served: those of the configuration file, or the directory of the options.
 *
 *     err = serve_sites_init(&sites, options);
 *     if (!err)
 *         err = serve_sites_open(&sites, options);
 *     ...
 *     serve_sites_done(&sites);
 *
 * Processes and workers share them, and change nothing but the directories that the roots name. */
#ifndef GS_SERVE_SITES_H
#define GS_SERVE_SITES_H

#include "http/site.h"
#include "serve/operations/options.h"
#include "serve/operations/root.h"

struct serve_sites {
    struct serve_root *roots; /* of each site; one without a file */
    unsigned root_count;
    struct gs_http_site *items; /* NULL: without a file */
    unsigned count;
    struct serve_arena arena;
};

/* Describe and check the sites; nothing is opened. Returns 0, or -errno after lines on stderr.
 * serve_sites_done must be called in any case. */
GS_MUST_CHECK int serve_sites_init(struct serve_sites *sites, const struct serve_options *options);

/* Open the directories. Returns 0, or -errno after one line on stderr. */
GS_MUST_CHECK int serve_sites_open(struct serve_sites *sites);

/* Check that the user that the server now runs as may look up names in the directories. Returns 0,
 * or -errno after one line on stderr. */
GS_MUST_CHECK int serve_sites_check_access(const struct serve_sites *sites);

/* Have requests without TLS redirected to this port. */
void serve_sites_redirect(struct serve_sites *sites, uint16_t https_port);

void serve_sites_done(struct serve_sites *sites);

#endif
