/* What a link consisted of, by the trace of the linker. */
#ifndef GS_COMPILER_BITCODE_H
#define GS_COMPILER_BITCODE_H

#include "compiler/driver/words.h"

#include <stdbool.h>

struct linked {
    struct words files;   /* objects and archives */
    struct words members; /* "ARCHIVE<tab>MEMBER" */
    struct words natives; /* what starts threads and is not converted: machine code, or C++ */
    bool has_locals;      /* machine code may have thread-local variables */
    bool starts_threads;  /* bitcode refers to a function that starts threads */
};

/* Returns 0 or -errno. */
int cc_linked_read(const char *trace, struct linked *ret_linked);

/* Whether the file is an object with bitcode. */
bool cc_is_bitcode_object(const char *path);

/* Whether it refers to a function that starts threads. */
bool cc_starts_threads(const char *path);

/* Whether it is an object without, or an archive without such objects. */
bool cc_is_machine_code(const char *path);

#endif
