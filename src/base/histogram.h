/* The slots of a histogram, for its writers. */
#ifndef GS_BASE_HISTOGRAM_H
#define GS_BASE_HISTOGRAM_H

#include <gossamer/histogram.h>

/* The smallest value of the slot; the slot is *ret_width values wide. */
uint64_t gs_histogram_slot_lowest(const struct gs_histogram *histogram, uint32_t slot,
                                  uint64_t *ret_width);

/* How many slots from the first on may hold counts. */
uint32_t gs_histogram_used(const struct gs_histogram *histogram);

#endif
