/* What a test prints, which must be the same with libevent and with ours: no numbers of
 * descriptors, no addresses and no times. */
#ifndef GS_TESTS_LIBEVENT_TRANSCRIPT_H
#define GS_TESTS_LIBEVENT_TRANSCRIPT_H

#include <event2/event.h>
#include <stdio.h>
#include <string.h>

/* Print at once, so that nothing is lost if the program crashes. */
#define say(...)                                                                                   \
    do {                                                                                           \
        printf(__VA_ARGS__);                                                                       \
        fflush(stdout);                                                                            \
    } while (0)

/* Returns 0 or 1 for a descriptor of the pair, or -1. */
static inline int name_of_fd(int fd, const int pair[2])
{
    return fd == pair[0] ? 0 : fd == pair[1] ? 1 : -1;
}

static inline const char *names_of(short events)
{
    static const char *const names[] = {"timeout", "read", "write",    "signal",
                                        "persist", "et",   "finalize", "closed"};
    static char text[64];
    text[0] = '\0';
    for (int i = 0; i < 8; i++)
        if (events & 1 << i)
            strcat(strcat(text, text[0] ? "|" : ""), names[i]);
    return text[0] ? text : "none";
}

#endif
