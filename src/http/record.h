/* The access log's entries of responses, which wait in the output until these are sent. */
#ifndef GS_HTTP_RECORD_H
#define GS_HTTP_RECORD_H

#include "http/response.h"

/* Without memory for it, a line of the log is lost. */
void gs_http_add_log_record(const struct gs_http_response *response,
                            struct gs_http_response_info info);

#endif
