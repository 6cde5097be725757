#include "http/listing.h"

#include "http/date.h"
#include "http/token.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- Entries ---- */

int gs_http_listing_add(struct gs_http_listing *listing, const struct gs_http_listing_entry *entry)
{
    if (listing->count == GS_HTTP_LISTING_ENTRIES_MAX)
        return -E2BIG;
    if (listing->count == listing->room) {
        size_t room = listing->room ? 2 * listing->room : 64;
        struct gs_http_listing_entry *entries =
            realloc(listing->entries, room * sizeof *listing->entries);
        if (!entries)
            return -ENOMEM;
        listing->entries = entries;
        listing->room = room;
    }
    char *name = strdup(entry->name);
    if (!name)
        return -ENOMEM;
    listing->entries[listing->count] = *entry;
    listing->entries[listing->count++].name = name;
    return 0;
}

void gs_http_listing_done(struct gs_http_listing *listing)
{
    for (size_t i = 0; i < listing->count; i++)
        free(listing->entries[i].name);
    free(listing->entries);
    *listing = (struct gs_http_listing){0};
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* Compare the numbers at the beginning of both texts, and skip them. */
static int compare_numbers(const char **a, const char **b)
{
    while (**a == '0')
        ++*a;
    while (**b == '0')
        ++*b;
    size_t a_n = 0, b_n = 0;
    while (gs_http_is((*a)[a_n], GS_HTTP_DIGIT))
        a_n++;
    while (gs_http_is((*b)[b_n], GS_HTTP_DIGIT))
        b_n++;
    int order = a_n != b_n ? (a_n < b_n ? -1 : 1) : memcmp(*a, *b, a_n);
    *a += a_n;
    *b += b_n;
    return order;
}

static int compare_names(const char *a, const char *b)
{
    const char *whole_a = a, *whole_b = b;
    while (*a && *b) {
        int order = 0;
        if (gs_http_is(*a, GS_HTTP_DIGIT) && gs_http_is(*b, GS_HTTP_DIGIT))
            order = compare_numbers(&a, &b);
        else
            order = (unsigned char)lower(*a++) - (unsigned char)lower(*b++);
        if (order)
            return order;
    }
    return *a ? 1 : *b ? -1 : strcmp(whole_a, whole_b);
}

static int compare(const void *a, const void *b)
{
    const struct gs_http_listing_entry *first = a, *second = b;
    if (first->is_directory != second->is_directory)
        return first->is_directory ? -1 : 1;
    return compare_names(first->name, second->name);
}

void gs_http_listing_sort(struct gs_http_listing *listing)
{
    if (listing->count)
        qsort(listing->entries, listing->count, sizeof *listing->entries, compare);
}

/* ---- Pages are written twice: to measure them, then to memory of that size ---- */

struct page {
    char *out; /* NULL: it is measured */
    size_t n;
};

static void put_bytes(struct page *page, const char *bytes, size_t n)
{
    if (page->out)
        memcpy(page->out + page->n, bytes, n);
    page->n += n;
}

static void put(struct page *page, const char *text)
{
    put_bytes(page, text, strlen(text));
}

static void put_decimal(struct page *page, uint64_t value)
{
    char digits[GS_HTTP_DECIMAL_MAX];
    put_bytes(page, digits, gs_http_put_decimal(digits, value));
}

static void put_hex(struct page *page, unsigned char byte)
{
    static const char digits[] = "0123456789ABCDEF";
    const char text[] = {digits[byte >> 4], digits[byte & 15]};
    put_bytes(page, text, sizeof text);
}

/* Put a name, where `special` tells how a character is written; NULL: as it is. What is not UTF-8
 * is replaced. */
static void put_text(struct page *page, const char *text, const char *(*special)(char c))
{
    struct gs_http_text rest = {text, strlen(text)};
    while (rest.n) {
        size_t n = (unsigned char)*rest.bytes < 0x80 ? 1 : gs_http_utf8_length(rest);
        const char *instead = n == 1 ? special(*rest.bytes) : n ? NULL : "\xef\xbf\xbd";
        if (instead)
            put(page, instead);
        else
            put_bytes(page, rest.bytes, n);
        rest.bytes += n + !n;
        rest.n -= n + !n;
    }
}

static const char *special_in_html(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

static const char *special_in_json(char c)
{
    return c == '"' ? "\\\"" : c == '\\' ? "\\\\" : NULL;
}

/* A segment of a URL. "./" keeps a colon from ending a scheme. */
static void put_link(struct page *page, const char *name)
{
    static const char unreserved[] = "-._~!$*+,;=:@()/";
    if (strchr(name, ':'))
        put(page, "./");
    for (; *name; name++) {
        bool is_plain =
            (*name >= '0' && *name <= '9') || (lower(*name) >= 'a' && lower(*name) <= 'z');
        if (is_plain || strchr(unreserved, *name)) {
            put_bytes(page, name, 1);
        } else {
            put(page, "%");
            put_hex(page, (unsigned char)*name);
        }
    }
}

/* ---- HTML ---- */

static const char html_start[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n<title>";

static const char html_style[] =
    "</title>\n<style>\n"
    ":root{--text:#1d2329;--soft:#606a75;--line:#e3e6ea;--back:#fff;--hover:#f3f6fa;--link:#0b5cad}"
    "\n"
    "@media(prefers-color-scheme:dark){:root{--text:#e4e7eb;--soft:#98a2ad;--line:#2c333a;"
    "--back:#14181c;--hover:#1d2329;--link:#7cb8f2}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--back);color:var(--text);"
    "font:16px/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,sans-serif}\n"
    "main{max-width:60rem;margin:0 auto;padding:2rem 1.25rem 3rem}\n"
    "h1{font-size:1.3rem;font-weight:600;margin:0 0 1.25rem;overflow-wrap:anywhere}\n"
    "a{color:var(--link);text-decoration:none}\na:hover{text-decoration:underline}\n"
    "a:focus-visible{outline:2px solid var(--link);outline-offset:2px}\n"
    "h1 a+a::before{content:\"/\";color:var(--soft);padding:0 .35em;display:inline-block}\n"
    "table{width:100%;border-collapse:collapse}\n"
    "th{font-size:.8rem;font-weight:500;color:var(--soft);text-align:left}\n"
    "th,td{padding:.4rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}\n"
    "td:first-child{overflow-wrap:anywhere}\n"
    ".d a{font-weight:600}\n"
    "tbody tr:hover{background:var(--hover)}\n"
    ".s,.t{white-space:nowrap;font-variant-numeric:tabular-nums;color:var(--soft);width:1%}\n"
    ".s{text-align:right}\n"
    "p{color:var(--soft);font-size:.85rem}\n"
    "@media(max-width:34rem){main{padding:1.25rem .75rem 2rem}th,td{padding:.55rem .4rem}"
    ".t{display:none}}\n"
    "</style>\n</head>\n<body>\n<main>\n<h1>";

static size_t depth_of(const char *path)
{
    size_t depth = 0;
    for (; *path; path++)
        depth += *path == '/';
    return depth;
}

static void put_crumb(struct page *page, size_t levels_up, const char *name)
{
    put(page, "<a href=\"");
    put(page, levels_up ? "" : "./");
    for (; levels_up; levels_up--)
        put(page, "../");
    put(page, "\">");
    put_text(page, name, special_in_html);
    put(page, "</a>");
}

/* Links to the directory and its parents. The path is empty, or ends with a slash. */
static void put_crumbs(struct page *page, const char *path)
{
    char name[NAME_MAX + 1];
    size_t depth = depth_of(path);
    put_crumb(page, depth, "Home");
    while (*path) {
        size_t n = strcspn(path, "/"), shown = n < sizeof name ? n : sizeof name - 1;
        memcpy(name, path, shown);
        name[shown] = '\0';
        put_crumb(page, --depth, name);
        path += n + 1;
    }
}

/* "1.2 MB": decimal multiples, as file managers have them. */
static void put_size(struct page *page, uint64_t size)
{
    static const char *const units[] = {" B", " kB", " MB", " GB", " TB", " PB", " EB"};
    unsigned unit = 0;
    uint64_t tenths = 0;
    if (size < 1000) {
        put_decimal(page, size);
        put(page, units[0]);
        return;
    }
    for (; size >= 1000; size /= 1000, unit++)
        tenths = size % 1000 / 100;
    put_decimal(page, size);
    if (size < 100) {
        put(page, ".");
        put_decimal(page, tenths);
    }
    put(page, units[unit]);
}

/* "2026-11-28 17:41"; the whole time, in UTC, is in the attribute. */
static void put_time(struct page *page, int64_t seconds)
{
    char time[GS_HTTP_DATE_ISO_LENGTH];
    gs_http_date_format_iso(seconds, time);
    put(page, "<time datetime=\"");
    put_bytes(page, time, sizeof time);
    put(page, "\">");
    put_bytes(page, time, 10);
    put(page, " ");
    put_bytes(page, time + 11, 5);
    put(page, "</time>");
}

static void put_row(struct page *page, const struct gs_http_listing_entry *entry)
{
    const char *slash = entry->is_directory ? "/" : "";
    put(page, entry->is_directory ? "<tr class=\"d\"><td><a href=\"" : "<tr><td><a href=\"");
    put_link(page, entry->name);
    put(page, slash);
    put(page, "\">");
    put_text(page, entry->name, special_in_html);
    put(page, slash);
    put(page, "</a></td><td class=\"s\">");
    if (!entry->is_directory)
        put_size(page, entry->size);
    put(page, "</td><td class=\"t\">");
    put_time(page, entry->modified);
    put(page, "</td></tr>\n");
}

static void put_count(struct page *page, uint64_t count, const char *one, const char *many)
{
    put_decimal(page, count);
    put(page, count == 1 ? one : many);
}

static void put_summary(struct page *page, const struct gs_http_listing *listing)
{
    uint64_t directories = 0, bytes = 0;
    for (size_t i = 0; i < listing->count; i++) {
        directories += listing->entries[i].is_directory;
        bytes += listing->entries[i].is_directory ? 0 : listing->entries[i].size;
    }
    put(page, "<p>");
    put_count(page, directories, " directory, ", " directories, ");
    put_count(page, listing->count - directories, " file", " files");
    put(page, listing->count > directories ? ", " : "");
    if (listing->count > directories)
        put_size(page, bytes);
    put(page, "</p>\n");
}

static void put_html(struct page *page, const struct gs_http_listing *listing, const char *path)
{
    put(page, html_start);
    put(page, "/");
    put_text(page, path, special_in_html);
    put(page, html_style);
    put_crumbs(page, path);
    put(page, "</h1>\n<table>\n<thead><tr><th>Name</th><th class=\"s\">Size</th>"
              "<th class=\"t\">Modified (UTC)</th></tr></thead>\n<tbody>\n");
    if (*path)
        put(page, "<tr class=\"d\"><td><a href=\"../\">../</a></td><td class=\"s\"></td>"
                  "<td class=\"t\"></td></tr>\n");
    for (size_t i = 0; i < listing->count; i++)
        put_row(page, &listing->entries[i]);
    put(page, "</tbody>\n</table>\n");
    put_summary(page, listing);
    put(page, "</main>\n</body>\n</html>\n");
}

/* ---- JSON ---- */

static void put_json(struct page *page, const struct gs_http_listing *listing)
{
    for (size_t i = 0; i < listing->count; i++) {
        const struct gs_http_listing_entry *entry = &listing->entries[i];
        char time[GS_HTTP_DATE_ISO_LENGTH];
        gs_http_date_format_iso(entry->modified, time);
        put(page, i ? ",\n{\"name\":\"" : "[\n{\"name\":\"");
        put_text(page, entry->name, special_in_json);
        put(page, entry->is_directory ? "\",\"type\":\"directory\",\"mtime\":\""
                                      : "\",\"type\":\"file\",\"mtime\":\"");
        put_bytes(page, time, sizeof time);
        put(page, "\"");
        if (!entry->is_directory) {
            put(page, ",\"size\":");
            put_decimal(page, entry->size);
        }
        put(page, "}");
    }
    put(page, listing->count ? "\n]\n" : "[]\n");
}

size_t gs_http_listing_write(const struct gs_http_listing *listing, const char *path,
                             enum gs_http_listing_format format, char *out)
{
    struct page page = {.out = out};
    if (format == GS_HTTP_LISTING_JSON)
        put_json(&page, listing);
    else
        put_html(&page, listing, path);
    return page.n;
}
