/* Status codes with their reason phrases (RFC 9110, 15). */
#ifndef GS_HTTP_STATUS_H
#define GS_HTTP_STATUS_H

/* Returns the status line behind the version: "404 Not Found"; NULL: the status has no phrase here.
 */
const char *gs_http_status_text(unsigned status);

#endif
