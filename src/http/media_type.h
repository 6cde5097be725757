/* Media types of files, by the ending of their names.
 *
 *     gs_http_media_type(GS_HTTP_TEXT("blog/Picture.JPG"))          "image/jpeg"
 *
 * Types of plain text carry "; charset=utf-8". JSON has no such parameter, and XML says its
 * encoding itself.
 */
#ifndef GS_HTTP_MEDIA_TYPE_H
#define GS_HTTP_MEDIA_TYPE_H

#include "http/text.h"

/* The type for what follows the last dot in the last segment of the path, upper or lower case. A
 * name without a dot, or with just the one it begins with, and an ending that is not known:
 * "application/octet-stream". The string is a constant. */
const char *gs_http_media_type(struct gs_http_text path);

#endif
