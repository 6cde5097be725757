#include "compiler/driver/link.h"
#include "compiler/driver/bitcode.h"
#include "compiler/driver/folders.h"
#include "compiler/driver/foreign.h"
#include "compiler/driver/locals.h"
#include "compiler/driver/stacks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* The inputs are objects already, whatever the languages were. */
static bool is_for_linker(const struct word *word)
{
    return word->kind != WORD_COMPILE && word->kind != WORD_LANGUAGE && !is_flto(word);
}

static int link_natively(const struct arguments *arguments, const char *trace)
{
    struct words command = {0};
    begin_link(&command, arguments);
    for (size_t i = 0; i < arguments->count; i++)
        if (is_for_linker(&arguments->words[i]))
            cc_arguments_add(&command, &arguments->words[i]);
    if (trace)
        cc_words_add(&command, "-Wl,-t,-t");
    return cc_run(&command, trace);
}

/* What the plugin writes, without what only the driver knows. Its name has the same end. */
static const char *draft_of_report(const struct arguments *arguments, size_t i)
{
    const char *path = arguments->reports.at[i], *dot = strrchr(path, '.');
    return cc_own_file(cc_text("report-%zu%s", i, dot && !strchr(dot, '/') ? dot : ""));
}

static int write_job(const struct arguments *arguments, const struct linked *linked,
                     const char *path)
{
    FILE *job = fopen(path, "w");
    if (!job)
        return cc_fail(path, strerror(errno));
    for (size_t i = 0; i < linked->files.count; i++)
        fprintf(job, "file\t%s\n", linked->files.at[i]);
    for (size_t i = 0; i < linked->members.count; i++)
        fprintf(job, "member\t%s\n", linked->members.at[i]);
    fprintf(job, "native\t%s\n", arguments->output);
    for (size_t i = 0; i < arguments->reports.count; i++)
        fprintf(job, "report\t%s\n", draft_of_report(arguments, i));
    fprintf(job, "stacks\t%s\n", cc_own_file("stacks"));
    if (arguments->warns_of_races)
        fputs("warn\traces\n", job);
    if (!arguments->is_quiet)
        fputs("warn\tdepartures\n", job);
    if (arguments->frames)
        fprintf(job, "frames\t%s\n", arguments->frames);
    if (arguments->main)
        fprintf(job, "main\t%s\n", arguments->main);
    if (!arguments->sanitizers)
        fputs("bitcode\tsimplified\n", job);
    if (arguments->stress)
        fprintf(job, "stress\t%s\n", arguments->stress);
    return fclose(job) ? cc_fail(path, strerror(errno)) : 0;
}

/* Merge, convert, optimise and compile what was linked. */
static int convert(const struct arguments *arguments, const struct linked *linked,
                   const char *object)
{
    const char *job = cc_own_file("job"), *empty = cc_own_file("program.ll");
    int status = write_job(arguments, linked, job);
    FILE *file = status ? NULL : fopen(empty, "w");
    if (!file)
        return 1;
    fclose(file);
    if (setenv("GOSSAMER_CC_JOB", job, 1))
        return cc_fail("GOSSAMER_CC_JOB", strerror(errno));
    struct words command = {0};
    cc_words_add(&command, CLANG);
    cc_words_add(&command, cc_text("-fpass-plugin=%s", cc_home_file("plugin.so")));
    cc_words_add(&command, arguments->level ? arguments->level : "-O2");
    cc_words_add(&command, "-fPIE");
    cc_words_add(&command, "-fstack-usage");
    for (size_t i = 0; i < arguments->count; i++)
        if (strstr(arguments->words[i].text, "sanitize"))
            cc_arguments_add(&command, &arguments->words[i]);
    cc_words_add(&command, "-Wno-override-module");
    cc_words_add(&command, "-c");
    cc_words_add(&command, empty);
    cc_words_add(&command, "-o");
    cc_words_add(&command, object);
    return cc_run(&command, NULL);
}

static const char *runtime_of(const struct arguments *arguments)
{
    return cc_home_file(arguments->sanitizers ? "libgossamer_cc_asan.a" : "libgossamer_cc.a");
}

/* Tell the runtime and the reports how much stack calls need. Makes an object. */
static int find_stacks(const struct arguments *arguments, const struct linked *linked,
                       const char *object)
{
    const char *source = cc_own_file("stacks.c");
    struct stacks *stacks = cc_stacks_read(cc_own_file("stacks"), cc_own_file("converted.su"));
    int status = !stacks;
    for (size_t i = 0; !status && i < arguments->reports.count; i++)
        status =
            cc_stacks_complete(stacks, draft_of_report(arguments, i), arguments->reports.at[i]);
    if (!status)
        status = cc_stacks_write(stacks, source);
    if (!status)
        status = cc_locals_write(source, linked->has_locals);
    if (status)
        return status;
    struct words command = {0};
    cc_words_add(&command, CLANG);
    cc_words_add(&command, "-fPIE");
    cc_words_add(&command, "-c");
    cc_words_add(&command, source);
    cc_words_add(&command, "-o");
    cc_words_add(&command, object);
    return cc_run(&command, NULL);
}

