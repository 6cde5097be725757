#include "compiler/driver/stacks.h"
#include "compiler/driver/allowances.h"

#include <errno.h>
#include <search.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The address of return, and a frame pointer, which clang may not count. */
#define CALL_BYTES 16
/* What a function uses below its frame: the red zone, and calls of memcpy that clang adds. */
#define LEAF_BYTES 384
/* The runtime's frames above the call, and what ends it. */
#define START_BYTES 1280

struct call {
    const char *name;
    uint64_t bytes; /* of arguments */
    struct call *next;
};

enum state { STATE_NEW, STATE_ACTIVE, STATE_KNOWN };

struct function {
    const char *name;
    bool is_defined, has_frame;
    uint64_t frame;
    struct call *calls, *continuations;
    /* Of this call and all below: `reason` is why there is no bound, or NULL. */
    enum state state;
    uint64_t need;
    const char *reason;
    const void *seen_by; /* of the search that came here last */
};

struct stacks {
    void *functions; /* a tree of struct function, by name */
    struct words callers, handlers;
    const char *none; /* why there is no bound at all; NULL: there can be */
};

static int fail(const char *subject, const char *reason)
{
    fprintf(stderr, "gossamer cc: %s: %s\n", subject, reason);
    return 1;
}

/* ---- Functions by name ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct function *)a)->name, ((const struct function *)b)->name);
}

static struct function *look_up(struct stacks *stacks, const char *name)
{
    struct function key = {.name = name};
    struct function *const *found = tfind(&key, &stacks->functions, compare_names);
    return found ? *found : NULL;
}

static struct function *insert(struct stacks *stacks, const char *name)
{
    struct function *function = look_up(stacks, name);
    if (function)
        return function;
    function = cc_allocate(sizeof *function);
    function->name = cc_text("%s", name);
    if (!tsearch(function, &stacks->functions, compare_names))
        exit(fail("tsearch", "no memory"));
    return function;
}

/* As the program's text has it. */
static const char *shown(const char *name)
{
    if (!strcmp(name, "gs_cc_program"))
        return "main";
    return name + (strncmp(name, "gs_cc_", 6) ? 0 : 6);
}

/* ---- Reading ---- */

static void add_call(struct call **calls, const char *name, uint64_t bytes)
{
    struct call *call = cc_allocate(sizeof *call);
    *call = (struct call){cc_text("%s", name), bytes, *calls};
    *calls = call;
}

static void read_graph_line(struct stacks *stacks, struct function **of, char *line)
{
    char *rest = line;
    const char *key = strsep(&rest, "\t"), *name = rest ? strsep(&rest, "\t") : "";
    uint64_t number = rest ? strtoull(rest, NULL, 10) : 0;
    if (!strcmp(key, "stack"))
        cc_words_add(&stacks->callers, cc_text("%s", name));
    else if (!strcmp(key, "handler"))
        cc_words_add(&stacks->handlers, cc_text("%s", name));
    else if (!strcmp(key, "none"))
        stacks->none = stacks->none ? stacks->none : cc_text("%s", name);
    if (!strcmp(key, "function")) {
        *of = insert(stacks, name);
        (*of)->is_defined = true;
        (*of)->frame += number;
    }
    if (!*of)
        return;
    if (!strcmp(key, "unknown"))
        (*of)->reason = cc_text("%s %s", shown((*of)->name), name);
    else if (!strcmp(key, "call"))
        add_call(&(*of)->calls, name, number);
    else if (!strcmp(key, "resumes"))
        add_call(&(*of)->continuations, name, 0);
}

/* "FILE:LINE:FUNCTION<tab>BYTES<tab>static", or dynamic. */
static void read_usage_line(struct stacks *stacks, char *line)
{
    char *rest = line, *place = strsep(&rest, "\t");
    const char *bytes = rest ? strsep(&rest, "\t") : NULL, *colon = strrchr(place, ':');
    if (!bytes || !rest)
        return;
    struct function *function = insert(stacks, colon ? colon + 1 : place);
    function->frame += strtoull(bytes, NULL, 10);
    function->has_frame = true;
    if (strcmp(rest, "static") != 0)
        function->reason = cc_text("the frame of %s has no constant size", shown(function->name));
}

struct stacks *cc_stacks_read(const char *graph, const char *usage)
{
    struct stacks *stacks = cc_allocate(sizeof *stacks);
    struct function *function = NULL;
    const char *const paths[] = {graph, usage};
    for (unsigned i = 0; i < 2; i++) {
        FILE *file = fopen(paths[i], "r");
        char *line = NULL;
        size_t room = 0;
        if (!file) {
            fail(paths[i], strerror(errno));
            return NULL;
        }
        while (getline(&line, &room, file) > 0) {
            line[strcspn(line, "\n")] = 0;
            if (paths[i] == graph)
                read_graph_line(stacks, &function, line);
            else
                read_usage_line(stacks, line);
        }
        free(line);
        fclose(file);
    }
    return stacks;
}

/* ---- Adding up ---- */

static void find_need(struct stacks *stacks, struct function *function);

static void add_callee(struct stacks *stacks, struct function *function, const struct call *call)
{
    struct function *callee = look_up(stacks, call->name);
    uint64_t need = cc_allowance(call->name);
    if (callee && callee->is_defined) {
        find_need(stacks, callee);
        if (callee->state == STATE_ACTIVE)
            function->reason = cc_text("the recursion of %s", shown(callee->name));
        else if (callee->reason)
            function->reason = callee->reason;
        need = callee->need;
    } else if (!need) {
        function->reason = cc_text("%s calls %s, whose need is not known", shown(function->name),
                                   shown(call->name));
    }
    need += call->bytes;
    function->need = need > function->need ? need : function->need;
}

