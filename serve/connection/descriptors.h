/* How many of the process's descriptors its connections need: each has one, a second one while it
 * may open a file for its first answer, and each large file that is sent has one, which all answers
 * with this file share. While these are as many as there may be, no more connections are accepted;
 * a request then finds a descriptor for its file. All functions may be called by any kernel
 * thread. */
#ifndef GS_SERVE_DESCRIPTORS_H
#define GS_SERVE_DESCRIPTORS_H

#include <gossamer/clock.h>
#include <stdbool.h>
#include <stdint.h>

/* Set once, before connections are accepted; initially there is no limit. */
void serve_descriptors_limit(uint64_t max);

/* When there are too few, nothing reports that there are more: accepting is tried again after so
 * long. */
#define SERVE_DESCRIPTORS_PAUSE_NS (10 * GS_MILLISECOND)

/* A connection was accepted; it has started to answer; it was closed. */
void serve_descriptors_accepted(void);
void serve_descriptors_answered(void);
void serve_descriptors_closed(bool has_answered);

/* Whether there may be too few for another connection, if one is open. */
bool serve_descriptors_are_short(void);

/* Whether a connection may have another open file beside one: a quarter is left for the first ones
 * of others. */
bool serve_descriptors_are_ample(void);

#endif
