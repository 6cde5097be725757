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

static bool has_control(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return true;
    return false;
}

const char *serve_check_path(const char *text)
{
    if (*text != '/')
        return "it is no path: begin it with /";
    if (has_control(text))
        return "it contains a control character: leave it out";
    return strpbrk(text, "?#") ? "it contains ? or #: write the path alone" : NULL;
}

const char *serve_check_location(const char *text)
{
    bool is_url = !strncasecmp(text, "http://", 7) || !strncasecmp(text, "https://", 8);
    if (*text != '/' && !is_url)
        return "it is neither a path nor a URL: begin it with /, http:// or https://";
    if (has_control(text) || strchr(text, ' '))
        return "it contains a space or a control character: write %20 for a space";
    return NULL;
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
    bool is_status = (text[0] == '4' || text[0] == '5') && text[1] >= '0' && text[1] <= '9' &&
                     text[2] >= '0' && text[2] <= '9' && !text[3];
    return is_status ? NULL : "it is no status of an error: write one from 400 to 599";
}
