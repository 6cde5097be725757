/* What tests of buffers share. */
#ifndef GS_TESTS_LIBEVENT_BYTES_H
#define GS_TESTS_LIBEVENT_BYTES_H

#include "tests/test.h"

#include <event2/buffer.h>
#include <event2/event.h>

/* Check the contents of a buffer without changing it. */
#define CHECK_BYTES(buffer, expected)                                                              \
    do {                                                                                           \
        char bytes_[256] = "";                                                                     \
        CHECK_EQ(evbuffer_get_length(buffer), strlen(expected));                                   \
        CHECK_EQ(evbuffer_copyout(buffer, bytes_, sizeof bytes_ - 1), strlen(expected));           \
        CHECK_STR(bytes_, expected);                                                               \
    } while (0)

static inline struct evbuffer *buffer_with(const char *text)
{
    struct evbuffer *buffer = evbuffer_new();
    evbuffer_add(buffer, text, strlen(text));
    return buffer;
}

/* A buffer in which each character of the text is a chain of its own. */
static inline struct evbuffer *scattered(const char *text)
{
    struct evbuffer *buffer = evbuffer_new();
    for (size_t i = 0; text[i]; i++)
        evbuffer_add_reference(buffer, text + i, 1, NULL, NULL);
    return buffer;
}

#endif
