/* Validation of the value of a Host field (RFC 9110, 7.2) and of the authority of a target: both
 * are a host and an optional port.
 *
 *     gs_http_host_is_valid(GS_HTTP_TEXT("[2001:db8::1]:8080"))          true
 */
#ifndef GS_HTTP_HOST_H
#define GS_HTTP_HOST_H

#include "http/text.h"

/* Returns whether the value is a host of RFC 3986 (a name, an IPv4 address, or an IPv6 or later
 * address in brackets), optionally followed by ':' and a port, which may be empty and is at most
 * 65535. Some hosts of the general grammar are invalid here: an empty host, which http does not
 * allow; user information; a comma in a name, since two fields joined to a list would be accepted.
 */
bool gs_http_host_is_valid(struct gs_http_text value);

/* Returns a valid value without its port; an IPv6 address keeps its brackets. */
struct gs_http_text gs_http_host_name(struct gs_http_text value);

#endif
