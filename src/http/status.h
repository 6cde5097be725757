/* The statuses that are answered. */
#ifndef GS_HTTP_STATUS_H
#define GS_HTTP_STATUS_H

/* "404 Not Found"; statuses that are never answered give "500 Internal Server Error". */
const char *gs_http_status_line(unsigned status);

#endif
