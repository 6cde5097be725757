/* The file is read each time: there is no copy that could be out of date, and a look-up costs
 * ten times as much. */
#include "base/hosts_file.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define BYTES_MAX (64 << 10)

const char *gs_hosts_file = "/etc/hosts";

/* Lines are "ADDRESS NAME...", and a comment begins with '#'. */
struct scan {
    const char *name;
    int family;
    bool is_found;

    /* Of the line so far. */
    bool is_comment, has_family;
    unsigned words;
    char word[256]; /* as far as it has been read */
    size_t length;
};

static bool is_of_family(const char *address, int family)
{
    return family == AF_UNSPEC || (family == AF_INET6) == (strchr(address, ':') != NULL);
}

static void end_word(struct scan *scan)
{
    if (!scan->length)
        return;
    scan->word[scan->length] = '\0';
    if (!scan->words)
        scan->has_family = is_of_family(scan->word, scan->family);
    else if (scan->has_family && !strcasecmp(scan->word, scan->name))
        scan->is_found = true;
    scan->words++;
    scan->length = 0;
}

static void add_byte(struct scan *scan, char byte)
{
    if (byte == '\n' || byte == '#' || byte == ' ' || byte == '\t' || byte == '\r')
        end_word(scan);
    else if (!scan->is_comment && scan->length < sizeof scan->word - 1)
        scan->word[scan->length++] = byte;
    if (byte == '#')
        scan->is_comment = true;
    if (byte == '\n') {
        scan->is_comment = false;
        scan->words = 0;
    }
}

/* Linux has RESOLVE_CACHED since 5.12. */
static int open_cached(void)
{
    const struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
                                 .resolve = RESOLVE_CACHED};
    int fd = gs_sys_openat2(AT_FDCWD, gs_hosts_file, &how);
    return fd == -EINVAL ? gs_sys_openat(AT_FDCWD, gs_hosts_file, (int)how.flags, 0) : fd;
}

/* Some file systems do not support RWF_NOWAIT. */
static ssize_t read_cached(int fd, void *bytes, size_t n, off_t offset)
{
    const struct iovec part = {bytes, n};
    ssize_t got = gs_sys_preadv2(fd, &part, 1, offset, RWF_NOWAIT);
    return got == -EOPNOTSUPP ? gs_sys_preadv2(fd, &part, 1, offset, 0) : got;
}

/* Returns whether the file was read to its end, or to the name. */
static bool scan_file(int fd, struct scan *scan)
{
    char bytes[4096];
    ssize_t n;
    for (off_t offset = 0; offset < BYTES_MAX; offset += n) {
        n = read_cached(fd, bytes, sizeof bytes, offset);
        for (ssize_t i = 0; i < n; i++)
            add_byte(scan, bytes[i]);
        if (n == 0)
            end_word(scan);
        if (n <= 0 || scan->is_found)
            return n >= 0;
    }
    return false;
}

enum hosts_entry gs_hosts_file_find(const char *name, int family)
{
    struct scan scan = {.name = name, .family = family};
    int fd = open_cached();
    if (fd < 0)
        return fd == -ENOENT ? HOSTS_ABSENT : HOSTS_UNREAD;
    bool is_certain = scan_file(fd, &scan);
    gs_sys_close(fd);
    if (scan.is_found)
        return HOSTS_PRESENT;
    return is_certain ? HOSTS_ABSENT : HOSTS_UNREAD;
}
