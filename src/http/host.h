/* The value of a Host field (RFC 9110, 7.2), and the authority of a target: both name a host and
 * perhaps a port.
 *
 *     gs_http_host_valid(GS_HTTP_TEXT("[2001:db8::1]:8080"))          true
 */
#ifndef GS_HTTP_HOST_H
#define GS_HTTP_HOST_H

#include "http/text.h"

/* A host of RFC 3986 (a name, an IPv4 address, an IPv6 or later address in brackets), then perhaps
 * ':' and a port, which may be empty and is at most 65535. Not valid here, though grammar elsewhere
 * allows it: an empty host, since http has no use for one; user information; a comma in a name,
 * since two fields joined to a list would pass. */
bool gs_http_host_valid(struct gs_http_text value);

#endif
