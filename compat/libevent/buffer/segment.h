/* File segments, for the chains that refer to them. */
#ifndef GS_COMPAT_LIBEVENT_SEGMENT_H
#define GS_COMPAT_LIBEVENT_SEGMENT_H

#include <stddef.h>
#include <sys/types.h>

struct evbuffer;
struct evbuffer_file_segment;
struct gs_ev_chain;

/* Bring the contents into memory, unless they are there already. They stay until the segment is
 * freed. Returns their address, or NULL. */
const unsigned char *gs_ev_segment_load(struct evbuffer_file_segment *segment);

/* sendfile to fd from the first chain of a buffer, which is of a file. Returns the number of bytes
 * sent, or -errno. */
ssize_t gs_ev_segment_send(const struct gs_ev_chain *chain, int fd, size_t n);

#endif
