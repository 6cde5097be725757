/* Input and output of tasks: what read_write.c, sockets.c and poll.c share. */
#ifndef GS_COMPAT_PTHREAD_IO_H
#define GS_COMPAT_PTHREAD_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct iovec;
struct task;

/* The kernel's limit is 1024; calls with larger arrays are made by the pool. */
enum { IOVECS_MAX = 64 };

/* A call on a socket, as recvfrom and sendto. */
struct socket_io {
    int fd;
    void *bytes;
    size_t n;
    int flags;
    void *address;        /* sockaddr */
    unsigned long length; /* of the address; for recvfrom a pointer to it */
    bool raises_signal;
};

bool gs_is_nonblocking(int fd);
bool gs_is_ready(int fd, short events); /* also if it cannot be polled */
void gs_iovec_advance(struct iovec **iov, long *count, size_t n);
void gs_raise_pipe_signal(struct task *task);

/* Each returns -ENOTSOCK if it is no socket. */
long gs_socket_receive(struct task *task, const struct socket_io *io);
long gs_socket_send(struct task *task, const struct socket_io *io);
long gs_socket_receive_message(struct task *task, int fd, struct msghdr *message, int flags);
long gs_socket_send_message(struct task *task, int fd, const struct msghdr *message, int flags);

#endif
