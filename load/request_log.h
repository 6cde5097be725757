/* The log of --log: a line of comma-separated values for each request whose outcome is counted, and
 * for each in flight at the end of the run, whose duration is its wait so far. */
#ifndef GS_LOAD_REQUEST_LOG_H
#define GS_LOAD_REQUEST_LOG_H

#include "load/metrics.h"
#include "load/settings.h"

/* Open settings->log, if it is given, as settings->log_file, which processes may share: each line
 * is one write to the end of the file. Returns 0 or -errno. */
GS_MUST_CHECK int gs_load_request_log_open(struct load_settings *settings);

/* Returns 0, or -EIO if a line was not written; also without a log. */
GS_MUST_CHECK int gs_load_request_log_close(struct load_settings *settings);

/* Append a line to the log, unless it is NULL. start_ns is relative to the start of the measured
 * time. status: of the response, or 0 if there was none; error: LOAD_OK if the request has not
 * ended. */
void gs_load_request_log_write(FILE *log, int64_t start_ns, uint64_t duration_ns, unsigned status,
                               enum load_error error);

#endif
