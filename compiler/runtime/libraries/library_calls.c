/* Finding the functions that shared libraries get, by their names. */
#include "compiler/runtime/libraries/library_calls.h"

#include <stdlib.h>
#include <string.h>

static const struct gs_cc_replacements *const kinds[] = {
    &gs_cc_library_io, &gs_cc_library_locals, &gs_cc_library_locks, &gs_cc_library_processes,
    &gs_cc_library_threads};
#define KINDS (sizeof kinds / sizeof *kinds)

const struct gs_cc_replacement *gs_cc_replacement_at(unsigned i)
{
    for (unsigned kind = 0; kind < KINDS; kind++) {
        if (i < kinds[kind]->count)
            return &kinds[kind]->first[i];
        i -= kinds[kind]->count;
    }
    return NULL;
}

static int compare(const void *name, const void *replacement)
{
    return strcmp(name, ((const struct gs_cc_replacement *)replacement)->name);
}

int gs_cc_find_replacement(const char *name)
{
    unsigned before = 0;
    for (unsigned kind = 0; kind < KINDS; before += kinds[kind++]->count) {
        const struct gs_cc_replacement *first = kinds[kind]->first,
                                       *found = bsearch(name, first, kinds[kind]->count,
                                                        sizeof *first, compare);
        if (found)
            return (int)(before + (unsigned)(found - first));
    }
    return -1;
}
