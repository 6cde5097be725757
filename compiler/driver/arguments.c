#include "compiler/driver/arguments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Options whose value is the next word. */
static const char *const with_value[] = {
    "-o",
    "-I",
    "-D",
    "-U",
    "-include",
    "-imacros",
    "-isystem",
    "-idirafter",
    "-iquote",
    "-isysroot",
    "-iprefix",
    "-iwithprefix",
    "-MF",
    "-MT",
    "-MQ",
    "-x",
    "-Xclang",
    "-Xlinker",
    "-Xassembler",
    "-mllvm",
    "-dumpdir",
    "-L",
    "-l",
    "-T",
    "-u",
    "-z",
    "-target",
    "--param",
    "-e",
    "--sysroot",
    "-Xpreprocessor",
    "-iwithprefixbefore",
    "-dumpbase",
    "-rpath",
    "-arch",
    "-F",
    "-framework",
    "-B",
    "-MJ",
    "-A",
    "-include-pch",
    "-Ttext",
    "-Tdata",
    "-Tbss",
    "-Xanalyzer",
    "-resource-dir",
    "-working-directory",
    "-dependency-file",
    "--output",
    "--language",
    "--include-directory",
    "--define-macro",
    "--undefine-macro",
    "--library-directory",
    "--config",
    "-Xopenmp-target",
    "-mthread-model",
    "-ccc-gcc-name",
    "-ccc-install-dir",
    "-fmodule-output",
    "-ivfsoverlay",
    "-iframework",
    "-isystem-after",
    "-imultilib",
    "-cxx-isystem",
    "-serialize-diagnostics",
    "--serialize-diagnostics",
};

static const char *const linking[] = {"-l", "-L", "-Wl,", "-Xlinker", "-T", "-u", "-z", "-rpath"};
static const char *const linking_whole[] = {"-static",        "-s",
                                            "-pie",           "-no-pie",
                                            "-rdynamic",      "-nostdlib",
                                            "-nodefaultlibs", "-nostartfiles",
                                            "-static-pie",    "-static-libgcc"};

/* With one of these, clang makes no program; or with one that begins so: it answers a question. */
static const char *const not_linking[] = {"-c",
                                          "-S",
                                          "-E",
                                          "-M",
                                          "-MM",
                                          "--compile",
                                          "--assemble",
                                          "--preprocess",
                                          "--precompile",
                                          "--dependencies",
                                          "-###",
                                          "-fsyntax-only",
                                          "--analyze",
                                          "-emit-llvm",
                                          "--user-dependencies",
                                          "--version",
                                          "--help",
                                          "-emit-ast",
                                          "-help",
                                          "--help-hidden",
                                          "-fdriver-only"};
static const char *const questions[] = {"-print-",     "--print-", "-dumpversion",   "-dumpmachine",
                                        "-ccc-print-", "-cc1",     "--autocomplete="};

static const char *const source_endings[] = {"c",   "i",   "s", "S",  "sx", "cc", "cp", "cxx",
                                             "cpp", "c++", "C", "ii", "m",  "ll", "bc"};
static const char *const header_endings[] = {"h", "H", "hh", "hp", "hpp", "hxx", "h++"};

static bool is_one_of(const char *text, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(text, list[i]))
            return true;
    return false;
}
#define IS_ONE_OF(text_, list_) is_one_of(text_, list_, sizeof(list_) / sizeof *(list_))

static bool is_source(const char *text, const char *language)
{
    const char *dot = strrchr(text, '.');
    return !strcmp(text, "-") || language || (dot && IS_ONE_OF(dot + 1, source_endings));
}

/* Clang precompiles a header. */
static bool is_header(const struct word *word)
{
    const char *dot = strrchr(word->text, '.');
    bool is_input = word->kind == WORD_SOURCE || word->kind == WORD_OBJECT;
    return is_input && (word->language ? strstr(word->language, "-header") != NULL
                                       : dot && IS_ONE_OF(dot + 1, header_endings));
}

static bool is_question(const char *text)
{
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        if (!strncmp(text, questions[i], strlen(questions[i])))
            return true;
    return false;
}

static bool begins_link_option(const char *text)
{
    if (!strcmp(text, "-undef"))
        return false;
    for (size_t i = 0; i < sizeof linking / sizeof *linking; i++)
        if (!strncmp(text, linking[i], strlen(linking[i])))
            return true;
    return IS_ONE_OF(text, linking_whole);
}

/* What `-fsanitize=address,undefined` turns on. */
static unsigned sanitizers_of(const char *list)
{
    static const struct {
        const char *name;
        unsigned sanitizer;
    } known[] = {
        {"address", SANITIZER_ADDRESS},
        {"leak", SANITIZER_LEAK},
        {"thread", SANITIZER_UNKNOWN},
        {"memory", SANITIZER_UNKNOWN},
        {"dataflow", SANITIZER_UNKNOWN},
        {"hwaddress", SANITIZER_UNKNOWN},
        {"type", SANITIZER_UNKNOWN},
        {"safe-stack", SANITIZER_UNKNOWN},
        {"realtime", SANITIZER_UNKNOWN},
        {"numerical", SANITIZER_UNKNOWN},
        {"all", SANITIZER_ADDRESS | SANITIZER_LEAK | SANITIZER_UNKNOWN},
    };
    unsigned result = 0;
    for (size_t n; *list; list += n + (list[n] == ',')) {
        n = strcspn(list, ",");
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (strlen(known[i].name) == n && !strncmp(list, known[i].name, n))
                result |= known[i].sanitizer;
    }
    return result;
}

