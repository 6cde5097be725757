/* The three controllers of a stage, after SEDA's. Each is a state and a function of observations
 * and of the time; it uses no lock and no clock. */
#ifndef GS_STAGE_CONTROLLERS_H
#define GS_STAGE_CONTROLLERS_H

#include <gossamer/clock.h>
#include <stdbool.h>

/* ---- Threads: one is added when the queue is long; one that is idle for a while ends ---- */

#define GS_POOL_THRESHOLD 10
#define GS_POOL_IDLE_NS GS_SECOND

/* Minimum time between two additions: the effect of a new thread shows only after a while. */
#define GS_POOL_GROW_INTERVAL_NS (10 * GS_MILLISECOND)

struct gs_pool_control {
    uint64_t grown_ns; /* when a thread was last added */
};

/* Returns whether a thread should be added. */
bool gs_pool_should_grow(struct gs_pool_control *control, unsigned queued, uint64_t now_ns);

/* ---- Batches: as small as possible without loss of throughput ---- */

#define GS_BATCH_MAX 1024
#define GS_BATCH_WINDOW_NS (100 * GS_MILLISECOND)

struct gs_batch_control {
    double batch, max;
    double rate;      /* events a second, smoothed */
    double best_rate; /* the highest rate since the last reset */
    bool is_growing;
    unsigned windows;
    uint64_t window_start_ns; /* 0: no window yet */
    uint64_t events;          /* in this window */
};

void gs_batch_control_init(struct gs_batch_control *control, unsigned max);

/* Record that a number of events was handled. Returns the new maximum size of a batch. */
unsigned gs_batch_control_update(struct gs_batch_control *control, unsigned events,
                                 uint64_t now_ns);

/* ---- Admission: a token bucket whose rate follows the 90th percentile of response times ---- */

#define GS_ADMISSION_SAMPLES 100
#define GS_ADMISSION_INITIAL_RATE 10.0
#define GS_ADMISSION_BUCKET_SIZE 10.0

struct gs_admission_control {
    uint64_t target_ns;
    double rate; /* tokens a second */
    double tokens;
    uint64_t refilled_ns;     /* when the tokens were last updated */
    double p90_ns;            /* smoothed; 0: none yet */
    unsigned count;           /* of samples */
    uint64_t window_start_ns; /* when the collection of these samples started */
    uint64_t samples[GS_ADMISSION_SAMPLES];
};

void gs_admission_init(struct gs_admission_control *control, uint64_t target_ns, uint64_t now_ns);

/* Returns whether an event that arrives now is admitted. */
bool gs_admission_admit(struct gs_admission_control *control, uint64_t now_ns);

/* Record the response time of an event that was handled. */
void gs_admission_update(struct gs_admission_control *control, uint64_t response_ns,
                         uint64_t now_ns);

#endif
