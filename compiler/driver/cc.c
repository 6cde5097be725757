/* The steps of `gossamer cc`. Objects are clang's with bitcode beside the machine code, so that all
 * other tools take them as usual. A program is first linked as clang does it, which finds the
 * members of archives that take part, and every error. If it starts threads, the bitcode of what
 * was linked is merged, converted and compiled by clang with our plugin, and linked with the
 * runtime. */
#include "compiler/cc.h"
#include "compiler/driver/arguments.h"
#include "compiler/driver/bitcode.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLANG "clang-19"

/* The directory of the plugin, the runtime and the headers. */
static char *home;
static char *temporary; /* directory of this command */

static int fail(const char *subject, const char *reason)
{
    fprintf(stderr, "gossamer cc: %s: %s\n", subject, reason);
    return 1;
}

static const char *file_of_home(const char *name)
{
    return cc_text("%s/%s", home, name);
}

/* Beside the program in a build, and below lib where it is installed. */
static int find_home(void)
{
    char program[PATH_MAX];
    const char *given = getenv("GOSSAMER_CC_HOME");
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (given && *given) {
        home = cc_text("%s", given);
        return 0;
    }
    if (n < 0)
        return fail("/proc/self/exe", strerror(errno));
    program[n] = 0;
    *strrchr(program, '/') = 0;
    home = cc_text("%s/compiler/home", program);
    if (access(home, F_OK))
        home = cc_text("%s/../lib/gossamer/cc", program);
    return 0;
}

static bool is_in_path(const char *name)
{
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t n = strcspn(path, ":");
        if (!access(cc_text("%.*s/%s", (int)n, path, name), X_OK))
            return true;
        path += n + (path[n] == ':');
    }
    return false;
}

static int check_installation(void)
{
    if (!is_in_path(CLANG))
        return fail(CLANG, "not found; it is in the Debian package clang-19");
    if (access(file_of_home("plugin.so"), R_OK))
        return fail("the plugin of clang is missing",
                    "it is built where the Debian package llvm-19-dev is; `make install-cc`"
                    " installs it");
    return 0;
}

static void remove_temporary(void)
{
    if (!temporary)
        return;
    struct words command = {0};
    cc_words_add(&command, "rm");
    cc_words_add(&command, "-rf");
    cc_words_add(&command, temporary);
    cc_run(&command, NULL);
}

static int make_temporary(void)
{
    const char *folder = getenv("TMPDIR");
    char *path = cc_text("%s/gossamer-cc-XXXXXX", folder && *folder ? folder : "/tmp");
    if (!mkdtemp(path))
        return fail(path, strerror(errno));
    temporary = path;
    return atexit(remove_temporary) ? fail("atexit", "no memory") : 0;
}

/* ---- Compiling ---- */

static void add_word(struct words *command, const struct word *word)
{
    cc_words_add(command, word->text);
    if (word->value)
        cc_words_add(command, word->value);
}

/* The bitcode is optimised, or, for a sanitizer, as it was before: it adds its checks to what was
 * converted. */
static void begin_compile(struct words *command, bool has_bitcode, unsigned sanitizers)
{
    cc_words_add(command, CLANG);
    cc_words_add(command, "-isystem");
    cc_words_add(command, file_of_home("include"));
    if (has_bitcode && sanitizers) {
        cc_words_add(command, "-Xclang");
        cc_words_add(command, "-fembed-bitcode=bitcode");
    } else if (has_bitcode) {
        cc_words_add(command, "-flto");
        cc_words_add(command, "-ffat-lto-objects");
    }
}

