/* Media types of files, by file name extension.
 *
 *     gs_http_media_type(GS_HTTP_TEXT("blog/Picture.JPG"))          "image/jpeg"
 *
 * Types of plain text include "; charset=utf-8". JSON has no such parameter, and XML declares its
 * encoding itself.
 */
#ifndef GS_HTTP_MEDIA_TYPE_H
#define GS_HTTP_MEDIA_TYPE_H

#include "http/text.h"

/* The media type of a path, by the text after the last dot of its last segment, in upper or lower
 * case. "application/octet-stream" if that extension is unknown, or if the name has no dot or only
 * a leading one. The string is a constant. */
const char *gs_http_media_type(struct gs_http_text path);

/* Returns whether content of this type usually becomes smaller by compression: text, and formats
 * that are not compressed themselves. */
bool gs_http_media_type_is_compressible(struct gs_http_text type);

#endif
