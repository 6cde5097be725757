/* Options about clients: the lines of the access log, and the proxies that name them. */
#ifndef GS_SERVE_OPTIONS_CLIENTS_H
#define GS_SERVE_OPTIONS_CLIENTS_H

#include "serve/operations/options.h"

/* As they are given; NULL or empty: the default. */
struct serve_client_words {
    const char *log_format, *log_fields;
    bool logs_tls;
    struct cli_list proxies, trusted;
    const char *forwarded;
};

/* Returns 0, or -EINVAL after one line on stderr. */
GS_MUST_CHECK int serve_options_choose_clients(struct serve_options *options,
                                               const struct serve_client_words *words);

#endif
