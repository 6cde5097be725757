/* What a receive ahead holds, for the two files that change it. */
#ifndef GS_THREAD_RECEIVE_AHEAD_STATE_H
#define GS_THREAD_RECEIVE_AHEAD_STATE_H

#include "loop/uring.h"
#include "thread/receive_ahead.h"

/* Copies of what arrived while no thread waited. */
struct kept {
    size_t at, n; /* the first that was not taken; the end */
    char bytes[];
};

struct ahead {
    struct uring_call call;
    struct descriptor *descriptor; /* its former one after it was closed: entries stay */
    struct worker *worker;
    union {
        struct {
            struct kept *kept;  /* follows what is in the buffer */
            struct ahead *next; /* in closed_aheads */
        };
        struct gs_list link; /* in ending_aheads */
    };
    int16_t error;    /* 0 or -errno, which follows what was kept; -ENOMEM stays: bytes are lost */
    uint16_t at, end; /* the bytes of the buffer that were not taken; equal: it holds none */
    unsigned buffer : 9;  /* its number */
    bool is_active : 1;   /* the kernel may complete it */
    bool is_canceled : 1; /* it will end soon */
    bool is_over : 1;     /* it is not started again */
    bool is_ending : 1;   /* in ending_aheads */
    bool is_guarded : 1;  /* gs_uring_start_guard */
};
_Static_assert(sizeof(struct ahead) == 56, "with the allocator's header, a cache line");
_Static_assert(BUFFER_SIZE <= UINT16_MAX && BUFFERS_MAX <= 1 << 9, "at, end and buffer");

static inline struct gs_loop *loop_of(const struct ahead *ahead)
{
    return ahead->worker->loop;
}

static inline bool has_buffer(const struct ahead *ahead)
{
    return ahead->at < ahead->end;
}

static inline bool has_something(const struct ahead *ahead)
{
    return has_buffer(ahead) || ahead->kept || ahead->error;
}

#endif
