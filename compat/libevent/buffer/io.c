/* Reading into buffers from descriptors, and writing from them. */
#include "compat/libevent/buffer/buffer.h"
#include "compat/libevent/buffer/segment.h"
#include "compat/libevent/event/memory.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <pthread.h>
#include <sys/uio.h>

/* evbuffer_read reads no more at once. */
#define MAX_READ 4096

/* With less room than this behind the last chain, a read gets another one. */
#define MIN_READ_ROOM 512

/* A call writes from no more chains than this. */
#define MAX_WRITE_EXTENTS 128

/* ---- Reading ---- */

/* A read of unknown size needs MAX_READ bytes of room, but usually fills few. A small chain takes
 * these; the rest of the room is a chain that the thread keeps until a read needs it. So nothing is
 * asked of the kernel first, and a buffer with a short message holds little memory. */
static _Thread_local struct gs_ev_chain *overflow;
static pthread_key_t at_exit_key;
static pthread_once_t at_exit_once = PTHREAD_ONCE_INIT;
static bool has_exit_key;

static void free_overflow(void *chain)
{
    overflow = NULL;
    gs_ev_chain_free(chain);
}

static void make_exit_key(void)
{
    has_exit_key = !pthread_key_create(&at_exit_key, free_overflow);
}

static struct gs_ev_chain *take_overflow(void)
{
    if (overflow)
        return overflow;
    pthread_once(&at_exit_once, make_exit_key);
    struct gs_ev_chain *chain = gs_ev_chain_new(MAX_READ);
    if (chain && has_exit_key && pthread_setspecific(at_exit_key, chain)) {
        gs_ev_chain_free(chain);
        return NULL;
    }
    overflow = chain;
    return chain;
}

void gs_ev_buffer_shutdown(void)
{
    if (!overflow)
        return;
    if (has_exit_key)
        pthread_setspecific(at_exit_key, NULL);
    free_overflow(overflow);
}

static void give_overflow(struct evbuffer *buffer, size_t n)
{
    struct gs_ev_chain *chain = overflow;
    overflow = NULL;
    if (has_exit_key)
        pthread_setspecific(at_exit_key, NULL);
    chain->length = n;
    gs_ev_buffer_append(buffer, chain);
}

/* Choose up to three chains with room for n bytes: the last one, the spare one, and the overflow.
 * Returns their number, or -ENOMEM. */
static int choose_chains(struct evbuffer *buffer, size_t n, struct gs_ev_chain *chains[3])
{
    int count = 0;
    size_t room = 0;
    if (buffer->last && gs_ev_chain_room(buffer->last)) {
        chains[count++] = buffer->last;
        room = gs_ev_chain_room(buffer->last);
    }
    if (room < n && room < MIN_READ_ROOM) {
        if (gs_ev_buffer_make_spare(buffer, MIN_READ_ROOM))
            return -ENOMEM;
        chains[count++] = buffer->spare;
        room += gs_ev_chain_room(buffer->spare);
    }
    if (room < n) {
        chains[count] = take_overflow();
        if (!chains[count++])
            return -ENOMEM;
    }
    return count;
}

/* Returns the number of bytes, or -errno. */
static ssize_t read_some(struct evbuffer *buffer, int fd, size_t n)
{
    struct gs_ev_chain *chains[3];
    struct iovec extents[3];
    int count = choose_chains(buffer, n, chains);
    if (count < 0)
        return count;
    for (int i = 0; i < count; i++) {
        size_t room = gs_ev_chain_room(chains[i]);
        extents[i].iov_base = gs_ev_chain_end(chains[i]);
        extents[i].iov_len = room < n ? room : n;
        n -= extents[i].iov_len;
    }
    ssize_t got = count == 1 ? gs_sys_read(fd, extents[0].iov_base, extents[0].iov_len)
                             : gs_sys_readv(fd, extents, count);
    if (got <= 0)
        return got;
    size_t rest = (size_t)got;
    for (int i = 0; rest && i < count; i++) {
        size_t piece = extents[i].iov_len < rest ? extents[i].iov_len : rest;
        if (chains[i] == overflow)
            give_overflow(buffer, piece);
        else
            gs_ev_buffer_extend(buffer, chains[i], piece);
        rest -= piece;
    }
    return got;
}

/* Tell of what was moved, or set errno for -errno. Returns n, or -1. */
static int report(struct evbuffer *buffer, ssize_t n)
{
    if (n > 0)
        gs_ev_buffer_changed(buffer);
    if (n >= 0)
        return (int)n;
    errno = (int)-n;
    return -1;
}

int evbuffer_read(struct evbuffer *buffer, evutil_socket_t fd, int howmuch)
{
    gs_ev_buffer_lock(buffer);
    size_t wanted = howmuch < 0 || howmuch > MAX_READ ? MAX_READ : (size_t)howmuch;
    int n = buffer->is_back_frozen ? -1 : report(buffer, read_some(buffer, fd, wanted));
    gs_ev_buffer_unlock(buffer);
    return n;
}

/* ---- Writing ---- */

static ssize_t write_memory(const struct evbuffer *buffer, int fd, size_t n)
{
    struct iovec extents[MAX_WRITE_EXTENTS];
    int count = 0;
    const struct gs_ev_chain *chain = buffer->first;
    for (; chain && n && count < MAX_WRITE_EXTENTS && chain->memory; chain = chain->next) {
        size_t piece = chain->length < n ? chain->length : n;
        extents[count].iov_base = gs_ev_chain_bytes(chain);
        extents[count++].iov_len = piece;
        n -= piece;
    }
    if (count == 1)
        return gs_sys_write(fd, extents[0].iov_base, extents[0].iov_len);
    return gs_sys_writev(fd, extents, count);
}

static ssize_t send_file(const struct evbuffer *buffer, int fd, size_t n)
{
    const struct gs_ev_chain *chain = buffer->first;
    ssize_t sent = gs_ev_segment_send(chain, fd, chain->length < n ? chain->length : n);
    if (sent != -EAGAIN && sent != -EINTR)
        return sent;
    /* Unlike for memory, this is no error, but errno is set. */
    errno = (int)-sent;
    return 0;
}

static ssize_t write_some(struct evbuffer *buffer, int fd, size_t n)
{
    ssize_t written = buffer->first->kind == GS_EV_CHAIN_FILE ? send_file(buffer, fd, n)
                                                              : write_memory(buffer, fd, n);
    if (written > 0)
        gs_ev_buffer_cut(buffer, (size_t)written);
    return written;
}

int evbuffer_write_atmost(struct evbuffer *buffer, evutil_socket_t fd, ev_ssize_t howmuch)
{
    gs_ev_buffer_lock(buffer);
    size_t wanted = buffer->length;
    if (howmuch >= 0 && (size_t)howmuch < wanted)
        wanted = (size_t)howmuch;
    if (wanted > INT_MAX)
        wanted = INT_MAX;
    bool is_possible = !buffer->is_front_frozen && wanted;
    int n = is_possible ? report(buffer, write_some(buffer, fd, wanted)) : -1;
    gs_ev_buffer_unlock(buffer);
    return n;
}

int evbuffer_write(struct evbuffer *buffer, evutil_socket_t fd)
{
    return evbuffer_write_atmost(buffer, fd, -1);
}
