/* The syntax of nginx's configuration: directives of words, some of which have a block.
 *
 *     struct serve_directives main;
 *     err = serve_directives_read(&reader, "/etc/nginx/nginx.conf", &main);
 *
 * Files that `include` names, also by a pattern, stand in its place. */
#ifndef GS_SERVE_DIRECTIVE_H
#define GS_SERVE_DIRECTIVE_H

#include "serve/config/arena.h"
#include "serve/config/report.h"

#include <gossamer/api.h>
#include <stdbool.h>

struct serve_directives {
    struct serve_directive *items;
    size_t count;
};

struct serve_directive {
    const char *file;
    unsigned line;
    const char **words; /* the name first */
    size_t word_count;
    bool has_block;
    struct serve_directives block;
};

struct serve_directive_reader {
    struct serve_arena *arena;
    struct serve_report *report;
    const char *folder; /* of the first file: paths of `include` are relative to it */
    unsigned files;     /* read so far; private, as the next */
    unsigned depth;     /* of files that include each other */
};

/* Returns 0, or -errno after a report. */
GS_MUST_CHECK int serve_directives_read(struct serve_directive_reader *reader, const char *file,
                                        struct serve_directives *ret_directives);

/* The same of a file's content, without the files that it includes. */
GS_MUST_CHECK int serve_directives_parse(struct serve_directive_reader *reader, const char *file,
                                         const char *text, struct serve_directives *ret_directives);

#endif
