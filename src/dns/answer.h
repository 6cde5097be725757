/* What c-ares has found, as getaddrinfo returns it. */
#ifndef GS_DNS_ANSWER_H
#define GS_DNS_ANSWER_H

#include "base/resolution.h"

#include <ares.h>

/* The family to ask for: if only addresses that this machine could use are wanted (AI_ADDRCONFIG),
 * that of its own addresses. -1: it has none of the family. */
int gs_dns_family(const struct addrinfo *hints);

/* Set the result: found: NULL if status is not ARES_SUCCESS. It remains the caller's. */
void gs_dns_set_result(struct resolution *resolution, int status,
                       const struct ares_addrinfo *found);

#endif
