/* Addresses as text: to connect to one, and to listen at one.
 *
 *     int fd = gs_dial("www.example.org:80", gs_clock_now() + 5 * GS_SECOND);
 *
 * Addresses: "HOST:PORT", an IPv6 address in brackets ("[::1]:8080"), or "unix:PATH" for a Unix
 * socket of that path. The returned descriptor is non-blocking and close-on-exec, and must be
 * closed with gs_close. TCP sockets have TCP_NODELAY: programs that write in small pieces should
 * collect them (buffered.h).
 *
 * Threads: gs_listen and gs_bind_unix never wait, and may be called by any kernel thread, also
 * while no user threads run. gs_dial is for user threads; deadline_ns is described in thread.h.
 */
#ifndef GOSSAMER_NET_H
#define GOSSAMER_NET_H

#include <gossamer/api.h>
#include <gossamer/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

GS_BEGIN_DECLS

/* ---- Connecting to an address ----
 *
 *     int fd = gs_dial("localhost:8080", deadline_ns);
 *     if (fd < 0)
 *         return fd;
 */

/* Connect to a stream socket. PORT is a number or the name of a service.
 *
 * If HOST is a name, all its addresses are tried, as RFC 8305 recommends: in the order of
 * getaddrinfo(3), but with IPv6 and IPv4 in turn. An attempt starts when the previous one has
 * failed, or after 250 ms, while the previous ones go on; the first that succeeds wins, and the
 * others are closed. At most 16 are in progress at a time. A name is looked up as gs_resolve does:
 * both families at once.
 *
 * If the accept queue of a Unix socket is full, the connection is tried again until the deadline.
 *
 * Returns the descriptor; -EINVAL (no address), -ENAMETOOLONG (a path of more than 107 bytes, a
 * host of more than 255, or a service of more than 63), -GS_ENONAME (no such name or service),
 * -GS_ENAMESERVER (the name server does not answer), -EIO (another failure of the look-up), -ENOENT
 * (no such path), -EAGAIN (a kernel thread of the pool cannot be created), -ETIMEDOUT (also if the
 * kernel gives up), -ECANCELED, -ENOMEM, or the error of socket(2) or connect(2) of the first
 * attempt that failed. gs_strerror has a text for each. */
GS_API GS_MUST_CHECK int gs_dial(const char *address, uint64_t deadline_ns);

/* ---- Listening at an address ----
 *
 *     int listener = gs_listen(":8080", NULL);
 *     while ((fd = gs_accept(listener, NULL, NULL, SOCK_CLOEXEC, GS_NEVER)) >= 0)
 *         ...
 */

/* All zero: the defaults. */
struct gs_listen_options {
    unsigned backlog; /* connections that wait to be accepted; 0: the system's limit */
    bool shares_port; /* others with this option may listen at the address, too (SO_REUSEPORT) */
};

/* Listen for stream connections at an address of this machine. HOST is a numeric address, since a
 * name would have to be looked up. An empty HOST means every address of IPv6 and IPv4, as far as
 * the system has them; "0.0.0.0" means every address of IPv4, and "[::]" every address of IPv6
 * only. PORT is a number; with 0, the kernel chooses one (getsockname(2)). The socket has
 * SO_REUSEADDR, and a Unix socket is bound as by gs_bind_unix. options: may be NULL.
 *
 * Returns the descriptor; -EINVAL (no such address), -ENAMETOOLONG (as gs_dial), -EADDRINUSE
 * (others listen there), -EADDRNOTAVAIL (this machine does not have the address), or another error
 * of socket(2), bind(2) or listen(2). */
GS_API GS_MUST_CHECK int gs_listen(const char *address, const struct gs_listen_options *options);

/* Bind a Unix socket to a path, as bind(2), but replace the socket file of a server that was
 * killed: one to which connections are refused. The file stays when the socket is closed; unlink(2)
 * removes it. The umask determines who may connect. If two servers replace a file at the same time,
 * only one of them can be reached.
 *
 * Returns 0, -EADDRINUSE (a server listens there, or the file is no socket), or another error of
 * bind(2). */
GS_API GS_MUST_CHECK int gs_bind_unix(int fd, const struct sockaddr *address, socklen_t length);

GS_END_DECLS

#endif
