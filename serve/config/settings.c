#include "serve/config/settings.h"

#include "http/pattern.h"
#include "http/site.h"
#include "serve/config/checks.h"

#include <stddef.h>
#include <string.h>

static const struct serve_setting header_rows[] = {
    {"path", .kind = CLI_TEXT, .offset = offsetof(struct serve_config_headers, path),
     .is_required = true, .check = gs_http_pattern_problem,
     .help = "pattern of the files' paths: * stands for a part of a name, ** for any number of "
             "names; a "
             "pattern without a slash is for the last name",
     .example = "\"/assets/**\""},
    {"set", .shape = SERVE_SETTING_MAP, .offset = offsetof(struct serve_config_headers, set),
     .is_required = true, .check_key = serve_check_field_name, .check = serve_check_field_value,
     .help = "header fields of the responses; of rules that fit, later ones replace the fields of "
             "earlier "
             "ones, and an empty value removes them",
     .example = "{Cache-Control: \"max-age=31536000, immutable\"}"},
};
static const struct serve_settings header_settings = {
    header_rows, sizeof header_rows / sizeof *header_rows, sizeof(struct serve_config_headers)};

static const struct serve_setting redirect_rows[] = {
    {"from", .kind = CLI_TEXT, .offset = offsetof(struct serve_config_redirect, from),
     .is_required = true, .check = gs_http_pattern_problem,
     .help = "pattern of the paths that are redirected", .example = "/old/**"},
    {"to", .kind = CLI_TEXT, .offset = offsetof(struct serve_config_redirect, to),
     .is_required = true, .check = serve_check_not_empty,
     .help = "path or URL to redirect to; $1 is what the first wildcard of the pattern stands for, "
             "up to "
             "$9, and $$ a dollar sign. The query is appended, unless this has one",
     .example = "/new/$1"},
    {"status", .kind = CLI_NUMBER, .offset = offsetof(struct serve_config_redirect, status),
     .initial = 301, .choices = "301|302|307|308", .help = "status of the response",
     .example = "301"},
};
static const char *check_redirect(const void *item)
{
    const struct serve_config_redirect *redirect = item;
    return gs_http_site_redirect_problem(&(struct gs_http_redirect){
        .pattern = redirect->from, .target = redirect->to, .status = (unsigned)redirect->status});
}

static const struct serve_settings redirect_settings = {
    redirect_rows, sizeof redirect_rows / sizeof *redirect_rows,
    sizeof(struct serve_config_redirect), check_redirect};

#define AT(member_) .offset = offsetof(struct serve_config_host, member_)
static const struct serve_setting host_rows[] = {
    {"names", .kind = CLI_LIST, AT(names), .check = serve_check_host_name,
     .help = "names of the host; *.example.org stands for all names that end so. The host without "
             "names, or else the first, answers requests for other names",
     .example = "[example.org, \"*.example.org\"]"},
    {"root", .kind = CLI_TEXT, AT(root), .is_required = true, .check = serve_check_not_empty,
     .file = SERVE_SETTING_DIRECTORY, .help = "directory to serve", .example = "/srv/www"},
    {"certificate", .kind = CLI_TEXT, AT(certificate), .check = serve_check_not_empty,
     .file = SERVE_SETTING_FILE,
     .help = "certificate chain for https://, PEM; clients choose among those of all hosts by name",
     .example = "/etc/ssl/fullchain.pem"},
    {"key", .kind = CLI_TEXT, AT(key), .check = serve_check_not_empty, .file = SERVE_SETTING_FILE,
     .help = "private key of the certificate (default: in its file)",
     .example = "/etc/ssl/privkey.pem"},
    {"ocsp", .kind = CLI_TEXT, AT(ocsp), .check = serve_check_not_empty, .file = SERVE_SETTING_FILE,
     .help = "response of OCSP for the certificate, DER, to be stapled",
     .example = "/etc/ssl/ocsp.der"},
    {"headers", .shape = SERVE_SETTING_ITEMS, AT(headers), .inner = &header_settings,
     .help = "header fields of responses, by the path of the file that is sent",
     .example = "[{path: \"*.html\", set: {Cache-Control: no-cache}}]"},
    {"redirects", .shape = SERVE_SETTING_ITEMS, AT(redirects), .inner = &redirect_settings,
     .help = "paths that are elsewhere now; the first one that fits counts, before any file",
     .example = "[{from: /old/**, to: /new/$1}]"},
    {"fallback", .kind = CLI_TEXT, AT(fallback), .check = serve_check_page,
     .help = "page for paths that do not exist, with status 200, as single-page applications need",
     .example = "/index.html"},
    {"clean_urls", .kind = CLI_FLAG, AT(clean_urls),
     .help = "serve /about from about.html, and redirect /about.html and /about/index.html to it",
     .example = "true"},
    {"error_pages", .shape = SERVE_SETTING_MAP, AT(error_pages),
     .check_key = serve_check_error_status, .check = serve_check_page,
     .help = "pages for the statuses 403, 404, 405, 500, 501 and 503, which the responses keep",
     .example = "{404: /404.html}"},
};
const struct serve_settings serve_host_settings = {host_rows, sizeof host_rows / sizeof *host_rows,
                                                   sizeof(struct serve_config_host)};

/* Options that are no settings: about the file itself, or settings of each host. */
static bool is_setting(const struct cli_option *option)
{
    static const char *const others[] = {"config", "check",       "print-config", "print-schema",
                                         "key",    "certificate", "ocsp",         "from-nginx"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(option->name, others[i]))
            return false;
    return true;
}

static struct serve_setting describe(const struct cli_option *option)
{
    struct serve_setting setting = {.kind = option->kind,
                                    .min = option->min,
                                    .max = option->max,
                                    .help = option->help,
                                    .example = option->example,
                                    .option = option};
    for (size_t i = 0; option->name[i] && i < sizeof setting.name - 1; i++)
        setting.name[i] = option->name[i] == '-' ? '_' : option->name[i];
    if (option->argument && strchr(option->argument, '|'))
        setting.choices = option->argument;
    return setting;
}

void serve_settings_of(const struct cli_command *command,
                       struct serve_setting ret_rows[SERVE_SETTINGS_MAX], size_t *ret_count)
{
    size_t count = 0;
    for (size_t i = 0; i < command->count; i++)
        if (is_setting(&command->options[i]))
            ret_rows[count++] = describe(&command->options[i]);
    ret_rows[count++] =
        (struct serve_setting){"hosts",
                               .shape = SERVE_SETTING_ITEMS,
                               .offset = offsetof(struct serve_config, hosts),
                               .is_required = true,
                               .inner = &serve_host_settings,
                               .help = "the sites; each has a directory and settings of its own",
                               .example = "[{root: /srv/www}]"};
    *ret_count = count;
}

bool serve_setting_may_be(const struct serve_setting *setting, uint64_t value)
{
    return value >= setting->min && value != UINT64_MAX && (!setting->max || value <= setting->max);
}

bool serve_setting_has_choice(const char *choices, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = choices; *at;) {
        size_t length = strcspn(at, "|");
        if (length == n && !memcmp(at, word, n))
            return true;
        at += length + (at[length] == '|');
    }
    return false;
}
