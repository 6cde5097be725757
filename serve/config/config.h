/* The configuration file of the server: many sites, and every option as a setting of the same name.
 *
 *     listen: ["*:80", "https://443"]
 *     idle_timeout: 30s
 *     hosts:
 *       - names: [example.org, "*.example.org"]
 *         root: /srv/www
 *         certificate: /etc/ssl/example.pem
 *         error_pages: {404: /404.html}
 *       - root: /srv/other
 *
 *     struct serve_config config;
 *     struct serve_report report = {.file = "site.yaml", .out = stderr};
 *     int err = serve_config_read(&config, &serve_command, &report);
 *     ...
 *     serve_config_done(&config);
 *
 * The settings are rows of tables (settings.h), from which the parser, serve_config_print and
 * serve_config_print_schema work. Those of the whole server are the options of the command, with
 * underscores for dashes. */
#ifndef GS_SERVE_CONFIG_H
#define GS_SERVE_CONFIG_H

#include "cli/options.h"
#include "serve/config/arena.h"
#include "serve/config/report.h"

#include <stdbool.h>

/* A value of an option, as it stands in the file. */
struct serve_config_value {
    const struct cli_option *option;
    const char *text; /* of a flag: "true" or "false" */
    unsigned line;
};

/* The members of these are arrays of the type that is named. */
struct serve_config_items {
    void *items;
    size_t count;
};

/* An entry of a map. */
struct serve_config_entry {
    const char *name, *value;
    unsigned line;
};

struct serve_config_headers {
    unsigned line;
    const char *path;              /* a pattern */
    struct serve_config_items set; /* struct serve_config_entry: fields */
};

struct serve_config_redirect {
    unsigned line;
    const char *from, *to; /* a pattern; a path or URL */
    uint64_t status;
};

/* What is not given is NULL, 0 or empty. */
struct serve_config_host {
    unsigned line;
    struct serve_config_items names; /* const char *; none: that of all other requests */
    const char *root;
    const char *certificate, *key,
        *ocsp;                           /* files; without a key, it is in the certificate's file */
    struct serve_config_items headers;   /* struct serve_config_headers */
    struct serve_config_items redirects; /* struct serve_config_redirect */
    const char *fallback;
    bool clean_urls;
    struct serve_config_items error_pages; /* struct serve_config_entry: a status and its page */
};

/* All memory belongs to the arena. */
struct serve_config {
    struct serve_arena arena;
    const char *file;                 /* borrowed */
    struct serve_config_items values; /* struct serve_config_value: an item of a list has its own */
    struct serve_config_items hosts;  /* struct serve_config_host */
};

/* Read report->file. Files and directories that hosts name are looked for. Returns 0, or -errno
 * after the problems have been reported. serve_config_done must be called in any case. */
GS_MUST_CHECK int serve_config_read(struct serve_config *config, const struct cli_command *command,
                                    struct serve_report *report);

/* The same of a file's content; no file is touched. */
GS_MUST_CHECK int serve_config_parse(struct serve_config *config, const struct cli_command *command,
                                     const char *text, size_t size, struct serve_report *report);

void serve_config_done(struct serve_config *config);

/* Give the options of the command the values of the file. Returns 0, or -EINVAL after one line on
 * stderr. */
GS_MUST_CHECK int serve_config_apply(const struct serve_config *config,
                                     const struct cli_command *command);

/* Returns the line that gives the option, or 0. */
unsigned serve_config_line(const struct serve_config *config, const char *option);

/* Write the whole configuration with its defaults, as a file that means the same: the present
 * values of the command's options, and the hosts. What has no value is a comment. */
void serve_config_print(const struct serve_config *config, const struct cli_command *command,
                        FILE *out);

/* Write the hosts alone, with what they are given. */
void serve_config_print_hosts(const struct serve_config *config, FILE *out);

/* Write a text of YAML, in quotes. */
void serve_config_print_text(FILE *out, const char *text);

/* Write the JSON schema of configuration files. */
void serve_config_print_schema(const struct cli_command *command, FILE *out);

#endif
