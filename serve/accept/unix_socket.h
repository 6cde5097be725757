/* The file of a listening Unix socket.
 *
 * Closing a socket leaves its file, to which no other socket can be bound. So a server removes its
 * file when it ends, and replaces one that a server left which was killed (gs_bind_unix).
 *
 * Another server may replace the file of one that drains, which listens no more. The first one has
 * its file open, so that the number of its inode is not given to the other file. */
#ifndef GS_SERVE_UNIX_SOCKET_H
#define GS_SERVE_UNIX_SOCKET_H

#include "serve/accept/address.h"

/* Bind fd to the address of family AF_UNIX. The umask determines who may connect. Returns 0, or
 * -EADDRINUSE if another server listens there or the file is no socket, or another -errno. */
GS_MUST_CHECK int serve_unix_socket_bind(int fd, struct serve_address *address);

/* The socket was bound by an earlier generation of this server, and its file becomes ours. */
void serve_unix_socket_adopt(struct serve_address *address);

/* Remove the file that serve_unix_socket_bind has created, if it is still there. Addresses of other
 * families, and those not bound or removed already, are ignored. */
void serve_unix_socket_remove(struct serve_address *address);

#endif
