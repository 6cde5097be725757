/* The files are read on the worker: they are small, and c-ares reads resolv.conf there, too. */
#include "dns/config.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_SIZE_MAX ((size_t)64 << 10)
#define BLANKS " \t\r"

/* As glibc has them. */
#define TIMEOUT_DEFAULT 5u
#define TIMEOUT_MAX 30u
#define ATTEMPTS_DEFAULT 2u
#define ATTEMPTS_MAX 5u

const char *gs_nsswitch_conf = "/etc/nsswitch.conf";
const char *gs_resolv_conf = "/etc/resolv.conf";

/* ---- nsswitch.conf ---- */

/* The minimal modules of mDNS answer only for .local, and say that nobody else need be asked. */
static bool is_minimal_mdns(const char *source)
{
    return !strcmp(source, "mdns4_minimal") || !strcmp(source, "mdns6_minimal") ||
           !strcmp(source, "mdns_minimal");
}

static void parse_sources(struct dns_config *config, char *text)
{
    bool has_dns = false, is_after_mdns = false;
    char *rest = NULL;
    for (const char *word = strtok_r(text, BLANKS, &rest); word;
         word = strtok_r(NULL, BLANKS, &rest)) {
        bool was_after_mdns = is_after_mdns;
        is_after_mdns = is_minimal_mdns(word);
        if (!strcmp(word, "dns"))
            has_dns = true;
        else if (!strcmp(word, "myhostname"))
            config->has_myhostname = true;
        else if (is_after_mdns)
            config->has_mdns = true;
        else if (strcmp(word, "files") != 0 &&
                 !(was_after_mdns && !strcasecmp(word, "[NOTFOUND=return]")))
            config->has_other_sources = true;
    }
    if (!has_dns)
        config->has_other_sources = true;
}

void gs_dns_parse_nsswitch(struct dns_config *config, char *text)
{
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        line[strcspn(line, "#")] = '\0';
        line += strspn(line, BLANKS);
        if (!strncmp(line, "hosts:", 6))
            parse_sources(config, line + 6);
    }
}

/* ---- resolv.conf ---- */

static unsigned number_of(const char *text, unsigned max)
{
    unsigned long number = strtoul(text, NULL, 10);
    return number < max ? (unsigned)number : max;
}

/* edns0 and trust-ad have no effect on addresses. */
static void parse_options(struct dns_config *config, char *text)
{
    char *rest = NULL;
    for (const char *word = strtok_r(text, BLANKS, &rest); word;
         word = strtok_r(NULL, BLANKS, &rest)) {
        if (!strncmp(word, "timeout:", 8))
            config->timeout_s = number_of(word + 8, TIMEOUT_MAX);
        else if (!strncmp(word, "attempts:", 9))
            config->attempts = number_of(word + 9, ATTEMPTS_MAX);
        else if (!strcmp(word, "rotate"))
            config->rotates = true;
        else if (strncmp(word, "ndots:", 6) != 0 && strcmp(word, "edns0") != 0 &&
                 strcmp(word, "trust-ad") != 0)
            config->has_other_options = true;
    }
}

/* c-ares 1.18 knows no zones of addresses, and sorts by "sortlist" in another way. */
static void parse_line(struct dns_config *config, char *line)
{
    line[strcspn(line, "#;")] = '\0';
    char *value = line + strcspn(line, BLANKS);
    size_t length = (size_t)(value - line);
    if (length == 7 && !memcmp(line, "options", 7))
        parse_options(config, value);
    else if ((length == 10 && !memcmp(line, "nameserver", 10) && strchr(value, '%')) ||
             (length == 8 && !memcmp(line, "sortlist", 8)))
        config->has_other_options = true;
}

void gs_dns_parse_resolv(struct dns_config *config, char *text)
{
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        parse_line(config, line);
}

/* ---- Reading ---- */

/* Read the file. The caller frees the text. Returns -errno; -EFBIG: it is too long. */
static int read_file(const char *path, char **ret_text)
{
    int fd = gs_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0)
        return fd;
    char *text = malloc(FILE_SIZE_MAX);
    size_t size = 0;
    ssize_t n = text ? 1 : -ENOMEM;
    while (n > 0 && size < FILE_SIZE_MAX - 1) {
        n = gs_sys_read(fd, text + size, FILE_SIZE_MAX - 1 - size);
        size += n > 0 ? (size_t)n : 0;
    }
    gs_sys_close(fd);
    if (n) {
        free(text);
        return n < 0 ? (int)n : -EFBIG;
    }
    text[size] = '\0';
    *ret_text = text;
    return 0;
}

