#include "serve/config/checks.h"

#include "http/service.h"
#include "http/site.h"
#include "http/token.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The longest name of DNS, without a dot at the end. */
enum { HOST_NAME_MAX_LENGTH = 253, LABEL_MAX_LENGTH = 63 };

static const char letters_and_digits[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

const char *serve_check_not_empty(const char *text)
{
    return *text ? NULL : "it is empty: write a value";
}

/* Returns whether this is a list of labels, with dots between them. */
static bool is_host_name(const char *text)
{
    if (strlen(text) > HOST_NAME_MAX_LENGTH)
        return false;
    for (;;) {
        size_t n = strcspn(text, ".");
        if (!n || n > LABEL_MAX_LENGTH || text[0] == '-' || text[n - 1] == '-')
            return false;
        for (size_t i = 0; i < n; i++)
            if (text[i] != '-' && text[i] != '_' && !strchr(letters_and_digits, text[i]))
                return false;
        if (!text[n])
            return true;
        text += n + 1;
    }
}

const char *serve_check_host_name(const char *text)
{
    const char *name = strncmp(text, "*.", 2) ? text : text + 2;
    if (strstr(text, "://") || strchr(text, '/'))
        return "it is a URL: write the name of the host alone, such as example.org";
    if (strchr(text, ':'))
        return "it has a port: leave it out, since `listen` says the ports";
    if (strchr(name, '*'))
        return "a * may only stand for the first part of a name, such as *.example.org";
    return is_host_name(name) ? NULL
                              : "it is no host name: write one such as example.org, in ASCII "
                                "(xn--... for others)";
}

const char *serve_check_page(const char *text)
{
    if (*text != '/')
        return "is no path below the root: begin it with /";
    return gs_http_site_page_problem(text + 1);
}

/* As the line of a field: what is wrong with it. */
static const char *check_field(const char *name, const char *value)
{
    char line[GS_HTTP_FIELDS_MAX + 1];
    int n = snprintf(line, sizeof line, "%s: %s\r\n", name, value);
    return n < (int)sizeof line ? gs_http_site_fields_problem(line) : "is longer than 8192 bytes";
}

const char *serve_check_field_name(const char *text)
{
    if (!gs_http_is_token((struct gs_http_text){text, strlen(text)}))
        return "is no name of a field: write letters, digits and -";
    return check_field(text, "");
}

const char *serve_check_field_value(const char *text)
{
    return strpbrk(text, "\r\n") ? "has a control character" : check_field("Name", text);
}

const char *serve_check_error_status(const char *text)
{
    static const char statuses[] = "403|404|405|500|501|503";
    bool is_status = strlen(text) == 3 && !strchr(text, '|') && strstr(statuses, text);
    return is_status ? NULL : "is no status that has a page: write 403, 404, 405, 500, 501 or 503";
}
