#include "stage/controllers.h"

#include <stdlib.h>

/* ---- Threads ---- */

bool gs_pool_grows(struct gs_pool_control *control, unsigned queued, uint64_t now_ns)
{
    if (queued < GS_POOL_THRESHOLD || now_ns < control->grown_ns + GS_POOL_PAUSE_NS)
        return false;
    control->grown_ns = now_ns;
    return true;
}

/* ---- Batches ---- */

#define WINDOWS 5
#define STEP 1.2
#define RATE_SMOOTHING 0.5

/* Parts of the best throughput: below the first, batches grow; above the second, they shrink again; outside the others, it
 * is another load, for which all begins anew. */
#define GROW_BELOW 0.90
#define SHRINK_ABOVE 0.98
#define RESET_BELOW 0.2
#define RESET_ABOVE 2.0

void gs_batch_control_init(struct gs_batch_control *control, unsigned most)
{
    *control = (struct gs_batch_control){.batch = most, .most = most};
}

static double clamp(double value, double least, double most)
{
    return value < least ? least : value > most ? most : value;
}

static void adjust(struct gs_batch_control *control)
{
    double rate = control->rate;
    if (rate < RESET_BELOW * control->best || rate > RESET_ABOVE * control->best) {
        control->batch = control->most;
        control->best = rate;
        control->is_growing = false;
        return;
    }
    if (rate > control->best)
        control->best = rate;
    if (rate < GROW_BELOW * control->best)
        control->is_growing = true;
    else if (rate > SHRINK_ABOVE * control->best)
        control->is_growing = false;
    double batch = control->is_growing ? control->batch * STEP : control->batch / STEP;
    control->batch = clamp(batch, 1, control->most);
}

unsigned gs_batch_control_tell(struct gs_batch_control *control, unsigned events, uint64_t now_ns)
{
    if (!control->begun_ns)
        control->begun_ns = now_ns;
    control->events += events;
    uint64_t window_ns = now_ns - control->begun_ns;
    if (window_ns >= GS_BATCH_WINDOW_NS) {
        double rate = (double)control->events * (double)GS_SECOND / (double)window_ns;
        control->rate = control->rate * RATE_SMOOTHING + rate * (1 - RATE_SMOOTHING);
        control->events = 0;
        control->begun_ns = now_ns;
        if (++control->windows % WINDOWS == 0)
            adjust(control);
    }
    return (unsigned)control->batch;
}

/* ---- Admission ---- */

#define LONGEST_NS GS_SECOND /* between two looks at the samples */
#define P90_SMOOTHING 0.7
#define RAISE_BELOW 0.9 /* of the target */
#define LOWER_ABOVE 1.2
#define RAISE_BY 0.5
#define LOWER_TO 0.5
#define RATE_LEAST 0.05
#define RATE_MOST 5000.0

void gs_admission_init(struct gs_admission_control *control, uint64_t target_ns, uint64_t now_ns)
{
    *control = (struct gs_admission_control){
        .target_ns = target_ns,
        .rate = GS_ADMISSION_INITIAL,
        .tokens = GS_ADMISSION_DEPTH,
        .filled_ns = now_ns,
        .begun_ns = now_ns,
    };
}

bool gs_admission_takes(struct gs_admission_control *control, uint64_t now_ns)
{
    if (now_ns > control->filled_ns) {
        double passed_s = (double)(now_ns - control->filled_ns) / (double)GS_SECOND;
        control->tokens = clamp(control->tokens + passed_s * control->rate, 0, GS_ADMISSION_DEPTH);
        control->filled_ns = now_ns;
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

static void follow(struct gs_admission_control *control)
{
    qsort(control->samples, control->count, sizeof *control->samples, compare);
    unsigned slower = control->count / 10;
    double p90_ns = (double)control->samples[control->count - 1 - slower];
    control->p90_ns = control->p90_ns > 0
                          ? control->p90_ns * P90_SMOOTHING + p90_ns * (1 - P90_SMOOTHING)
                          : p90_ns;
    double part = control->p90_ns / (double)control->target_ns;
    if (part < RAISE_BELOW)
        control->rate += RAISE_BY;
    else if (part > LOWER_ABOVE)
        control->rate *= LOWER_TO;
    control->rate = clamp(control->rate, RATE_LEAST, RATE_MOST);
}

void gs_admission_tell(struct gs_admission_control *control, uint64_t response_ns, uint64_t now_ns)
{
    control->samples[control->count++] = response_ns;
    if (control->count < GS_ADMISSION_SAMPLES && now_ns - control->begun_ns < LONGEST_NS)
        return;
    follow(control);
    control->count = 0;
    control->begun_ns = now_ns;
}
