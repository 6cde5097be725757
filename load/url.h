/* Parser of http and https URLs. */
#ifndef GS_LOAD_URL_H
#define GS_LOAD_URL_H

#include <gossamer/api.h>
#include <stdbool.h>

struct load_url {
    bool is_https;
    char host[256]; /* without the brackets of an IPv6 address; with its zone */
    char port[6];
    char authority[264]; /* as sent in the Host field */
    const char *path;    /* points into the text, includes the query; "" stands for "/" */
    int path_length;     /* without the fragment */
    const char *user;    /* points into the text: "name" or "name:password", percent-encoded */
    int user_length;     /* 0: none */
};

/* text stays the caller's, and must outlive the URL. On failure, ret_reason receives a predicate
 * for the message, as in "URL ... has no host". Returns 0 or -EINVAL. */
GS_MUST_CHECK int gs_load_url_parse(const char *text, struct load_url *ret_url,
                                    const char **ret_reason);

#endif
