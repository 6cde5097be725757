#include "http/site.h"

#include "http/hash.h"
#include "http/host.h"
#include "http/pattern.h"
#include "http/request.h"
#include "http/rules.h"

#include <errno.h>
#include <gossamer/http.h>
#include <stdlib.h>

#define HOST_MAX 255 /* RFC 1035, 2.3.4 */

struct gs_http_site_name {
    const char *bytes; /* NULL: the slot is empty */
    uint32_t n, hash;
    const struct gs_http_site *site;
};

static uint32_t hash_host(struct gs_http_text host)
{
    return gs_http_hash(host, 0, GS_HTTP_HASH_NOCASE);
}

/* A name may end with the root's dot, which is not written usually. */
static struct gs_http_text remove_root(struct gs_http_text host)
{
    if (host.n > 1 && host.bytes[host.n - 1] == '.')
        host.n--;
    return host;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static uint64_t difference(const char *a, const char *b)
{
    uint64_t first, second;
    memcpy(&first, a, sizeof first);
    memcpy(&second, b, sizeof second);
    return first ^ second;
}

/* For a few words, a call of memcmp costs more. */
static bool has_same_bytes(const char *a, const char *b, size_t n)
{
    uint64_t different = 0;
    if (n < 8)
        return !memcmp(a, b, n);
    for (size_t i = 0; i + 8 < n; i += 8)
        different |= difference(a + i, b + i);
    return !(different | difference(a + n - 8, b + n - 8));
}

/* name: in lower case, as most clients send theirs. */
static bool is_name(const struct gs_http_site_name *name, struct gs_http_text host)
{
    if (name->n != host.n)
        return false;
    if (has_same_bytes(name->bytes, host.bytes, host.n))
        return true;
    for (size_t i = 0; i < host.n; i++)
        if (lower(host.bytes[i]) != name->bytes[i])
            return false;
    return true;
}

/* Returns the slot of the host, or the empty one that would be its own. */
static struct gs_http_site_name *find_slot(const struct gs_http_sites *sites,
                                           struct gs_http_text host, uint32_t hash)
{
    uint32_t at = hash & sites->mask;
    struct gs_http_site_name *slot = &sites->slots[at];
    while (slot->bytes && (slot->hash != hash || !is_name(slot, host))) {
        at = (at + 1) & sites->mask;
        slot = &sites->slots[at];
    }
    return slot;
}

/* ---- Names ---- */

/* What stands for the name in the table: of "*.example.org", it is ".example.org". */
static struct gs_http_text key_of(const char *host)
{
    struct gs_http_text text = {host, strlen(host)};
    if (text.n > 2 && host[0] == '*' && host[1] == '.') {
        text.bytes++;
        text.n--;
    }
    return remove_root(text);
}

const char *gs_http_site_host_problem(const char *host)
{
    struct gs_http_text key = key_of(host);
    struct gs_http_text name =
        key.bytes > host ? (struct gs_http_text){key.bytes + 1, key.n - 1} : key;
    if (name.n > HOST_MAX)
        return "is longer than 255 bytes";
    if (!gs_http_host_is_valid(name) || memchr(name.bytes, '*', name.n))
        return "is no host: write \"example.org\", or \"*.example.org\" for all hosts below it";
    if (gs_http_host_name(name).n != name.n)
        return "has a port, which does not distinguish sites";
    return name.bytes[0] == '.' ? "begins with a dot" : NULL;
}

static int add_name(struct gs_http_sites *sites, const char *host, const struct gs_http_site *site,
                    char **at)
{
    if (gs_http_site_host_problem(host))
        return -EINVAL;
    struct gs_http_text key = key_of(host);
    uint32_t hash = hash_host(key);
    struct gs_http_site_name *slot = find_slot(sites, key, hash);
    if (slot->bytes)
        return slot->site == site ? 0 : -EEXIST;
    for (size_t i = 0; i < key.n; i++)
        (*at)[i] = lower(key.bytes[i]);
    *slot = (struct gs_http_site_name){*at, (uint32_t)key.n, hash, site};
    *at += key.n;
    sites->has_suffixes |= key.bytes > host;
    return 0;
}

/* ---- The table ---- */

static int choose_default(struct gs_http_sites *sites)
{
    for (unsigned i = 0; i < sites->count; i++) {
        if (!sites->all[i].is_default)
            continue;
        if (sites->fallback)
            return -EEXIST;
        sites->fallback = &sites->all[i];
    }
    if (!sites->fallback)
        sites->fallback = sites->all;
    return 0;
}

static int allocate(struct gs_http_sites *sites)
{
    size_t names = 0, bytes = 1, slots = 2;
    for (unsigned i = 0; i < sites->count; i++)
        for (unsigned j = 0; j < sites->all[i].host_count; j++, names++)
            bytes += strlen(sites->all[i].hosts[j]);
    while (slots < 2 * names)
        slots *= 2;
    sites->slots = calloc(slots, sizeof *sites->slots);
    sites->names = malloc(bytes);
    sites->mask = (uint32_t)(slots - 1);
    return sites->slots && sites->names ? 0 : -ENOMEM;
}

static int add_names(struct gs_http_sites *sites)
{
    char *at = sites->names;
    for (unsigned i = 0; i < sites->count; i++) {
        const struct gs_http_site *site = &sites->all[i];
        for (unsigned j = 0; j < site->host_count; j++) {
            int err = add_name(sites, site->hosts[j], site, &at);
            if (err)
                return err;
        }
    }
    return 0;
}

int gs_http_sites_init(struct gs_http_sites *sites, const struct gs_http_site *all, unsigned count)
{
    *sites = (struct gs_http_sites){.all = all, .count = count};
    int err = choose_default(sites);
    if (!err)
        err = allocate(sites);
    if (!err)
        err = add_names(sites);
    if (err)
        gs_http_sites_done(sites);
    return err;
}

void gs_http_sites_done(struct gs_http_sites *sites)
{
    free(sites->slots);
    free(sites->names);
    *sites = (struct gs_http_sites){0};
}

/* Of all hosts below a name, the longest name takes precedence. */
static const struct gs_http_site *find_suffix(const struct gs_http_sites *sites,
                                              struct gs_http_text host)
{
    for (size_t i = 1; i < host.n; i++) {
        struct gs_http_text suffix = {host.bytes + i, host.n - i};
        if (host.bytes[i] != '.')
            continue;
        const struct gs_http_site_name *slot = find_slot(sites, suffix, hash_host(suffix));
        if (slot->bytes)
            return slot->site;
    }
    return sites->fallback;
}

const struct gs_http_site *gs_http_sites_find(const struct gs_http_sites *sites,
                                              struct gs_http_text host)
{
    if (!host.n || sites->count == 1)
        return sites->fallback;
    host = remove_root(gs_http_host_name(host));
    if (!host.n || host.n > HOST_MAX || host.bytes[0] == '.')
        return sites->fallback;
    const struct gs_http_site_name *slot = find_slot(sites, host, hash_host(host));
    if (slot->bytes)
        return slot->site;
    return sites->has_suffixes ? find_suffix(sites, host) : sites->fallback;
}

/* ---- What is wrong with a site ---- */

const char *gs_http_site_page_problem(const char *path)
{
    const char *problem = gs_http_pattern_problem(path);
    if (problem)
        return problem;
    if (*path == '/' || path[strlen(path) - 1] == '/')
        return "begins or ends with a slash: write the path of a file below the root";
    return strchr(path, '*') ? "has an asterisk, but one file is meant" : NULL;
}

static const char *error_page_problem(const struct gs_http_error_page *page)
{
    static const unsigned known[] = {403, 404, 405, 500, 501, 503};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i] == page->status)
            return gs_http_site_page_problem(page->path);
    return "is not a status with a page: 403, 404, 405, 500, 501 or 503";
}

const char *gs_http_site_problem(const struct gs_http_site *site, const char *common)
{
    const char *problem = common ? gs_http_site_fields_problem(common) : NULL;
    if (!problem && site->fallback)
        problem = gs_http_site_page_problem(site->fallback);
    for (unsigned i = 0; !problem && i < site->error_page_count; i++)
        problem = error_page_problem(&site->error_pages[i]);
    for (unsigned i = 0; !problem && i < site->redirect_count; i++)
        problem = gs_http_site_redirect_problem(&site->redirects[i]);
    for (unsigned i = 0; !problem && i < site->rule_count; i++) {
        const struct gs_http_rule *rule = &site->rules[i];
        problem = gs_http_pattern_problem(rule->pattern);
        problem = problem ? problem : gs_http_site_fields_problem(rule->fields);
    }
    if (problem)
        return problem;
    struct gs_http_rules_size max = gs_http_rules_max(site, common);
    return max.bytes > GS_HTTP_FIELDS_MAX || max.lines > GS_HTTP_FIELD_LINES_MAX
               ? "may give a response more than 8192 bytes or 64 lines of fields"
               : NULL;
}