static void note_sanitizers(struct arguments *arguments, const char *text)
{
    if (!strncmp(text, "-fsanitize=", 11))
        arguments->sanitizers |= sanitizers_of(text + 11);
    else if (!strncmp(text, "-fno-sanitize=", 14))
        arguments->sanitizers &= ~sanitizers_of(text + 14);
}

static void note_mode(struct arguments *arguments, const struct word *word)
{
    const char *text = word->text;
    note_sanitizers(arguments, text);
    if (!strcmp(text, "-o") || !strcmp(text, "--output"))
        arguments->output = word->value;
    else if (!strncmp(text, "--output=", 9))
        arguments->output = text + 9;
    else if (!strncmp(text, "-o", 2) && text[2] && strncmp(text, "-object", 7))
        arguments->output = text + 2;
    if (!strcmp(text, "-shared") || !strcmp(text, "--shared"))
        arguments->is_shared = true;
    if (!strcmp(text, "-r") || !strcmp(text, "-Wl,-r") || !strcmp(text, "-Wl,--relocatable"))
        arguments->is_partial = true;
    if (!strcmp(text, "-c") || !strcmp(text, "--compile"))
        arguments->compiles = true;
    if (IS_ONE_OF(text, not_linking) || is_question(text) || is_header(word))
        arguments->links = false;
    if (!strncmp(text, "-O", 2))
        arguments->level = text;
    if (!strcmp(text, "-w"))
        arguments->is_quiet = true;
}

/* Returns whether it is an option of ours, which clang does not get. */
static bool take_own(struct arguments *arguments, int argc, char **argv, int *i)
{
    const char *text = argv[*i];
    if (!strncmp(text, "--report=", 9)) {
        cc_words_add(&arguments->reports, text + 9);
        return true;
    }
    if (!strcmp(text, "--report") && *i + 1 < argc) {
        cc_words_add(&arguments->reports, argv[++*i]);
        return true;
    }
    if (!strncmp(text, "-fembed-bitcode", 15))
        return true; /* objects have it anyway, and clang makes it once */
    if (!strncmp(text, "-fgossamer-frames=", 18))
        arguments->frames = text + 18;
    else if (!strncmp(text, "-fgossamer-main=", 16))
        arguments->main = text + 16;
    else if (!strncmp(text, "-fgossamer-stress=", 18))
        arguments->stress = text + 18;
    else if (!strcmp(text, "-Wgossamer-races") || !strcmp(text, "-Wno-gossamer-races"))
        arguments->warns_of_races = text[2] != 'n';
    else if (!strcmp(text, "-Wno-gossamer-departures"))
        arguments->is_quiet = true;
    else
        return false;
    return true;
}

bool cc_is_output(const char *text)
{
    return !strncmp(text, "-o", 2) || !strcmp(text, "--output") || !strncmp(text, "--output=", 9);
}

static enum word_kind kind_of(const struct word *word)
{
    if (word->text[0] != '-' || !strcmp(word->text, "-"))
        return is_source(word->text, word->language) ? WORD_SOURCE : WORD_OBJECT;
    if (begins_link_option(word->text))
        return WORD_LINK;
    bool names_file = !strncmp(word->text, "-M", 2) || cc_is_output(word->text);
    return names_file ? WORD_COMPILE : WORD_COMMON;
}

/* Whether the value of an option is one that it has, or not given. Prints a message if not. */
static bool is_choice(const char *option, const char *value, const char *const *choices, size_t n)
{
    bool is_one = !value;
    for (size_t i = 0; i < n && !is_one; i++)
        is_one = !strcmp(value, choices[i]);
    if (is_one)
        return true;
    fprintf(stderr, "gossamer cc: -fgossamer-%s=%s: it is ", option, value);
    for (size_t i = 0; i < n; i++)
        fprintf(stderr, "%s%s", choices[i], i + 2 < n ? ", " : i + 1 < n ? " or " : "\n");
    return false;
}

/* Returns the language that the word sets for the inputs behind it, or NULL: it is another word. */
static const char *language_of(const struct word *word)
{
    if (!strncmp(word->text, "--language=", 11))
        return word->text + 11;
    if (word->value && !strcmp(word->text, "--language"))
        return word->value;
    if (strncmp(word->text, "-x", 2))
        return NULL;
    return word->value ? word->value : word->text + 2;
}

int cc_arguments_parse(int argc, char **argv, struct arguments *ret_arguments)
{
    struct arguments arguments = {.links = true, .output = "a.out"};
    const char *language = NULL;
    arguments.words = cc_allocate(((size_t)argc + 1) * sizeof *arguments.words);
    for (int i = 1; i < argc; i++) {
        if (take_own(&arguments, argc, argv, &i))
            continue;
        struct word *word = &arguments.words[arguments.count++];
        word->text = argv[i];
        word->language = language;
        if (IS_ONE_OF(argv[i], with_value) && i + 1 < argc)
            word->value = argv[++i];
        const char *given = language_of(word);
        if (given) {
            language = strcmp(given, "none") ? given : NULL;
            word->kind = WORD_LANGUAGE;
            continue;
        }
        word->kind = kind_of(word);
        arguments.sources += word->kind == WORD_SOURCE;
        arguments.inputs +=
            word->kind == WORD_SOURCE || word->kind == WORD_OBJECT || !strncmp(word->text, "-l", 2);
        note_mode(&arguments, word);
    }
    if (!is_choice("frames", arguments.frames, (const char *[]){"record", "slots"}, 2) ||
        !is_choice("main", arguments.main, (const char *[]){"stack", "converted"}, 2))
        return 2;
    *ret_arguments = arguments;
    return 0;
}

void cc_arguments_add(struct words *command, const struct word *word)
{
    cc_words_add(command, word->text);
    if (word->value)
        cc_words_add(command, word->value);
}
