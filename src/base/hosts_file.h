/* The names that the hosts file has: look-ups of these are answered by this machine, and must not
 * wait behind others. What a name means is left to getaddrinfo, and with it to nsswitch.conf. */
#ifndef GS_BASE_HOSTS_FILE_H
#define GS_BASE_HOSTS_FILE_H

#include "base/hidden.h"

#include <stdbool.h>

extern GS_HIDDEN const char *gs_hosts_file; /* tests change it */

/* Whether the first 64 KiB of the file have an address of the family (AF_UNSPEC: any) for the name.
 * Never waits for a disk: what is not in the caches of the kernel is not found. Needs some 5 KiB of
 * stack. */
bool gs_hosts_file_has(const char *name, int family);

#endif
