/* The header fields that the rules of a site give to a response. */
#ifndef GS_HTTP_RULES_H
#define GS_HTTP_RULES_H

#include "http/site.h"

/* Put the fields for a path below the root into `out`, which has room for GS_HTTP_FIELDS_MAX bytes:
 * `common`, which may be NULL, those of the rules that match, and what is said to other sites.
 * is_file: the response has the content of the file with this path; otherwise how long a cache may
 * keep that file says nothing about the response, and Cache-Control and Expires are left out.
 * Returns the length. */
size_t gs_http_rules_fields(const struct gs_http_site *site, const char *common,
                            struct gs_http_text path, bool is_file, char *out);

/* Get the next lines of a page's fields that an error may have, too: not what rules say of how long
 * a cache may keep the file. Returns false at the end. */
bool gs_http_rules_next_for_error(struct gs_http_text *fields, const char *common,
                                  struct gs_http_text *ret_line);

/* The most bytes and lines that a response can get. */
struct gs_http_rules_size {
    size_t bytes, lines;
};
struct gs_http_rules_size gs_http_rules_max(const struct gs_http_site *site, const char *common);

#endif
