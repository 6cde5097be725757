/* The fields of a response's head, in place: for heads that the response parser has accepted. */
#ifndef GS_HTTP_RESPONSE_HEAD_H
#define GS_HTTP_RESPONSE_HEAD_H

#include <gossamer/api.h>
#include <gossamer/http_field.h>
#include <stddef.h>

/* Split a complete head of n bytes into names and values, which are terminated in it. White space
 * around them is removed, and lines that continue a value are joined with spaces. Returns the
 * number of fields; -EMSGSIZE (more than max); or -EPROTO (a line without a colon or a name, or a
 * control character other than a tab). */
GS_MUST_CHECK int gs_http_response_head_split(char *head, size_t n, struct gs_http_field *fields,
                                              unsigned max);

#endif
