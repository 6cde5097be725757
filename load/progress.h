/* One line on a terminal that tells how the run goes on; nothing if stderr is none. */
#ifndef GS_LOAD_PROGRESS_H
#define GS_LOAD_PROGRESS_H

#include <gossamer/loop.h>

struct load_counts {
    uint64_t requests, errors;
};

typedef struct load_counts load_count_fn(void *data);

struct load_progress {
    struct gs_timer timer;
    load_count_fn *count;
    void *data;
    uint64_t begun_ns, last_ns;
    uint64_t last_requests;
    bool is_shown;
};

/* count is asked four times a second. Returns 0 or -ENOMEM. */
GS_MUST_CHECK int gs_load_progress_start(struct load_progress *progress, struct gs_loop *loop,
                                         load_count_fn *count, void *data);

/* Remove the line. */
void gs_load_progress_stop(struct load_progress *progress);

#endif
