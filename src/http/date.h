/* Dates in the formats of HTTP (RFC 9110, 5.6.7) and of access logs.
 *
 *     char date[GS_HTTP_DATE_LENGTH];
 *     gs_http_date_format(784111777, date);          "Sun, 06 Nov 1994 08:49:37 GMT", without NUL
 *
 * Times are seconds since 1970-01-01 UTC in the Gregorian calendar without leap seconds. They are
 * arguments: these functions read no clock. Years are within 0 to 9999; a time outside of this
 * range is clamped to it.
 */
#ifndef GS_HTTP_DATE_H
#define GS_HTTP_DATE_H

#include "http/text.h"

#include <gossamer/api.h>
#include <stdint.h>

#define GS_HTTP_DATE_LENGTH 29
#define GS_HTTP_DATE_LOG_LENGTH 26
#define GS_HTTP_DATE_ISO_LENGTH 20

/* Write the preferred format, IMF-fixdate. */
void gs_http_date_format(int64_t unix_seconds, char out[GS_HTTP_DATE_LENGTH]);

/* Write "21/Nov/2026:11:31:16 +0000", in the zone that is offset_minutes east of Greenwich (up to
 * 99 hours). */
void gs_http_date_format_log(int64_t unix_seconds, int offset_minutes,
                             char out[GS_HTTP_DATE_LOG_LENGTH]);

/* Write "2026-11-21T11:31:16Z" (RFC 3339). */
void gs_http_date_format_iso(int64_t unix_seconds, char out[GS_HTTP_DATE_ISO_LENGTH]);

/* Parse any of the three formats: IMF-fixdate, RFC 850, asctime. A two-digit year of RFC 850 is the
 * last one for which the date is at most 50 years after now_seconds. The time 23:59:60 is read as
 * 23:59:59. Returns false if the text is not exactly one of the formats, or not a date of the
 * calendar; the day of the week must be a valid name, but need not be the correct one. */
GS_MUST_CHECK bool gs_http_date_parse(struct gs_http_text text, int64_t now_seconds,
                                      int64_t *ret_seconds);

#endif
