/* One field line of a request. */
#ifndef GS_HTTP_FIELD_H
#define GS_HTTP_FIELD_H

#include "http/request.h"

/* line: without its CRLF, free of control characters but tabs. Stores what matters for the answer
 * in *request. Returns 0 or the status to refuse the request with. */
unsigned gs_http_field_parse(struct gs_http_text line, struct gs_http_request *request);

/* The next line of the field `name` (lower case) in the fields of a head that was parsed; *fields
 * is moved behind it. False: there is none. */
bool gs_http_field_next(struct gs_http_text *fields, const char *name,
                        struct gs_http_text *ret_value);

#endif
