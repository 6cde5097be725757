/* A line of the access log, in one of two formats:
 *
 *   combined  CLIENT - - [DATE] "REQUEST" STATUS BYTES "REFERER" "USER-AGENT", optionally followed
 *             by "TLS-VERSION" "CIPHER" "SERVER-NAME"
 *   json      an object with the chosen members; what is not known is null */
#ifndef GS_SERVE_LINE_H
#define GS_SERVE_LINE_H

#include <gossamer/api.h>
#include <gossamer/http.h>
#include <gossamer/tls_engine.h>
#include <limits.h>
#include <stdbool.h>

/* The longest line, and the longest that its texts become, with their escapes. */
#define SERVE_LOG_LINE_MAX PIPE_BUF
#define SERVE_LOG_REQUEST_MAX 2048
#define SERVE_LOG_FIELD_MAX 736
#define SERVE_LOG_NAME_MAX 256
#define SERVE_LOG_TARGET_MAX 1536 /* in JSON */

#define SERVE_LOG_MEMBERS 16

/* Zero: the combined format. */
struct serve_log_format {
    bool has_tls;                       /* combined: lines end with the fields of TLS */
    unsigned member_count;              /* of an object; 0: the combined format */
    uint8_t members[SERVE_LOG_MEMBERS]; /* indices of a private table */
};

struct serve_log_line {
    const char *client;                    /* its address, as text */
    const struct gs_http_log_entry *entry; /* the request and its response */
    const struct gs_tls_info *tls;         /* NULL: the connection has none */
    uint64_t now_ns;                       /* for the duration */
};

/* Parse the name of a format ("combined", "json"; NULL: combined) and a list of members, separated
 * by commas (NULL: those that combined has, and the host and the duration). Returns 0, or -EINVAL
 * and what is wrong, as a phrase. */
GS_MUST_CHECK int serve_log_format_parse(const char *format, const char *members, bool has_tls,
                                         struct serve_log_format *ret_format,
                                         const char **ret_problem);

/* Write the line, with its end, at `out`, which has room for SERVE_LOG_LINE_MAX bytes. Returns its
 * length. */
size_t serve_log_put_line(char *out, const struct serve_log_format *format,
                          const struct serve_log_line *line);

/* Copy n bytes of text; quotes, backslashes and all that is not printable ASCII become \xHH. At
 * most max bytes are written: the end of a long text is left out. Returns the length. */
size_t serve_log_escape(char *out, size_t max, const char *text, size_t n);

#endif
