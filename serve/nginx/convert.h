/* Parts of the conversion, which share its state. */
#ifndef GS_SERVE_NGINX_CONVERT_H
#define GS_SERVE_NGINX_CONVERT_H

#include "serve/config/config.h"
#include "serve/nginx/directive.h"

#include <gossamer/api.h>
#include <stdint.h>

/* What directives say in a block, and those inside of it inherit. */
struct serve_nginx_scope {
    const char *root;
    const char *expires;
    struct serve_config_items fields;      /* struct serve_config_entry */
    struct serve_config_items error_pages; /* the same */
    const char *certificate, *key;
};

struct serve_nginx {
    struct serve_arena arena;
    struct serve_report *report;
    struct serve_config config;       /* its hosts are the result */
    struct serve_config_items listen; /* const char *, each once */
    struct serve_config_items lines;  /* struct serve_config_entry: settings of the server */
    struct serve_nginx_scope http;
    bool redirects_https;
    bool lacks_memory;

    /* Of the server block that is read. */
    struct serve_config_host host;
    struct serve_nginx_scope server;
    bool has_tls, is_default, returns_https;
};

/* Report that a directive is left out, and why. */
void serve_nginx_leave_out(struct serve_nginx *nginx, const struct serve_directive *directive,
                           const char *reason);

/* A text made as by printf, in the arena; "" without memory, which is noted. */
const char *serve_nginx_text(struct serve_nginx *nginx, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Room for one more item, zeroed; NULL without memory, which is noted. */
void *serve_nginx_add(struct serve_nginx *nginx, struct serve_config_items *items, size_t size);

/* Take a directive that may stand in every scope. Returns whether it was one. */
bool serve_nginx_take(struct serve_nginx *nginx, const struct serve_directive *directive,
                      struct serve_nginx_scope *scope);

/* Give the files of a pattern the fields of the scope. */
void serve_nginx_add_headers(struct serve_nginx *nginx, const struct serve_nginx_scope *scope,
                             const char *pattern, unsigned line);

/* `return 301 URL` and the like. from: a pattern without its last part; is_exact: it is whole. */
void serve_nginx_return(struct serve_nginx *nginx, const struct serve_directive *directive,
                        const char *from, bool is_exact);

void serve_nginx_location(struct serve_nginx *nginx, const struct serve_directive *location);

void serve_nginx_try_files(struct serve_nginx *nginx, const struct serve_directive *directive);

#endif
