/* Sites: which files a request is for, by the host that it names.
 *
 *     static const char *const hosts[] = {"example.org", "*.example.org"};
 *     static const struct gs_http_site sites[] = {
 *         {.hosts = hosts, .host_count = 2, .root_fd = example_fd},
 *         {.is_default = true, .root_fd = other_fd},
 *     };
 *     options.sites = sites;
 *     options.site_count = 2;
 *     err = gs_http_service_new(&options, -1, &counts, &service);
 *
 * A site is immutable, and borrowed by every service that has it: all workers share one array. What
 * it says is decided when a page is loaded, and kept with the page, wherever that is possible; so a
 * cached page costs the same with any number of sites and rules, except for the lookup of its host.
 */
#ifndef GS_HTTP_SITE_H
#define GS_HTTP_SITE_H

#include "http/request.h"

#include <gossamer/api.h>
#include <stdint.h>

/* Header fields for responses by their path, as pattern.h has it. All rules of a site that match
 * apply, in their order, and a field of a later one replaces those of the same name before it: so
 * what holds for a whole site is said once, and exceptions follow. A field without a value removes
 * them.
 *
 * The path is that of the file which is sent: of an index file, a page for errors, or one that
 * stands for what is missing, its own. So "assets/" cannot have a cache keep an answer for
 * long that says there is no such file. A response without a file has the path that was requested,
 * and no Cache-Control or Expires. */
struct gs_http_rule {
    const char *pattern;
    const char *fields; /* lines, each of which ends with CR LF */
};

/* The page for a status, which the response keeps. */
struct gs_http_error_page {
    unsigned status;  /* 403, 404, 405, 500, 501 or 503 */
    const char *path; /* below the root, without a slash in front */
};

/* A path that leads elsewhere; the first redirect that matches counts, and precedes files. The
 * target is a path, or a URL with a host. In it, $1 is what the first wildcard of the pattern
 * stands for, up to $9, and $$ a dollar sign. The query of the request is appended, unless the target has
 * a question mark or a fragment. */
struct gs_http_redirect {
    const char *pattern, *target;
    unsigned status; /* 301, 302, 307 or 308 */
};

struct gs_http_site {
    /* Names without a port, in any case: "example.org" is one host; "*.example.org" all below it,
     * but not itself. An exact name takes precedence over a longer suffix, and that over a shorter
     * one. */
    const char *const *hosts;
    unsigned host_count;

    /* For hosts that no site names, and requests that name none. Without one, it is the first. */
    bool is_default;

    int root_fd; /* the directory to serve; borrowed */

    /* How a directory without an index file is listed: an enum gs_http_listing_format; 0: it is
     * not. As HTML it is also listed as JSON, for clients that accept only that of the two. */
    uint8_t listing;

    const struct gs_http_rule *rules;
    unsigned rule_count;

    /* A path as that of an error page. It is sent with the status 200 in place of a file that there
     * is not, and of a directory without an index file, so that an application of a single page can
     * interpret all paths. NULL: none. */
    const char *fallback;
    const struct gs_http_error_page *error_pages;
    unsigned error_page_count;

    const struct gs_http_redirect *redirects;
    unsigned redirect_count;

    /* The file about.html is for /about, which precedes a file or a folder about; /about.html and
     * /about/index.html are redirected there. */
    bool clean_urls;

    /* To which connections of gs_http_conn_redirect are redirected, with https; 0: they are not. */
    uint16_t https_port;
};

/* Returns NULL, or what is wrong with the name of a host, as the end of a sentence: "is ...". */
const char *gs_http_site_host_problem(const char *host);

/* The same for the fields of a rule. */
const char *gs_http_site_fields_problem(const char *fields);

/* The same for all settings of a site but its hosts. common: the fields of the options. */
const char *gs_http_site_problem(const struct gs_http_site *site, const char *common);

/* The same for the path of a page. */
const char *gs_http_site_page_problem(const char *path);

/* The same for a redirect. */
const char *gs_http_site_redirect_problem(const struct gs_http_redirect *redirect);

/* The path of the page for a status; NULL: none. */
const char *gs_http_site_error_page(const struct gs_http_site *site, unsigned status);

/* ---- The table of hosts ---- */

struct gs_http_site_name; /* a slot of the table */

/* A hash table with open addressing, of which at least half is empty. */
struct gs_http_sites {
    struct gs_http_site_name *slots;
    char *names; /* in lower case; those for all hosts below a name begin with its dot */
    uint32_t mask;
    unsigned count; /* of sites; with one there is no table */
    bool has_suffixes;
    const struct gs_http_site *all, *fallback;
};

/* Returns 0, -ENOMEM, -EINVAL if a name is no host's, or -EEXIST if two sites have the same name,
 * or are the default. */
GS_MUST_CHECK int gs_http_sites_init(struct gs_http_sites *sites, const struct gs_http_site *all,
                                     unsigned count);

void gs_http_sites_done(struct gs_http_sites *sites);

/* The site of a host with or without a port, in any case; no bytes: the default. */
const struct gs_http_site *gs_http_sites_find(const struct gs_http_sites *sites,
                                              struct gs_http_text host);

/* The host that the request is for, as it was sent: the target's authority takes precedence over
 * the Host field (RFC 9112, 3.2.2). No bytes: it names none. */
static inline struct gs_http_text gs_http_site_host(const struct gs_http_request *request)
{
    return request->target.authority.bytes ? request->target.authority : request->host;
}

#endif
