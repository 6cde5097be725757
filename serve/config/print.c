/* A configuration as YAML. */
#include "cli/value.h"
#include "serve/config/settings.h"

#include <inttypes.h>
#include <stdint.h>
#include <string.h>

struct printer {
    FILE *out;
    int indent;
    bool begins_item; /* the next setting is the first of an item of a list */
    bool is_brief;    /* what is not given is left out */
};

/* In quotes, so that no text means anything else to a reader of YAML. */
void serve_config_print_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < ' ' || c == 0x7f)
            fprintf(out, "\\x%02X", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

/* A setting without a value, as a comment. */
static void print_absent(struct printer *printer, const struct serve_setting *setting)
{
    if (printer->is_brief)
        return;
    fprintf(printer->out, "%*s# %s: %s\n", printer->indent, "", setting->name,
            setting->example ? setting->example : "");
}

static void print_name(struct printer *printer, const char *name)
{
    if (printer->begins_item)
        fprintf(printer->out, "%*s- %s:", printer->indent - 2, "", name);
    else
        fprintf(printer->out, "%*s%s:", printer->indent, "", name);
    printer->begins_item = false;
}

static void print_list(struct printer *printer, const char *const *items, size_t count)
{
    fputs(" [", printer->out);
    for (size_t i = 0; i < count; i++) {
        fputs(i ? ", " : "", printer->out);
        serve_config_print_text(printer->out, items[i]);
    }
    fputs("]\n", printer->out);
}

static void print_map(struct printer *printer, const struct serve_config_items *map)
{
    const struct serve_config_entry *entries = map->items;
    fputs(" {", printer->out);
    for (size_t i = 0; i < map->count; i++) {
        fputs(i ? ", " : "", printer->out);
        serve_config_print_text(printer->out, entries[i].name);
        fputs(": ", printer->out);
        serve_config_print_text(printer->out, entries[i].value);
    }
    fputs("}\n", printer->out);
}

static void print_rows(struct printer *printer, const struct serve_settings *settings,
                       const void *base);

static void print_items(struct printer *printer, const struct serve_setting *setting,
                        const struct serve_config_items *list)
{
    fputc('\n', printer->out);
    printer->indent += 4;
    for (size_t i = 0; i < list->count; i++) {
        printer->begins_item = true;
        print_rows(printer, setting->inner, (const char *)list->items + i * setting->inner->size);
    }
    printer->indent -= 4;
}

static void print_number(struct printer *printer, const struct serve_setting *setting,
                         uint64_t value)
{
    char text[CLI_VALUE_SIZE];
    if (!serve_setting_may_be(setting, value)) {
        print_absent(printer, setting);
        return;
    }
    cli_value_format(setting->kind, value, text);
    print_name(printer, setting->name);
    fprintf(printer->out, " %s\n", text);
}

static void print_texts(struct printer *printer, const struct serve_setting *setting,
                        const void *target)
{
    const struct cli_list *words = target;
    const struct serve_config_items *items = target;
    size_t count = setting->option ? words->count : items->count;
    if (!count) {
        print_absent(printer, setting);
        return;
    }
    print_name(printer, setting->name);
    print_list(printer, setting->option ? words->items : items->items, count);
}

static void print_value(struct printer *printer, const struct serve_setting *setting,
                        const void *target)
{
    const char *text;
    switch (setting->kind) {
    case CLI_FLAG:
        if (printer->is_brief && !*(const bool *)target)
            return;
        print_name(printer, setting->name);
        fputs(*(const bool *)target ? " true\n" : " false\n", printer->out);
        return;
    case CLI_LIST:
        print_texts(printer, setting, target);
        return;
    case CLI_TEXT:
        text = *(const char *const *)target;
        if (!text) {
            print_absent(printer, setting);
            return;
        }
        print_name(printer, setting->name);
        fputc(' ', printer->out);
        serve_config_print_text(printer->out, text);
        fputc('\n', printer->out);
        return;
    default:
        print_number(printer, setting, *(const uint64_t *)target);
    }
}

static void print_setting(struct printer *printer, const struct serve_setting *setting,
                          const void *target)
{
    const struct serve_config_items *items = target;
    if (setting->shape == SERVE_SETTING_VALUE) {
        print_value(printer, setting, target);
        return;
    }
    if (!items->count) {
        print_absent(printer, setting);
        return;
    }
    print_name(printer, setting->name);
    if (setting->shape == SERVE_SETTING_MAP)
        print_map(printer, items);
    else
        print_items(printer, setting, items);
}

static void print_rows(struct printer *printer, const struct serve_settings *settings,
                       const void *base)
{
    for (size_t i = 0; i < settings->count; i++) {
        const struct serve_setting *row = &settings->rows[i];
        const char *stored = (const char *)base + row->offset;
        print_setting(printer, row, row->option ? row->option->target : stored);
    }
}

void serve_config_print(const struct serve_config *config, const struct cli_command *command,
                        FILE *out)
{
    struct serve_setting rows[SERVE_SETTINGS_MAX];
    struct serve_settings settings = {.rows = rows};
    struct printer printer = {.out = out};
    serve_settings_of(command, rows, &settings.count);
    print_rows(&printer, &settings, config);
}

void serve_config_print_hosts(const struct serve_config *config, FILE *out)
{
    struct printer printer = {.out = out, .indent = 0, .is_brief = true};
    const struct serve_setting hosts = {"hosts", .shape = SERVE_SETTING_ITEMS,
                                        .inner = &serve_host_settings};
    print_setting(&printer, &hosts, &config->hosts);
}
