/* Entity tags (RFC 9110, 8.8.3): built from the result of fstat(), and matched against If-Match and
 * If-None-Match.
 *
 *     char tag[GS_HTTP_ETAG_MAX];
 *     struct gs_http_text etag = {tag, gs_http_etag_format(tag, &stat, false)};
 *     if (gs_http_etag_list_matches(if_none_match, etag, false))
 *         respond with 304
 */
#ifndef GS_HTTP_ETAG_H
#define GS_HTTP_ETAG_H

#include "http/text.h"

#include <sys/stat.h>

#define GS_HTTP_ETAG_MAX 40

/* Write a strong tag, in quotes, without NUL: a hash of the times of modification and of status
 * change and of the inode; and the size. The inode distinguishes files of the same size and time,
 * the time of status change those that had the same inode one after the other. is_portable: leave
 * these two out, so that copies of a file have the same tag. Returns its length. */
size_t gs_http_etag_format(char *out, const struct stat *stat, bool is_portable);

/* Returns whether the value of the field, a list of tags or "*" alone, contains the tag. strong:
 * use the strong comparison of If-Match and If-Range, where a weak tag matches nothing; otherwise
 * the weak comparison of If-None-Match, where "W/" is ignored. Malformed elements match nothing. */
bool gs_http_etag_list_matches(struct gs_http_text field_value, struct gs_http_text etag,
                               bool strong);

#endif