/* A file that is missing leaves the defaults. Returns false if there is one that cannot be read. */
static bool parse_file(struct dns_config *config, const char *path,
                       void (*parse)(struct dns_config *config, char *text))
{
    char *text = NULL;
    int err = read_file(path, &text);
    if (err)
        return err == -ENOENT;
    parse(config, text);
    free(text);
    return true;
}

static void parse_environment(struct dns_config *config)
{
    const char *options = getenv("RES_OPTIONS");
    char *text = options ? strdup(options) : NULL;
    if (text)
        parse_options(config, text);
    else if (options)
        config->has_other_options = true;
    free(text);
}

static void read_all(struct dns_config *config)
{
    config->version++;
    config->has_other_sources = config->has_mdns = config->has_myhostname = false;
    config->has_other_options = config->rotates = false;
    config->timeout_s = TIMEOUT_DEFAULT;
    config->attempts = ATTEMPTS_DEFAULT;
    if (!parse_file(config, gs_nsswitch_conf, gs_dns_parse_nsswitch))
        config->has_other_sources = true;
    if (!parse_file(config, gs_resolv_conf, gs_dns_parse_resolv))
        config->has_other_options = true;
    parse_environment(config);
    config->timeout_s += !config->timeout_s;
    config->attempts += !config->attempts;
}

/* Returns whether the file has another stamp than at the last call. */
static bool has_changed(const char *path, struct file_stamp *stamp)
{
    struct stat file;
    struct file_stamp now = {0};
    if (!gs_sys_fstatat(AT_FDCWD, path, &file, 0))
        now = (struct file_stamp){file.st_dev, file.st_ino, (uint64_t)file.st_size,
                                  file.st_mtim.tv_sec, file.st_mtim.tv_nsec};
    bool is_same = !memcmp(&now, stamp, sizeof now);
    *stamp = now;
    return !is_same;
}

void gs_dns_config_refresh(struct dns_config *config, uint64_t now_ns)
{
    if (now_ns < config->next_check_ns)
        return;
    config->next_check_ns = now_ns + GS_SECOND;
    bool nsswitch_has_changed = has_changed(gs_nsswitch_conf, &config->nsswitch),
         resolv_has_changed = has_changed(gs_resolv_conf, &config->resolv);
    if (nsswitch_has_changed || resolv_has_changed || !config->version)
        read_all(config);
}

/* ---- Names ---- */

/* Whether the name is the domain, or below it. */
static bool is_in_domain(const char *name, const char *domain)
{
    size_t length = strlen(name), domain_length = strlen(domain);
    length -= length && name[length - 1] == '.';
    return length >= domain_length &&
           !strncasecmp(name + length - domain_length, domain, domain_length) &&
           (length == domain_length || name[length - domain_length - 1] == '.');
}

/* What systemd's module myhostname answers for. */
static bool is_of_this_machine(const char *name)
{
    char own[256];
    if (gethostname(own, sizeof own))
        return true;
    own[sizeof own - 1] = '\0';
    return is_in_domain(name, own) || is_in_domain(name, "_gateway") ||
           is_in_domain(name, "_outbound");
}

/* c-ares answers localhost by itself, or fails, by version. */
static bool is_special(const struct dns_config *config, const char *name)
{
    return !*name || is_in_domain(name, "localhost") ||
           is_in_domain(name, "localhost.localdomain") ||
           (config->has_mdns && is_in_domain(name, "local")) ||
           (config->has_myhostname && is_of_this_machine(name));
}

bool gs_dns_config_suits(const struct dns_config *config, const struct resolution *resolution)
{
    const int flags = AI_PASSIVE | AI_CANONNAME | AI_NUMERICSERV | AI_ADDRCONFIG | AI_V4MAPPED;
    const struct addrinfo *hints = &resolution->hints;
    bool has_known_hints = !(hints->ai_flags & ~flags) &&
                           (hints->ai_family == AF_UNSPEC || hints->ai_family == AF_INET ||
                            (hints->ai_family == AF_INET6 && !(hints->ai_flags & AI_V4MAPPED)));
    return has_known_hints && !config->has_other_sources && !config->has_other_options &&
           !is_special(config, resolution->node);
}
