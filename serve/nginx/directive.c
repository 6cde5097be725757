#include "serve/nginx/directive.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* DEPTH: of blocks in each other, and of files that include each other. */
enum { DEPTH_MAX = 16, FILES_MAX = 1000, FILE_SIZE_MAX = 4 << 20, WORDS_MAX = 1000 };

struct parser {
    struct serve_directive_reader *reader;
    const char *file, *at;
    unsigned line, depth;
    bool follows; /* `include` */
};

static int complain(const struct parser *parser, const char *problem)
{
    parser->reader->report->file = parser->file;
    serve_report_add(parser->reader->report, parser->line, "%s", problem);
    return -EINVAL;
}

static void skip_space(struct parser *parser)
{
    for (; *parser->at; parser->at++) {
        if (*parser->at == '#')
            while (parser->at[1] && parser->at[1] != '\n')
                parser->at++;
        else if (*parser->at == '\n')
            parser->line++;
        else if (!strchr(" \t\r", *parser->at))
            return;
    }
}

/* Returns where the word ends: at its quote, or at what ends one without quotes. A brace behind $
 * is that of a variable. */
static const char *find_end(const char *at, char quote)
{
    for (const char *start = at; *at; at++) {
        bool ends_plain = strchr(" \t\r\n;", *at) || (*at == '{' && (at == start || at[-1] != '$'));
        if (quote ? *at == quote : ends_plain)
            return at;
        if (*at == '\\' && at[1])
            at++;
    }
    return at;
}

/* Copy the word at the parser's place, without its quotes. */
static int read_word(struct parser *parser, const char **ret_word)
{
    char quote = *parser->at == '"' || *parser->at == '\'' ? *parser->at++ : '\0';
    const char *end = find_end(parser->at, quote);
    char *word = serve_arena_take(parser->reader->arena, (size_t)(end - parser->at) + 1),
         *out = word;
    if (!word)
        return -ENOMEM;
    for (; parser->at < end; parser->at++) {
        if (*parser->at == '\\' && parser->at[1] && strchr("\"'\\ ", parser->at[1]))
            parser->at++;
        parser->line += *parser->at == '\n';
        *out++ = *parser->at;
    }
    if (quote && *parser->at++ != quote)
        return complain(parser, "a quotation mark is not closed: add it");
    *ret_word = word;
    return 0;
}

static int parse_block(struct parser *parser, struct serve_directives *into);

static int add(struct parser *parser, struct serve_directives *into,
               const struct serve_directive *directive)
{
    struct serve_directive *items =
        serve_arena_grow(parser->reader->arena, into->items, into->count, sizeof *items);
    if (!items)
        return -ENOMEM;
    into->items = items;
    items[into->count++] = *directive;
    return 0;
}

static int read_words(struct parser *parser, struct serve_directive *directive)
{
    for (;;) {
        const char *word;
        skip_space(parser);
        if (!*parser->at)
            return complain(parser, "the file ends within a directive: add ; or }");
        if (strchr(";{}", *parser->at))
            return 0;
        int err = directive->word_count < WORDS_MAX
                      ? read_word(parser, &word)
                      : complain(parser, "a directive has more than 1000 words");
        if (err)
            return err;
        const char **words = serve_arena_grow(parser->reader->arena, directive->words,
                                              directive->word_count, sizeof *words);
        if (!words)
            return -ENOMEM;
        words[directive->word_count++] = word;
        directive->words = words;
    }
}

/* Put the directives of the files in place of the directive. */
static int include(struct parser *parser, struct serve_directives *into,
                   const struct serve_directive *directive)
{
    struct serve_directive_reader *reader = parser->reader;
    char pattern[4200];
    glob_t found;
    bool is_absolute = directive->words[1][0] == '/';
    snprintf(pattern, sizeof pattern, "%s%s%s", is_absolute ? "" : reader->folder,
             is_absolute ? "" : "/", directive->words[1]);
    if (glob(pattern, 0, NULL, &found)) {
        reader->report->file = directive->file;
        if (!strpbrk(pattern, "*?["))
            serve_report_add(reader->report, directive->line,
                             "include %s: there is no such file; its directives are left out",
                             directive->words[1]);
        return 0;
    }
    int err = 0;
    for (size_t i = 0; i < found.gl_pathc && !err; i++) {
        struct serve_directives inner = {0};
        char *name = serve_arena_copy(reader->arena, found.gl_pathv[i], strlen(found.gl_pathv[i]));
        err = name ? serve_directives_read(reader, name, &inner) : -ENOMEM;
        for (size_t k = 0; k < inner.count && !err; k++)
            err = add(parser, into, &inner.items[k]);
    }
    globfree(&found);
    return err;
}

static int parse_directive(struct parser *parser, struct serve_directives *into)
{
    struct serve_directive directive = {.file = parser->file, .line = parser->line};
    int err = read_words(parser, &directive);
    if (err)
        return err;
    char end = *parser->at++;
    if (!directive.word_count || end == '}')
        return complain(parser, "there is no directive before this: remove it, or add ;");
    if (end == '{') {
        directive.has_block = true;
        if (++parser->depth > DEPTH_MAX)
            return complain(parser, "blocks are too deep in each other: at most 16");
        err = parse_block(parser, &directive.block);
        parser->depth--;
        return err ? err : add(parser, into, &directive);
    }
    bool is_include = !strcmp(directive.words[0], "include") && directive.word_count == 2;
    return is_include && parser->follows ? include(parser, into, &directive)
                                         : add(parser, into, &directive);
}

/* Until the end of the block, or of the file. */
static int parse_block(struct parser *parser, struct serve_directives *into)
{
    for (;;) {
        skip_space(parser);
        if (*parser->at == '}' && parser->depth) {
            parser->at++;
            return 0;
        }
        if (!*parser->at)
            return parser->depth ? complain(parser, "the file ends within a block: add }") : 0;
        int err = parse_directive(parser, into);
        if (err)
            return err;
    }
}

int serve_directives_parse(struct serve_directive_reader *reader, const char *file,
                           const char *text, struct serve_directives *ret_directives)
{
    struct parser parser = {.reader = reader, .file = file, .at = text, .line = 1};
    *ret_directives = (struct serve_directives){0};
    return parse_block(&parser, ret_directives);
}

static int read_text(const char *file, char **ret_text)
{
    FILE *in = fopen(file, "re");
    if (!in)
        return -errno;
    char *text = calloc(1, FILE_SIZE_MAX + 1);
    int err = text ? 0 : -ENOMEM;
    if (text && fread(text, 1, FILE_SIZE_MAX + 1, in) > FILE_SIZE_MAX)
        err = -EFBIG;
    if (!err && ferror(in))
        err = -EIO;
    fclose(in);
    if (err)
        free(text);
    else
        *ret_text = text;
    return err;
}

int serve_directives_read(struct serve_directive_reader *reader, const char *file,
                          struct serve_directives *ret_directives)
{
    char *text = NULL;
    bool is_too_many = reader->files++ >= FILES_MAX || reader->depth >= DEPTH_MAX;
    int err = is_too_many ? -ELOOP : read_text(file, &text);
    if (err) {
        reader->report->file = file;
        serve_report_add(reader->report, 0, "the file can't be read: %s", strerror(-err));
        return err;
    }
    struct parser parser = {.reader = reader, .file = file, .at = text, .line = 1, .follows = true};
    *ret_directives = (struct serve_directives){0};
    reader->depth++;
    err = parse_block(&parser, ret_directives);
    reader->depth--;
    free(text);
    return err;
}