static void find_need(struct stacks *stacks, struct function *function)
{
    if (function->state != STATE_NEW)
        return;
    function->state = STATE_ACTIVE;
    function->need = LEAF_BYTES;
    if (!function->has_frame && !function->reason)
        function->reason = cc_text("the frame of %s is not known", shown(function->name));
    for (const struct call *call = function->calls; call; call = call->next)
        add_callee(stacks, function, call);
    function->need += function->frame + CALL_BYTES;
    function->state = STATE_KNOWN;
}

struct need {
    uint64_t bytes;
    const char *reason; /* why there is no bound; NULL: it is one */
};

/* It may be a function of the C library, as _exit. */
static struct need need_of_handler(struct stacks *stacks, const char *name)
{
    struct function *handler = look_up(stacks, name);
    uint64_t allowance = cc_allowance(name);
    if (handler && handler->is_defined) {
        find_need(stacks, handler);
        return (struct need){handler->need, handler->reason};
    }
    return (struct need){allowance,
                         allowance ? NULL : cc_text("the need of %s is not known", shown(name))};
}

/* Of the handler of signals that needs most. */
static struct need need_of_handlers(struct stacks *stacks)
{
    struct need all = {0};
    for (size_t i = 0; i < stacks->handlers.count; i++) {
        struct need one = need_of_handler(stacks, stacks->handlers.at[i]);
        all.bytes = one.bytes > all.bytes ? one.bytes : all.bytes;
        all.reason = one.reason ? one.reason : all.reason;
    }
    return all;
}

static struct need need_of_stack(struct stacks *stacks, const char *name)
{
    struct function *function = look_up(stacks, name);
    struct need handlers = need_of_handlers(stacks);
    if (!function)
        return (struct need){0, "it was removed"};
    find_need(stacks, function);
    return (struct need){START_BYTES + function->need, stacks->none       ? stacks->none
                                                       : handlers.reason  ? handlers.reason
                                                       : function->reason ? function->reason
                                                                          : NULL};
}

/* A worker calls each function that continues: the largest need of all that a thread may reach. */
static struct need need_of_worker(struct stacks *stacks, const char *name)
{
    struct need result = {0};
    struct words work = {0};
    cc_words_add(&work, name);
    for (size_t i = 0; i < work.count; i++) {
        struct function *function = look_up(stacks, work.at[i]);
        if (!function || !function->is_defined || function->seen_by == name)
            continue;
        function->seen_by = name;
        find_need(stacks, function);
        result.bytes = function->need > result.bytes ? function->need : result.bytes;
        result.reason = result.reason ? result.reason : function->reason;
        for (const struct call *call = function->calls; call; call = call->next)
            cc_words_add(&work, call->name);
        for (const struct call *call = function->continuations; call; call = call->next)
            cc_words_add(&work, call->name);
    }
    return result;
}

/* ---- Writing ---- */

int cc_stacks_write(struct stacks *stacks, const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return fail(path, strerror(errno));
    fputs("extern const unsigned gs_cc_stack_needs[], gs_cc_handler_need;\n"
          "const unsigned gs_cc_stack_needs[] = {",
          file);
    for (size_t i = 0; i < stacks->callers.count; i++) {
        struct need need = need_of_stack(stacks, stacks->callers.at[i]);
        fprintf(file, "%u, ", need.reason || need.bytes > UINT32_MAX ? 0 : (unsigned)need.bytes);
    }
    struct need handlers = need_of_handlers(stacks);
    fprintf(file, "0};\nconst unsigned gs_cc_handler_need = %llu;\n",
            (unsigned long long)(handlers.reason ? 0 : handlers.bytes));
    return fclose(file) ? fail(path, strerror(errno)) : 0;
}

static void write_sentence(FILE *file, struct need need)
{
    if (need.reason)
        fprintf(file, "an unknown number of bytes (%s)", need.reason);
    else
        fprintf(file, "at most %llu bytes", (unsigned long long)need.bytes);
}

/* A marker, "KIND:NAME". */
static void replace(struct stacks *stacks, const char *kind, const char *name, FILE *file)
{
    bool is_worker = !strncmp(kind, "worker", 6);
    struct need need = is_worker ? need_of_worker(stacks, name) : need_of_stack(stacks, name);
    if (!strchr(kind, '-'))
        write_sentence(file, need);
    else if (strstr(kind, "-reason"))
        fputs(need.reason ? need.reason : "", file);
    else if (need.reason)
        fputs("null", file);
    else
        fprintf(file, "%llu", (unsigned long long)need.bytes);
}

/* Markers are on one line. In JSON they are strings, and one for a number loses its quotes. */
static void complete_line(struct stacks *stacks, char *line, FILE *file)
{
    for (char *marker; (marker = strstr(line, "@{"));) {
        char *end = strchr(marker, '}'), *colon = strchr(marker, ':');
        if (!end || !colon || colon > end)
            break;
        *end = *colon = 0;
        bool is_quoted = marker > line && marker[-1] == '"' && strstr(marker, "-bytes");
        fprintf(file, "%.*s", (int)(marker - line - is_quoted), line);
        replace(stacks, marker + 2, colon + 1, file);
        line = end + 1 + is_quoted;
    }
    fputs(line, file);
}

int cc_stacks_complete(struct stacks *stacks, const char *report, const char *path)
{
    FILE *in = fopen(report, "r"), *out = fopen(path, "w");
    char *line = NULL;
    size_t room = 0;
    int status = in && out ? 0 : fail(out ? report : path, strerror(errno));
    while (!status && getline(&line, &room, in) > 0)
        complete_line(stacks, line, out);
    free(line);
    if (in)
        fclose(in);
    if (out && fclose(out) && !status)
        status = fail(path, strerror(errno));
    return status;
}
