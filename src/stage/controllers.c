#include "stage/controllers.h"

#include <stdlib.h>

/* ---- Threads ---- */

bool gs_pool_should_grow(struct gs_pool_control *control, unsigned queued, uint64_t now_ns)
{
    if (queued < GS_POOL_THRESHOLD || now_ns < control->grown_ns + GS_POOL_GROW_INTERVAL_NS)
        return false;
    control->grown_ns = now_ns;
    return true;
}

/* ---- Batches ---- */

#define WINDOWS_PER_ADJUSTMENT 5
#define STEP_FACTOR 1.2
#define RATE_SMOOTHING 0.5

/* Fractions of the best throughput: below the first, batches grow; above the second, they shrink
 * again; outside the range of the others, the load has changed, and the controller restarts. */
#define GROW_BELOW 0.90
#define SHRINK_ABOVE 0.98
#define RESET_BELOW 0.2
#define RESET_ABOVE 2.0

void gs_batch_control_init(struct gs_batch_control *control, unsigned max)
{
    *control = (struct gs_batch_control){.batch = max, .max = max};
}

static double clamp(double value, double min, double max)
{
    return value < min ? min : value > max ? max : value;
}

static void adjust_batch(struct gs_batch_control *control)
{
    double rate = control->rate;
    if (rate < RESET_BELOW * control->best_rate || rate > RESET_ABOVE * control->best_rate) {
        control->batch = control->max;
        control->best_rate = rate;
        control->is_growing = false;
        return;
    }
    if (rate > control->best_rate)
        control->best_rate = rate;
    if (rate < GROW_BELOW * control->best_rate)
        control->is_growing = true;
    else if (rate > SHRINK_ABOVE * control->best_rate)
        control->is_growing = false;
    double batch =
        control->is_growing ? control->batch * STEP_FACTOR : control->batch / STEP_FACTOR;
    control->batch = clamp(batch, 1, control->max);
}

unsigned gs_batch_control_update(struct gs_batch_control *control, unsigned events, uint64_t now_ns)
{
    if (!control->window_start_ns)
        control->window_start_ns = now_ns;
    control->events += events;
    uint64_t window_ns = now_ns - control->window_start_ns;
    if (window_ns >= GS_BATCH_WINDOW_NS) {
        double rate = (double)control->events * (double)GS_SECOND / (double)window_ns;
        control->rate = control->rate * RATE_SMOOTHING + rate * (1 - RATE_SMOOTHING);
        control->events = 0;
        control->window_start_ns = now_ns;
        if (++control->windows % WINDOWS_PER_ADJUSTMENT == 0)
            adjust_batch(control);
    }
    return (unsigned)control->batch;
}

/* ---- Admission ---- */

#define WINDOW_MAX_NS GS_SECOND /* between two adjustments of the rate */
#define P90_SMOOTHING 0.7
#define RAISE_BELOW 0.9 /* of the target */
#define LOWER_ABOVE 1.2
#define RAISE_BY 0.5
#define LOWER_FACTOR 0.5
#define RATE_MIN 0.05
#define RATE_MAX 5000.0

void gs_admission_init(struct gs_admission_control *control, uint64_t target_ns, uint64_t now_ns)
{
    *control = (struct gs_admission_control){
        .target_ns = target_ns,
        .rate = GS_ADMISSION_INITIAL_RATE,
        .tokens = GS_ADMISSION_BUCKET_SIZE,
        .refilled_ns = now_ns,
        .window_start_ns = now_ns,
    };
}

bool gs_admission_admit(struct gs_admission_control *control, uint64_t now_ns)
{
    if (now_ns > control->refilled_ns) {
        double elapsed_s = (double)(now_ns - control->refilled_ns) / (double)GS_SECOND;
        control->tokens =
            clamp(control->tokens + elapsed_s * control->rate, 0, GS_ADMISSION_BUCKET_SIZE);
        control->refilled_ns = now_ns;
    }
    if (control->tokens < 1)
        return false;
    control->tokens -= 1;
    return true;
}

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static void adjust_rate(struct gs_admission_control *control)
{
    qsort(control->samples, control->count, sizeof *control->samples, compare);
    unsigned slower = control->count / 10;
    double p90_ns = (double)control->samples[control->count - 1 - slower];
    control->p90_ns = control->p90_ns > 0
                          ? control->p90_ns * P90_SMOOTHING + p90_ns * (1 - P90_SMOOTHING)
                          : p90_ns;
    double ratio = control->p90_ns / (double)control->target_ns;
    if (ratio < RAISE_BELOW)
        control->rate += RAISE_BY;
    else if (ratio > LOWER_ABOVE)
        control->rate *= LOWER_FACTOR;
    control->rate = clamp(control->rate, RATE_MIN, RATE_MAX);
}

void gs_admission_update(struct gs_admission_control *control, uint64_t response_ns,
                         uint64_t now_ns)
{
    control->samples[control->count++] = response_ns;
    if (control->count < GS_ADMISSION_SAMPLES && now_ns - control->window_start_ns < WINDOW_MAX_NS)
        return;
    adjust_rate(control);
    control->count = 0;
    control->window_start_ns = now_ns;
}
