#include "compiler/driver/compile.h"
#include "compiler/driver/folders.h"

#include <stdio.h>
#include <string.h>

/* A program's own remain functions, which the plugin has to find
 * (compiler/plugin/decide/allocator.h). */
static void keep_allocators(struct words *command)
{
    static const char *const names[] = {
        "malloc",         "free",     "calloc", "realloc", "reallocarray",       "aligned_alloc",
        "posix_memalign", "memalign", "valloc", "pvalloc", "malloc_usable_size", "cfree",
    };
    cc_words_add(command, "--start-no-unused-arguments");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        cc_words_add(command, "-mllvm");
        cc_words_add(command, cc_text("-force-attribute=%s:noinline", names[i]));
    }
    cc_words_add(command, "--end-no-unused-arguments");
}

/* The bitcode is optimised, or, for a sanitizer, as it was before: it adds its checks to what was
 * converted. */
static void begin_compile(struct words *command, bool has_bitcode, unsigned sanitizers)
{
    cc_words_add(command, CLANG);
    cc_words_add(command, "-isystem");
    cc_words_add(command, cc_home_file("include"));
    if (has_bitcode && sanitizers) {
        cc_words_add(command, "-Xclang");
        cc_words_add(command, "-fembed-bitcode=bitcode");
    } else if (has_bitcode) {
        cc_words_add(command, "-flto");
        cc_words_add(command, "-ffat-lto-objects");
    }
    if (has_bitcode)
        keep_allocators(command);
}

int cc_pass_through(const struct arguments *arguments)
{
    struct words command = {0};
    bool is_compiler = arguments->count && !strncmp(arguments->words[0].text, "-cc1", 4);
    if (is_compiler)
        cc_words_add(&command, CLANG); /* clang itself, which takes other options */
    else
        begin_compile(&command, arguments->compiles, arguments->sanitizers);
    for (size_t i = 0; i < arguments->count; i++)
        cc_arguments_add(&command, &arguments->words[i]);
    return cc_run(&command, NULL);
}

/* Whether an option begins with the text. */
static bool has_option(const struct arguments *arguments, const char *text)
{
    for (size_t i = 0; i < arguments->count; i++)
        if (!strncmp(arguments->words[i].text, text, strlen(text)))
            return true;
    return false;
}

/* The list of headers is not beside the object, which is temporary. */
static void add_dependencies(struct words *command, const struct arguments *arguments,
                             const struct word *source)
{
    bool is_wanted = has_option(arguments, "-MD") || has_option(arguments, "-MMD");
    bool has_name = strcmp(arguments->output, "a.out") != 0;
    const char *slash = strrchr(source->text, '/');
    const char *base = has_name ? arguments->output : slash ? slash + 1 : source->text;
    const char *dot = strrchr(base, '.');
    int n = (int)(dot && !strchr(dot, '/') ? (size_t)(dot - base) : strlen(base));
    if (is_wanted && !has_option(arguments, "-MF")) {
        cc_words_add(command, "-MF");
        cc_words_add(command, cc_text("%.*s.d", n, base));
    }
    if (is_wanted && !has_option(arguments, "-MT") && !has_option(arguments, "-MQ")) {
        cc_words_add(command, "-MT");
        cc_words_add(command, has_name ? base : cc_text("%.*s.o", n, base));
    }
}

/* Returns the exit status. */
static int compile(const struct arguments *arguments, const struct word *source, const char *object)
{
    struct words command = {0};
    begin_compile(&command, true, arguments->sanitizers);
    for (size_t i = 0; i < arguments->count; i++) {
        const struct word *word = &arguments->words[i];
        bool is_output = cc_is_output(word->text) && word->kind == WORD_COMPILE;
        if ((word->kind == WORD_COMMON || word->kind == WORD_COMPILE) && !is_output)
            cc_arguments_add(&command, word);
    }
    add_dependencies(&command, arguments, source);
    cc_words_add(&command, "-Qunused-arguments");
    cc_words_add(&command, "-c");
    if (source->language) {
        cc_words_add(&command, "-x");
        cc_words_add(&command, source->language);
    }
    cc_words_add(&command, source->text);
    cc_words_add(&command, "-o");
    cc_words_add(&command, object);
    return cc_run(&command, NULL);
}

int cc_compile_all(struct arguments *arguments)
{
    unsigned number = 0;
    for (size_t i = 0; i < arguments->count; i++) {
        struct word *word = &arguments->words[i];
        if (word->kind != WORD_SOURCE)
            continue;
        const char *slash = strrchr(word->text, '/');
        const char *object =
            cc_own_file(cc_text("%u-%s.o", number++, slash ? slash + 1 : word->text));
        int status = compile(arguments, word, object);
        if (status)
            return status;
        *word = (struct word){.text = object, .kind = WORD_OBJECT};
    }
    return 0;
}