/* The command as it is, when it makes no program. */
static int pass_through(const struct arguments *arguments)
{
    struct words command = {0};
    begin_compile(&command, arguments->compiles, arguments->sanitizers);
    for (size_t i = 0; i < arguments->count; i++) {
        const struct word *word = &arguments->words[i];
        if (word->language && word->kind == WORD_SOURCE) {
            cc_words_add(&command, "-x");
            cc_words_add(&command, word->language);
        }
        add_word(&command, word);
    }
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
        bool is_output = !strncmp(word->text, "-o", 2) && word->kind == WORD_COMPILE;
        if ((word->kind == WORD_COMMON || word->kind == WORD_COMPILE) && !is_output)
            add_word(&command, word);
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

/* Replace each source by its object. */
static int compile_all(struct arguments *arguments)
{
    unsigned number = 0;
    for (size_t i = 0; i < arguments->count; i++) {
        struct word *word = &arguments->words[i];
        if (word->kind != WORD_SOURCE)
            continue;
        const char *slash = strrchr(word->text, '/');
        char *object = cc_text("%s/%u-%s.o", temporary, number++, slash ? slash + 1 : word->text);
        int status = compile(arguments, word, object);
        if (status)
            return status;
        *word = (struct word){.text = object, .kind = WORD_OBJECT};
    }
    return 0;
}

/* ---- Linking ---- */

static void begin_link(struct words *command, const struct arguments *arguments)
{
    cc_words_add(command, CLANG);
    cc_words_add(command, "-Qunused-arguments");
    cc_words_add(command, "-o");
    cc_words_add(command, arguments->output);
}

static bool is_flto(const struct word *word)
{
    return !strncmp(word->text, "-flto", 5) || !strcmp(word->text, "-ffat-lto-objects");
}

static int link_natively(const struct arguments *arguments, const char *trace)
{
    struct words command = {0};
    begin_link(&command, arguments);
    for (size_t i = 0; i < arguments->count; i++)
        if (arguments->words[i].kind != WORD_COMPILE && !is_flto(&arguments->words[i]))
            add_word(&command, &arguments->words[i]);
    if (trace)
        cc_words_add(&command, "-Wl,-t,-t");
    return cc_run(&command, trace);
}

static int write_job(const struct arguments *arguments, const struct linked *linked,
                     const char *path)
{
    FILE *job = fopen(path, "w");
    if (!job)
        return fail(path, strerror(errno));
    for (size_t i = 0; i < linked->files.count; i++)
        fprintf(job, "file\t%s\n", linked->files.at[i]);
    for (size_t i = 0; i < linked->members.count; i++)
        fprintf(job, "member\t%s\n", linked->members.at[i]);
    fprintf(job, "native\t%s\n", arguments->output);
    for (size_t i = 0; i < arguments->reports.count; i++)
        fprintf(job, "report\t%s\n", arguments->reports.at[i]);
    if (arguments->warns_of_races)
        fputs("warn\traces\n", job);
    if (arguments->frames)
        fprintf(job, "frames\t%s\n", arguments->frames);
    if (arguments->main)
        fprintf(job, "main\t%s\n", arguments->main);
    if (!arguments->sanitizers)
        fputs("bitcode\tsimplified\n", job);
    if (arguments->stress)
        fprintf(job, "stress\t%s\n", arguments->stress);
    return fclose(job) ? fail(path, strerror(errno)) : 0;
}

/* Merge, convert, optimise and compile what was linked. */
static int convert(const struct arguments *arguments, const struct linked *linked,
                   const char *object)
{
    char *job = cc_text("%s/job", temporary), *empty = cc_text("%s/program.ll", temporary);
    int status = write_job(arguments, linked, job);
    FILE *file = status ? NULL : fopen(empty, "w");
    if (!file)
        return 1;
    fclose(file);
    if (setenv("GOSSAMER_CC_JOB", job, 1))
        return fail("GOSSAMER_CC_JOB", strerror(errno));
    struct words command = {0};
    cc_words_add(&command, CLANG);
    cc_words_add(&command, cc_text("-fpass-plugin=%s", file_of_home("plugin.so")));
    cc_words_add(&command, arguments->level ? arguments->level : "-O2");
    cc_words_add(&command, "-fPIE");
    for (size_t i = 0; i < arguments->count; i++)
        if (strstr(arguments->words[i].text, "sanitize"))
            add_word(&command, &arguments->words[i]);
    cc_words_add(&command, "-Wno-override-module");
    cc_words_add(&command, "-c");
    cc_words_add(&command, empty);
    cc_words_add(&command, "-o");
    cc_words_add(&command, object);
    return cc_run(&command, NULL);
}

static const char *runtime_of(const struct arguments *arguments)
{
    return file_of_home(arguments->sanitizers & SANITIZER_THREAD ? "libgossamer_cc_tsan.a"
                        : arguments->sanitizers                  ? "libgossamer_cc_asan.a"
                                                                 : "libgossamer_cc.a");
}

static int link_converted(const struct arguments *arguments, const char *object)
{
    struct words command = {0};
    begin_link(&command, arguments);
    cc_words_add(&command, object);
    /* Before archives, one of which may have the program's main as machine code. */
    cc_words_add(&command, runtime_of(arguments));
    for (size_t i = 0; i < arguments->count; i++) {
        const struct word *word = &arguments->words[i];
        bool is_merged = word->kind == WORD_OBJECT && cc_is_bitcode_object(word->text);
        if (word->kind != WORD_COMPILE && !is_merged && !is_flto(word))
            add_word(&command, word);
    }
    cc_words_add(&command, runtime_of(arguments));
    cc_words_add(&command, file_of_home("libgossamer.a"));
    cc_words_add(&command, "-lm");
    cc_words_add(&command, "-ldl");
    cc_words_add(&command, "-lpthread");
    return cc_run(&command, NULL);
}

static bool is_file(const char *path)
{
    struct stat status;
    return !stat(path, &status) && S_ISREG(status.st_mode);
}

static int link_program(struct arguments *arguments)
{
    char *trace = cc_text("%s/trace", temporary), *object = cc_text("%s/converted.o", temporary);
    struct linked linked;
    int status = compile_all(arguments);
    if (!status)
        status = link_natively(arguments, trace);
    if (status)
        return status;
    if (cc_linked_read(trace, &linked))
        return fail(trace, strerror(errno));
    /* What is written to a device is for the exit status alone. */
    if ((!linked.starts_threads && !arguments->stress) || !is_file(arguments->output))
        return 0;
    if (arguments->sanitizers & SANITIZER_UNKNOWN) {
        unlink(arguments->output);
        return fail("-fsanitize=", "of those that are not address, leak, thread or undefined, the"
                                   " runtime knows nothing");
    }
    status = convert(arguments, &linked, object);
    if (!status)
        status = link_converted(arguments, object);
    if (status)
        unlink(arguments->output);
    return status;
}

/* An object of objects has the bitcode of all, or none: the machine code of one without would be
 * missing in the program. */
static int link_objects(struct arguments *arguments)
{
    int status = compile_all(arguments);
    if (!status)
        status = link_natively(arguments, NULL);
    bool has_bitcode = true;
    for (size_t i = 0; i < arguments->count; i++)
        if (arguments->words[i].kind == WORD_OBJECT)
            has_bitcode &= cc_is_bitcode_object(arguments->words[i].text);
    if (status || has_bitcode)
        return status;
    struct words command = {0};
    cc_words_add(&command, "objcopy");
    cc_words_add(&command, "--remove-section=.llvm.lto");
    cc_words_add(&command, "--remove-section=.llvmbc");
    cc_words_add(&command, arguments->output);
    return cc_run(&command, NULL);
}

static void print_help(void)
{
    puts("Usage: gossamer cc [OPTION...] FILE...\n\n"
         "Compiles threaded C programs into events, in place of clang, whose options it takes. It "
         "is\n"
         "experimental.\n\n"
         "Options:\n"
         "  -h, --help          print this help\n"
         "      --report FILE   write which functions may wait, and the memory of threads that do: "
         "as\n"
         "                      JSON or as a page if FILE ends in .json or .html, else as text\n"
         "  -Wgossamer-races    warn of data that several threads reach without a common lock\n"
         "  -fgossamer-frames=record|environment|slots\n"
         "                      how variables in memory survive a wait (default record)\n"
         "  -fgossamer-main=stack|converted\n"
         "                      whether the first thread has a stack (default), or is converted\n"
         "  -fgossamer-stress=PERCENT\n"
         "                      add waits at this part of the blocks, for tests of the compiler");
}

int gs_cc_main_command(int argc, char **argv)
{
    struct arguments arguments;
    if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        print_help();
        return 0;
    }
    signal(SIGCHLD, SIG_DFL); /* ignored, it would hide how a command ends */
    cc_responses_expand(&argc, &argv);
    int status = cc_arguments_parse(argc, argv, &arguments);
    if (!status)
        status = find_home();
    if (!status)
        status = check_installation();
    if (status)
        return status;
    if (arguments.is_shared)
        return fail("-shared",
                    "a shared library cannot be converted; make it with clang, and link with it");
    if (!arguments.links || !arguments.inputs)
        return pass_through(&arguments);
    status = make_temporary();
    if (status)
        return status;
    return arguments.is_partial ? link_objects(&arguments) : link_program(&arguments);
}
