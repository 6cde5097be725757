/* Functions for buffers that programs for version 1.4 use. New programs use event2/buffer.h alone.
 */
#ifndef EVENT2_BUFFER_COMPAT_H_INCLUDED_
#define EVENT2_BUFFER_COMPAT_H_INCLUDED_

#include <event2/visibility.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct evbuffer;

/* evbuffer_readln with EVBUFFER_EOL_ANY. */
EVENT2_EXPORT_SYMBOL char *evbuffer_readline(struct evbuffer *buffer);

/* Called with the length before and after a change. */
typedef void (*evbuffer_cb)(struct evbuffer *buffer, size_t old_len, size_t new_len, void *arg);

/* Remove all callbacks and set this one, unless it is NULL. Returns 0, or -1 if memory is missing.
 */
EVENT2_EXPORT_SYMBOL int evbuffer_setcb(struct evbuffer *buffer, evbuffer_cb cb, void *cbarg);

/* Makes all bytes up to the end of what is found contiguous. Returns its address, or NULL. */
EVENT2_EXPORT_SYMBOL unsigned char *evbuffer_find(struct evbuffer *buffer,
                                                  const unsigned char *what, size_t len);

#define EVBUFFER_LENGTH(x) evbuffer_get_length(x)
#define EVBUFFER_DATA(x) evbuffer_pullup((x), -1)

#ifdef __cplusplus
}
#endif

#endif
