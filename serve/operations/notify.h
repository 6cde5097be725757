/* Messages to a service manager: sd_notify(3), without its library.
 *
 *     serve_notify_open(&notify);
 *     serve_notify_send(&notify, "READY=1");
 *
 * NOTIFY_SOCKET is the address of its socket. With WATCHDOG_USEC it expects WATCHDOG=1 that often.
 * Nothing depends on whether it receives a message. */
#ifndef GS_SERVE_NOTIFY_H
#define GS_SERVE_NOTIFY_H

#include <stdint.h>

struct serve_notify {
    int fd;               /* -1: there is no manager */
    uint64_t watchdog_ns; /* 0: WATCHDOG=1 is not expected */
};

/* Take it from the environment, which is emptied of it. A socket that can't be connected is
 * reported on stderr. Called while there is one kernel thread. fd, if it is not -1, is used instead
 * of NOTIFY_SOCKET, and stays the caller's. */
void serve_notify_open(struct serve_notify *notify, int fd);
void serve_notify_close(struct serve_notify *notify);

/* state: one or more lines NAME=VALUE. Takes at most a tenth of a second. */
void serve_notify_send(const struct serve_notify *notify, const char *state);

/* The configuration is being read again; READY=1 follows. */
void serve_notify_reloading(const struct serve_notify *notify);

#endif
