#include "compiler/driver/bitcode.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct contents {
    char *bytes;
    size_t size;
};

static struct contents map(const char *path)
{
    struct contents contents = {NULL, 0};
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && !fstat(fd, &status) && status.st_size > 0) {
        void *at = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (at != MAP_FAILED)
            contents = (struct contents){at, (size_t)status.st_size};
    }
    if (fd >= 0)
        close(fd);
    return contents;
}

static void unmap(struct contents contents)
{
    if (contents.bytes)
        munmap(contents.bytes, contents.size);
}

static bool has(struct contents contents, const char *text)
{
    return contents.bytes && memmem(contents.bytes, contents.size, text, strlen(text) + 1);
}

static bool begins(struct contents contents, const char *text)
{
    return contents.size >= strlen(text) && !memcmp(contents.bytes, text, strlen(text));
}

/* The names of sections and symbols are in the file as strings. */
static bool has_bitcode(struct contents contents)
{
    return has(contents, ".llvm.lto") || has(contents, ".llvmbc");
}

static bool is_object(struct contents contents)
{
    enum { TYPE = 16, RELOCATABLE = 1 };
    return begins(contents, "\177ELF") && contents.size > TYPE &&
           contents.bytes[TYPE] == RELOCATABLE;
}

bool cc_is_bitcode_object(const char *path)
{
    struct contents contents = map(path);
    bool result = begins(contents, "\177ELF") && has_bitcode(contents);
    unmap(contents);
    return result;
}

bool cc_is_machine_code(const char *path)
{
    struct contents contents = map(path);
    bool is_archive = begins(contents, "!<arch>\n");
    bool result = (is_archive || is_object(contents)) && !has_bitcode(contents);
    unmap(contents);
    return result;
}

/* A file that the linker looked at twice is in the trace twice. */
static void add_once(struct words *words, const char *word)
{
    for (size_t i = 0; i < words->count; i++)
        if (!strcmp(words->at[i], word))
            return;
    cc_words_add(words, word);
}

/* The constructor of std::thread is in C++'s library. */
static const char cpp_start[] =
    "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_"
    "deleteIS1_EEPFvvE";

static bool starts_threads(struct contents contents)
{
    return has(contents, "pthread_create") || has(contents, "thrd_create");
}

bool cc_starts_threads(const char *path)
{
    struct contents contents = map(path);
    bool result = starts_threads(contents);
    unmap(contents);
    return result;
}

/* Of archives, the members that take part are not known here; those of the system are left out. */
static void note_threads(struct linked *linked, struct contents contents, const char *path)
{
    bool starts = starts_threads(contents);
    bool is_relocatable = is_object(contents);
    if (has_bitcode(contents))
        linked->starts_threads |= starts;
    else if (is_relocatable && starts)
        add_once(&linked->natives, cc_text("%s", path));
    if (is_relocatable && has(contents, cpp_start))
        add_once(&linked->natives, cc_text("%s (std::thread)", path));
}

/* Their sections may have the names of the variables behind these. */
static bool may_have_locals(struct contents contents)
{
    static const char *const sections[] = {".tdata", ".tbss"};
    bool is_linked = contents.bytes && (is_object(contents) || begins(contents, "!<arch>\n"));
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (is_linked && memmem(contents.bytes, contents.size, sections[i], strlen(sections[i])))
            return true;
    return false;
}

/* A line is a file, or "(ARCHIVE)MEMBER". */
static void add_line(struct linked *linked, const char *line)
{
    const char *end = line[0] == '(' ? strchr(line, ')') : NULL;
    if (end) {
        add_once(&linked->members, cc_text("%.*s\t%s", (int)(end - line - 1), line + 1, end + 1));
        return;
    }
    /* LLVM's linker writes "ARCHIVE(MEMBER)". */
    const char *open = strrchr(line, '('), *close = open ? strchr(open, ')') : NULL;
    if (close && !close[1] && access(line, F_OK)) {
        char *archive = cc_text("%.*s", (int)(open - line), line);
        add_once(&linked->members, cc_text("%s\t%.*s", archive, (int)(close - open - 1), open + 1));
        add_line(linked, archive);
        return;
    }
    struct contents contents = map(line);
    bool is_archive = begins(contents, "!<arch>\n") || begins(contents, "!<thin>\n");
    if (is_archive || begins(contents, "\177ELF"))
        add_once(&linked->files, cc_text("%s", line));
    note_threads(linked, contents, line);
    linked->has_locals |= !has_bitcode(contents) && may_have_locals(contents);
    unmap(contents);
}

int cc_linked_read(const char *trace, struct linked *ret_linked)
{
    struct linked linked = {0};
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    FILE *file = fopen(trace, "r");
    if (!file)
        return -errno;
    while ((n = getline(&line, &room, file)) > 0) {
        line[n - (line[n - 1] == '\n')] = 0;
        add_line(&linked, line);
    }
    free(line);
    fclose(file);
    *ret_linked = linked;
    return 0;
}
