/* The header of the PROXY protocol, versions 1 and 2, by which a proxy tells whom a connection
 * comes from (HAProxy's specification, "The PROXY protocol, versions 1 & 2", 2020). */
#ifndef GS_SERVE_PROXY_HEADER_H
#define GS_SERVE_PROXY_HEADER_H

#include "serve/accept/networks.h"

#include <sys/types.h>

/* The longest header that is accepted; of version 2 it may have fields that are ignored. */
#define SERVE_PROXY_HEADER_MAX 4096

/* Parse the header at the start of what was received. Returns its length and the client, whose
 * family is AF_UNSPEC if the proxy speaks for itself or does not know; 0: it is incomplete; or
 * -EBADMSG: it is none, or too long. */
ssize_t serve_proxy_header_parse(const char *bytes, size_t n, struct serve_host *ret_client);

#endif