/* These are the C library's and the compiler's. */
static bool is_of_system(const char *name)
{
    static const char *const names[] = {"c", "m", "dl", "rt", "pthread", "gcc", "gcc_eh"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

/* Returns the archive of machine code that an option -l stands for, of which the program has a
 * member; or NULL. */
static const char *find_archive(const struct word *word, const struct linked *linked)
{
    const char *name = word->value ? word->value : word->text + 2;
    if (strncmp(word->text, "-l", 2) || is_of_system(name))
        return NULL;
    const char *end = cc_text("/lib%s.a", name);
    for (size_t i = 0; i < linked->members.count; i++) {
        const char *member = linked->members.at[i];
        const char *path = cc_text("%.*s", (int)strcspn(member, "\t"), member);
        size_t length = strlen(path), skipped = length < strlen(end) ? length : strlen(end);
        if (!strcmp(path + length - skipped, end) && cc_is_machine_code(path))
            return path;
    }
    return NULL;
}

/* Returns the machine code that a word stands for, or NULL. */
static const char *foreign_of(const struct word *word, const struct linked *linked)
{
    if (word->kind == WORD_OBJECT && cc_is_machine_code(word->text))
        return word->text;
    return find_archive(word, linked);
}

/* Machine code is linked as a copy. Allocators are not, and keep their thread-local variables for
 * each kernel thread: they come later. Returns 0 or an exit status. */
static int add_input(struct words *command, const struct word *word, const struct linked *linked,
                     unsigned number)
{
    const char *path = foreign_of(word, linked), *copy;
    if (!path) {
        cc_arguments_add(command, word);
        return 0;
    }
    if (cc_has_allocator(path))
        return 0;
    copy = cc_foreign_copy(path, number);
    if (copy)
        cc_words_add(command, copy);
    return !copy;
}

static void add_allocators(struct words *command, const struct arguments *arguments,
                           const struct linked *linked)
{
    for (size_t i = 0; i < arguments->count; i++) {
        const char *path = foreign_of(&arguments->words[i], linked);
        if (path && cc_has_allocator(path))
            cc_words_add(command, path);
    }
}

/* Between the marks are all thread-local variables but the runtime's. Returns 0 or an exit status.
 */
static int add_mark(struct words *command, const struct linked *linked, const char *where)
{
    const char *mark = linked->has_locals ? cc_locals_mark(where) : NULL;
    if (mark)
        cc_words_add(command, mark);
    return linked->has_locals && !mark;
}

static int link_converted(const struct arguments *arguments, const struct linked *linked,
                          const char *object, const char *stacks)
{
    struct words command = {0};
    begin_link(&command, arguments);
    /* Before archives, one of which may have the program's main as machine code. */
    cc_words_add(&command, runtime_of(arguments));
    if (add_mark(&command, linked, BEFORE_CODE))
        return 1;
    cc_words_add(&command, object);
    cc_words_add(&command, stacks);
    for (size_t i = 0; i < arguments->count; i++) {
        const struct word *word = &arguments->words[i];
        bool is_merged = word->kind == WORD_OBJECT && cc_is_bitcode_object(word->text);
        if (!is_merged && is_for_linker(word) && add_input(&command, word, linked, (unsigned)i))
            return 1;
    }
    if (add_mark(&command, linked, BEHIND_CODE))
        return 1;
    add_allocators(&command, arguments, linked);
    cc_words_add(&command, runtime_of(arguments));
    cc_words_add(&command, cc_home_file("libgossamer.a"));
    cc_words_add(&command, "-lm");
    cc_words_add(&command, "-ldl");
    cc_words_add(&command, "-lpthread");
    /* To bind a symbol at its first call takes 3 KiB of stack. */
    cc_words_add(&command, "-Wl,-z,now");
    return cc_run(&command, NULL);
}

static bool is_file(const char *path)
{
    struct stat status;
    return !stat(path, &status) && S_ISREG(status.st_mode);
}

/* What starts threads that are not converted is named. */
static void warn(const struct words *native)
{
    for (size_t i = 0; i < native->count; i++)
        fprintf(stderr,
                "gossamer cc: warning: %s: it starts threads, which remain kernel threads, as"
                " it is not converted\n",
                native->at[i]);
}

int cc_link_library(const struct arguments *arguments)
{
    const char *trace = cc_own_file("trace");
    struct linked linked;
    struct words named = {0};
    int status = link_natively(arguments, trace);
    if (status)
        return status;
    if (cc_linked_read(trace, &linked))
        return cc_fail(trace, strerror(errno));
    if (linked.starts_threads)
        cc_words_add(&named, arguments->output);
    warn(&named);
    warn(&linked.natives);
    return 0;
}

int cc_link_program(struct arguments *arguments)
{
    const char *trace = cc_own_file("trace"), *object = cc_own_file("converted.o");
    const char *stacks = cc_own_file("stacks.o");
    struct linked linked;
    int status = link_natively(arguments, trace);
    if (status)
        return status;
    if (cc_linked_read(trace, &linked))
        return cc_fail(trace, strerror(errno));
    warn(&linked.natives);
    /* What is written to a device is for the exit status alone. */
    if ((!linked.starts_threads && !arguments->stress) || !is_file(arguments->output))
        return 0;
    if (arguments->sanitizers & SANITIZER_UNKNOWN) {
        unlink(arguments->output);
        return cc_fail("-fsanitize=",
                       "of those that are not address, leak or undefined, the runtime knows"
                       " nothing");
    }
    status = convert(arguments, &linked, object);
    if (!status)
        status = find_stacks(arguments, &linked, stacks);
    if (!status)
        status = link_converted(arguments, &linked, object, stacks);
    if (status)
        unlink(arguments->output);
    return status;
}

int cc_link_objects(struct arguments *arguments)
{
    int status = link_natively(arguments, NULL);
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
