#include "compiler/driver/locals.h"
#include "compiler/driver/folders.h"
#include "compiler/driver/words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char finder[] =
    "struct locals { const char *at; unsigned long size; };\n"
    "void gs_cc_find_foreign_locals(struct locals ret_locals[2]);\n"
    "void gs_cc_find_foreign_locals(struct locals ret_locals[2])\n{\n"
    "    ret_locals[0] = (struct locals){DATA_begin, (unsigned long)(DATA_end - DATA_begin)};\n"
    "    ret_locals[1] = (struct locals){ZERO_begin, (unsigned long)(ZERO_end - ZERO_begin)};\n}\n";

static const char declarations[] =
    "extern _Thread_local char gs_cc_data_begin[], gs_cc_data_end[];\n"
    "extern _Thread_local char gs_cc_zero_begin[], gs_cc_zero_end[];\n"
    "#define DATA_begin (gs_cc_data_begin + 1)\n#define DATA_end gs_cc_data_end\n"
    "#define ZERO_begin (gs_cc_zero_begin + 1)\n#define ZERO_end gs_cc_zero_end\n";

static const char none[] = "#define DATA_begin (char *)0\n#define DATA_end (char *)0\n"
                           "#define ZERO_begin (char *)0\n#define ZERO_end (char *)0\n";

int cc_locals_write(const char *path, bool has_any)
{
    FILE *file = fopen(path, "a");
    if (!file)
        return cc_fail(path, strerror(errno));
    fputs(has_any ? declarations : none, file);
    fputs(finder, file);
    return fclose(file) ? cc_fail(path, strerror(errno)) : 0;
}

/* A section must not be empty, or the linker may leave it out. */
const char *cc_locals_mark(const char *where)
{
    const char *source = cc_own_file(cc_text("locals-%s.s", where));
    const char *object = cc_own_file(cc_text("locals-%s.o", where));
    FILE *file = fopen(source, "w");
    if (!file) {
        cc_fail(source, strerror(errno));
        return NULL;
    }
    for (int i = 0; i < 2; i++) {
        const char *name = cc_text("gs_cc_%s_%s", i ? "zero" : "data", where);
        fprintf(file, ".section .%s,\"awT\",@%s\n", i ? "tbss" : "tdata",
                i ? "nobits" : "progbits");
        fprintf(file, ".globl %s\n.type %s,@tls_object\n%s:\n.zero 1\n", name, name, name);
    }
    fputs(".section .note.GNU-stack,\"\",@progbits\n", file);
    if (fclose(file)) {
        cc_fail(source, strerror(errno));
        return NULL;
    }
    struct words command = {0};
    cc_words_add(&command, "as"); /* starts ten times as fast as clang */
    cc_words_add(&command, source);
    cc_words_add(&command, "-o");
    cc_words_add(&command, object);
    return cc_run(&command, NULL) ? NULL : object;
}
