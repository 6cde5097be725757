/* What happens to a connection of a driver (tests/http/drive.h) besides the bytes of its peer: the
 * fuzzers of connections take it from their input. The files exist only here. */
#ifndef GS_TESTS_FUZZ_EVENTS_H
#define GS_TESTS_FUZZ_EVENTS_H

#include "tests/http/drive.h"

#include <stdint.h>

struct events {
    struct drive *drive;
    const uint8_t *at, *end;    /* of the input */
    struct gs_http_load *taken; /* the load that was taken from the connection */
};

/* Start the driver, which serves the files from now on. */
void events_start(struct drive *drive);

/* Replace the connection, without output and splits. */
void events_reset(struct drive *drive);

/* Restore the files' initial state; time advances only to make changed pages stale. */
void events_restore_files(struct drive *drive);

/* Returns the next byte of the input; 0 at its end. */
unsigned events_next_byte(struct events *events);

/* Let one of EVENTS_KINDS happen, as the input's next byte chooses how. */
#define EVENTS_KINDS 7u
void events_step(struct events *events, unsigned kind);

/* Pass the next n bytes of the input, or what is left of it, to the connection. */
void events_receive(struct events *events, size_t n);

/* Abort the program unless the connection waits for something, and for that it can. */
void events_check(const struct events *events);

/* Return a load that was taken; without further input, the connection must then close. */
void events_finish(struct events *events);

#endif
