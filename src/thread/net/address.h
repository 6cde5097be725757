/* Addresses as text: "HOST:PORT", "[HOST]:PORT", "unix:PATH". */
#ifndef GS_THREAD_ADDRESS_H
#define GS_THREAD_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* The longest host and service, with their ends. */
#define HOST_SIZE 256
#define SERVICE_SIZE 64

struct address {
    struct sockaddr_storage storage;
    socklen_t length;
};

/* Whether the text begins with "unix:". */
bool gs_address_is_unix(const char *text);

/* Parse "unix:PATH". Returns 0, -EINVAL (no path) or -ENAMETOOLONG. */
int gs_address_parse_unix(const char *text, struct address *ret_address);

/* Take the text apart. The host may be empty; brackets are taken off. Returns 0, -EINVAL or
 * -ENAMETOOLONG. */
int gs_address_split(const char *text, char host[HOST_SIZE], char service[SERVICE_SIZE]);

/* Whether the host and port are numbers, so that no look-up is needed; then they are stored. */
bool gs_address_is_numeric(const char *host, const char *port, struct address *ret_address);

#endif
