/* The three controllers of a stage, after SEDA's. Each is a state and a function of what was observed and of the time: no
 * lock, no clock. */
#ifndef GS_STAGE_CONTROLLERS_H
#define GS_STAGE_CONTROLLERS_H

#include <gossamer/clock.h>
#include <stdbool.h>

/* ---- Threads: one more when the queue is long; who is idle for a while ends ---- */

#define GS_POOL_THRESHOLD 10
#define GS_POOL_IDLE_NS GS_SECOND

/* A new thread needs some time before its work shows. */
#define GS_POOL_PAUSE_NS (10 * GS_MILLISECOND)

struct gs_pool_control {
    uint64_t grown_ns; /* when a thread was last asked for */
};

/* Whether a thread is to be added. */
bool gs_pool_grows(struct gs_pool_control *control, unsigned queued, uint64_t now_ns);

/* ---- Batches: smaller ones as long as throughput stays ---- */

#define GS_BATCH_MOST 1024
#define GS_BATCH_WINDOW_NS (100 * GS_MILLISECOND)

struct gs_batch_control {
    double batch, most;
    double rate; /* events a second, smoothed */
    double best; /* the highest of these since the last reset */
    bool is_growing;
    unsigned windows;
    uint64_t begun_ns; /* the present window; 0: none yet */
    uint64_t events;   /* in it */
};

void gs_batch_control_init(struct gs_batch_control *control, unsigned most);

/* So many events were handled. Returns how many may be handled at a time. */
unsigned gs_batch_control_tell(struct gs_batch_control *control, unsigned events, uint64_t now_ns);

/* ---- Admission: a token bucket whose rate follows the 90th percentile of response times ---- */

#define GS_ADMISSION_SAMPLES 100
#define GS_ADMISSION_INITIAL 10.0
#define GS_ADMISSION_DEPTH 10.0

struct gs_admission_control {
    uint64_t target_ns;
    double rate; /* a second */
    double tokens;
    uint64_t filled_ns; /* when the tokens were last counted */
    double p90_ns;      /* smoothed; 0: none yet */
    unsigned count;     /* of samples */
    uint64_t begun_ns;  /* since when they are taken */
    uint64_t samples[GS_ADMISSION_SAMPLES];
};

void gs_admission_init(struct gs_admission_control *control, uint64_t target_ns, uint64_t now_ns);

/* Whether an event that comes now is admitted. */
bool gs_admission_takes(struct gs_admission_control *control, uint64_t now_ns);

/* An event was handled so long after its arrival. */
void gs_admission_tell(struct gs_admission_control *control, uint64_t response_ns, uint64_t now_ns);

#endif
