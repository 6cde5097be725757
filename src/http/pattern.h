/* Patterns of paths below a root, much as .gitignore has them:
 *
 *     gs_http_pattern_match("*.js", path, NULL)         any file whose last name ends with .js: a
 *                                                       pattern without a slash is for this name
 *     gs_http_pattern_match("/robots.txt", path, NULL)  this file of the root alone: a pattern with
 *     gs_http_pattern_match("img/logo-*", path, NULL)   a slash is for the whole path
 *     gs_http_pattern_match("assets/" "**", path, NULL) all that is below assets, at any depth
 *     gs_http_pattern_match("docs/", path, NULL)        the folder itself, without an index file
 *
 * An asterisk stands for any bytes of one name, or none; a name that consists of two asterisks, for
 * any number of names, or none. All other bytes stand for themselves. So there is one way to write
 * what is meant, and no path takes long to match. */
#ifndef GS_HTTP_PATTERN_H
#define GS_HTTP_PATTERN_H

#include "http/text.h"

#define GS_HTTP_PATTERN_MAX 255
#define GS_HTTP_CAPTURES_MAX 9

/* Returns NULL, or what is wrong with the pattern, as the end of a sentence: "is ...". */
const char *gs_http_pattern_problem(const char *pattern);

/* Returns whether the pattern, which has no problem, matches a path as gs_http_path_normalise
 * returns it, with or without a slash at its end. captures: NULL, or what the first wildcards stand
 * for; the others are empty. On failure their contents are undefined. */
bool gs_http_pattern_match(const char *pattern, struct gs_http_text path,
                           struct gs_http_text captures[GS_HTTP_CAPTURES_MAX]);

/* The number of its wildcards. */
unsigned gs_http_pattern_wildcards(const char *pattern);

#endif
