/* The names that the hosts file has: look-ups of these are answered by this machine, and must not
 * wait behind others. What a name means is left to getaddrinfo, and with it to nsswitch.conf. */
#ifndef GS_BASE_HOSTS_FILE_H
#define GS_BASE_HOSTS_FILE_H

#include "base/hidden.h"

extern GS_HIDDEN const char *gs_hosts_file; /* tests change it */

enum hosts_entry {
    HOSTS_ABSENT,
    HOSTS_PRESENT,
    HOSTS_UNREAD, /* not in what could be read */
};

/* Find out whether the file has an address of the family (AF_UNSPEC: any) for the name. Reads the
 * first 64 KiB, and never waits for a disk: only what is in the caches of the kernel is read. Needs
 * some 5 KiB of stack. */
enum hosts_entry gs_hosts_file_find(const char *name, int family);

#endif
