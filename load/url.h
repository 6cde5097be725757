/* An http URL, taken apart. */
#ifndef GS_LOAD_URL_H
#define GS_LOAD_URL_H

#include <gossamer/api.h>

struct load_url {
    char host[256]; /* without the brackets of an IPv6 address */
    char port[6];
    char authority[264]; /* as the Host field has it */
    const char *path;    /* into the text, query included; "" stands for "/" */
    int path_length;     /* without the fragment */
};

/* text stays the caller's, and must outlive the URL. On failure, a sentence about the text is
 * stored instead: "URL ... has no host". Returns 0 or -EINVAL. */
GS_MUST_CHECK int gs_load_url_parse(const char *text, struct load_url *ret_url,
                                    const char **ret_reason);

#endif
