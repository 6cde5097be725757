/* A request of the access log, for its tests. */
#ifndef GS_TESTS_SERVE_LOG_ENTRY_H
#define GS_TESTS_SERVE_LOG_ENTRY_H

#include <gossamer/clock.h>
#include <gossamer/http.h>
#include <string.h>

static inline struct gs_http_log_entry entry(const char *line)
{
    return (struct gs_http_log_entry){
        .request_line = line,
        .request_line_length = line ? strlen(line) : 0,
        .status = 200,
        .body_bytes = 6,
        .received = 1795262400,
        .started_ns = 5 * GS_SECOND,
    };
}

#endif
