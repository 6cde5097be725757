/* http and https URLs: strict parser, references, and the parts that a request needs.
 *
 *     struct gs_http_url url;
 *     int err = gs_http_url_parse("http://me:secret@[::1]:8080/a?b#c", &url, &reason);
 *     url.host: "::1", url.port: "8080", url.authority: "[::1]:8080", url.path: "/a?b"
 *
 * The functions have no state and do not allocate; any thread may call them.
 */
#ifndef GS_HTTP_URL_H
#define GS_HTTP_URL_H

#include <gossamer/api.h>
#include <stdbool.h>
#include <stddef.h>

#define GS_HTTP_URL_MAX 65535

struct gs_http_url {
    bool has_scheme; /* otherwise the text is a host with what may follow it, and stands for http */
    bool is_https;
    char host[256]; /* without the brackets of an IPv6 address; with its zone; in lower case */
    char port[6];
    char authority[264]; /* as sent in the Host field; the default port only if it was given */
    const char *path;    /* points into the text, includes the query; "" stands for "/" */
    int path_length;     /* without the fragment */
    const char *user;    /* points into the text: "name" or "name:password", percent-encoded */
    int user_length;     /* 0: none */
};

/* text stays the caller's, and must outlive the URL. On failure, ret_reason receives a predicate
 * for the message, as in "URL ... has no host". Returns 0 or -EINVAL. */
GS_MUST_CHECK int gs_http_url_parse(const char *text, struct gs_http_url *ret_url,
                                    const char **ret_reason);

/* Write the URL without user and fragment, with a NUL, to out: at most gs_http_url_room bytes.
 * *ret_target is its target there, which begins with a slash. What is not allowed in a target is
 * percent-encoded. */
size_t gs_http_url_room(const struct gs_http_url *url);
void gs_http_url_write(const struct gs_http_url *url, char *out, const char **ret_target);

/* Resolve a reference, for instance of a Location field, against a URL that gs_http_url_write has
 * written (RFC 3986, 5.2), and write the result with a NUL to out, which has `size` bytes. White
 * space and controls within it are percent-encoded. The result may be of another scheme, or no URL:
 * parse it. Returns 0 or -ENAMETOOLONG. */
GS_MUST_CHECK int gs_http_url_resolve(const char *base, const char *reference, char *out,
                                      size_t size);

/* Write the value of an Authorization field of the Basic scheme (RFC 7617) for the user, with a
 * NUL, to out: at most GS_HTTP_BASIC_ROOM(url.user_length) bytes. The user's text is decoded. */
#define GS_HTTP_BASIC_ROOM(n_) (6 + ((size_t)(n_) + 3) / 3 * 4 + 1)
void gs_http_url_write_basic(const struct gs_http_url *url, char *out);

#endif
