/* Attributes of the public functions. */
#ifndef GOSSAMER_API_H
#define GOSSAMER_API_H

/* Visible outside the shared library. */
#define GS_API __attribute__((visibility("default")))

/* The result tells whether the call failed and must be looked at. */
#define GS_MUST_CHECK __attribute__((warn_unused_result))

#endif
