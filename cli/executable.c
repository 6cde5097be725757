#include "cli/executable.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define INTERPRETERS_MAX 4
#define HEADERS_MAX 64
#define NOTES_MAX 4096
#define NOTE_GO_BUILD_ID 4

static int check(const char *path)
{
    struct stat stat_buffer;
    if (stat(path, &stat_buffer))
        return -errno;
    return S_ISREG(stat_buffer.st_mode) && !access(path, X_OK) ? 0 : -EACCES;
}

int cli_executable_find(const char *name, char *ret_path, size_t n)
{
    const char *directories = getenv("PATH");
    int result = -ENOENT;
    if (strchr(name, '/')) {
        if ((size_t)snprintf(ret_path, n, "%s", name) >= n)
            return -ENAMETOOLONG;
        return check(name);
    }
    if (!directories)
        directories = "/usr/local/bin:/usr/bin:/bin";
    while (*name) {
        size_t length = strcspn(directories, ":");
        int written =
            snprintf(ret_path, n, "%.*s%s%s", (int)length, directories, length ? "/" : "", name);
        int err = (size_t)written < n ? check(ret_path) : -ENAMETOOLONG;
        if (!err)
            return 0;
        if (err == -EACCES)
            result = err;
        directories += length;
        if (!*directories)
            break;
        directories++;
    }
    return result;
}

/* ---- What it is ---- */

static bool read_at(int fd, void *buffer, size_t n, off_t offset)
{
    return pread(fd, buffer, n, offset) == (ssize_t)n;
}

/* Go's tools write a note, with their build ID. */
static bool has_go_note(int fd, const Elf64_Phdr *header)
{
    char notes[NOTES_MAX];
    size_t n = header->p_filesz < sizeof notes ? header->p_filesz : sizeof notes;
    if (!read_at(fd, notes, n, (off_t)header->p_offset))
        return false;
    for (size_t at = 0; at + sizeof(Elf64_Nhdr) + 4 <= n;) {
        Elf64_Nhdr note;
        memcpy(&note, notes + at, sizeof note);
        if (note.n_type == NOTE_GO_BUILD_ID && note.n_namesz == 4 &&
            !memcmp(notes + at + sizeof note, "Go\0", 4))
            return true;
        size_t name = ((size_t)note.n_namesz + 3) & ~(size_t)3;
        size_t contents = ((size_t)note.n_descsz + 3) & ~(size_t)3;
        at += sizeof note + name + contents;
    }
    return false;
}

static const char *refusal_of_elf(int fd)
{
    Elf64_Ehdr elf;
    Elf64_Phdr headers[HEADERS_MAX];
    bool is_dynamic = false, is_go = false;
    if (!read_at(fd, &elf, sizeof elf, 0))
        return "it is no program";
    if (elf.e_ident[EI_CLASS] != ELFCLASS64)
        return "it is a 32-bit program";
    if (elf.e_machine != EM_X86_64)
        return "it is a program for another processor";
    size_t count = elf.e_phnum < HEADERS_MAX ? elf.e_phnum : HEADERS_MAX;
    if (elf.e_phentsize != sizeof *headers ||
        !read_at(fd, headers, count * sizeof *headers, (off_t)elf.e_phoff))
        return "it is no program";
    for (size_t i = 0; i < count; i++) {
        is_dynamic |= headers[i].p_type == PT_INTERP;
        is_go |= headers[i].p_type == PT_NOTE && has_go_note(fd, &headers[i]);
    }
    if (!is_dynamic)
        return "it is statically linked";
    return is_go ? "it is a Go program, whose runtime makes its threads itself" : NULL;
}

/* The path after "#!", or an empty text. */
static void interpreter_of(const char *line, char *ret_path, size_t n)
{
    line += strspn(line, " \t");
    snprintf(ret_path, n, "%.*s", (int)strcspn(line, " \t\n"), line);
}

static const char *refusal_of_file(int fd, const char *path, char *ret_interpreter)
{
    char start[PATH_MAX] = "";
    struct stat stat_buffer;
    if (fstat(fd, &stat_buffer) || pread(fd, start, sizeof start - 1, 0) < 2)
        return "it is no program";
    if (!memcmp(start, "#!", 2)) {
        interpreter_of(start + 2, ret_interpreter, PATH_MAX);
        return NULL;
    }
    if (stat_buffer.st_mode & (S_ISUID | S_ISGID))
        return "it is a set-user-ID or set-group-ID program";
    if (getxattr(path, "security.capability", NULL, 0) > 0)
        return "it has file capabilities";
    if (memcmp(start, ELFMAG, SELFMAG))
        return "it is no program";
    return refusal_of_elf(fd);
}

const char *cli_executable_refusal(const char *path)
{
    char current[PATH_MAX], next[PATH_MAX];
    snprintf(current, sizeof current, "%s", path);
    for (int level = 0; level < INTERPRETERS_MAX; level++) {
        next[0] = 0;
        int fd = open(current, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return "it cannot be read";
        const char *refusal = refusal_of_file(fd, current, next);
        close(fd);
        if (refusal || !next[0])
            return refusal;
        memcpy(current, next, sizeof current);
    }
    return "its interpreter is a script of a script";
}
