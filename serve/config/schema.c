/* The JSON schema of configuration files, for editors. It says what the tables say; what their
 * checks find is left to --check. */
#include "cli/value.h"
#include "serve/config/settings.h"

#include <inttypes.h>
#include <string.h>

struct writer {
    FILE *out;
    int indent;
};

static void begin_line(struct writer *writer, bool is_first)
{
    fprintf(writer->out, "%s\n%*s", is_first ? "" : ",", writer->indent, "");
}

static void write_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++)
        fprintf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    fputc('"', out);
}

static void write_member(struct writer *writer, const char *name, const char *text)
{
    begin_line(writer, false);
    fprintf(writer->out, "\"%s\": ", name);
    write_text(writer->out, text);
}

static const char *type_of(enum cli_kind kind)
{
    switch (kind) {
    case CLI_FLAG:
        return "\"boolean\"";
    case CLI_NUMBER:
        return "\"integer\"";
    case CLI_TEXT:
        return "[\"string\", \"number\", \"boolean\"]";
    case CLI_LIST:
        return "[\"array\", \"string\", \"integer\"]";
    default: /* with or without a unit */
        return "[\"string\", \"number\"]";
    }
}

static void write_choices(struct writer *writer, const struct serve_setting *setting)
{
    bool is_number = setting->kind == CLI_NUMBER;
    begin_line(writer, false);
    fputs("\"enum\": [", writer->out);
    for (const char *at = setting->choices; *at;) {
        int n = (int)strcspn(at, "|");
        fprintf(writer->out, is_number ? "%.*s" : "\"%.*s\"", n, at);
        at += n + (at[n] == '|');
        fputs(*at ? ", " : "]", writer->out);
    }
}

/* Numbers stand in the form in which a file has them, with a unit. */
static void write_default(struct writer *writer, const struct serve_setting *setting)
{
    char number[CLI_VALUE_SIZE];
    const void *target = setting->option ? setting->option->target : &setting->initial;
    const char *text = setting->kind == CLI_TEXT ? *(const char *const *)target : number;
    bool is_number = setting->kind != CLI_FLAG && setting->kind != CLI_TEXT;
    if (setting->kind == CLI_LIST || !text || (!setting->option && !setting->initial))
        return;
    if (is_number && !serve_setting_may_be(setting, *(const uint64_t *)target))
        return;
    begin_line(writer, false);
    fputs("\"default\": ", writer->out);
    if (is_number)
        cli_value_format(setting->kind, *(const uint64_t *)target, number);
    if (setting->kind == CLI_FLAG || setting->kind == CLI_NUMBER)
        fputs(is_number ? number : *(const bool *)target ? "true" : "false", writer->out);
    else
        write_text(writer->out, text);
}

static void write_value(struct writer *writer, const struct serve_setting *setting)
{
    begin_line(writer, false);
    fprintf(writer->out, "\"type\": %s", type_of(setting->kind));
    write_default(writer, setting);
    if (setting->choices)
        write_choices(writer, setting);
    if (setting->kind == CLI_LIST) {
        begin_line(writer, false);
        fputs("\"items\": {\"type\": [\"string\", \"integer\"]}", writer->out);
    }
    if (setting->kind == CLI_NUMBER && setting->min) {
        begin_line(writer, false);
        fprintf(writer->out, "\"minimum\": %" PRIu64, setting->min);
    }
    if (setting->kind == CLI_NUMBER && setting->max) {
        begin_line(writer, false);
        fprintf(writer->out, "\"maximum\": %" PRIu64, setting->max);
    }
}

static void write_rows(struct writer *writer, const struct serve_settings *settings);

static void write_shape(struct writer *writer, const struct serve_setting *setting)
{
    switch (setting->shape) {
    case SERVE_SETTING_VALUE:
        write_value(writer, setting);
        return;
    case SERVE_SETTING_MAP:
        write_member(writer, "type", "object");
        begin_line(writer, false);
        fputs("\"additionalProperties\": {\"type\": [\"string\", \"number\", \"boolean\"]}",
              writer->out);
        return;
    case SERVE_SETTING_ITEMS:
        write_member(writer, "type", "array");
        begin_line(writer, false);
        fputs("\"items\": {", writer->out);
        writer->indent += 2;
        write_rows(writer, setting->inner);
        writer->indent -= 2;
        begin_line(writer, true);
        fputc('}', writer->out);
    }
}

static void write_setting(struct writer *writer, const struct serve_setting *setting)
{
    fprintf(writer->out, "\"%s\": {", setting->name);
    writer->indent += 2;
    begin_line(writer, true);
    fputs("\"description\": ", writer->out);
    write_text(writer->out, setting->help);
    if (setting->example)
        write_member(writer, "x-example", setting->example);
    write_shape(writer, setting);
    writer->indent -= 2;
    begin_line(writer, true);
    fputc('}', writer->out);
}

static void write_required(struct writer *writer, const struct serve_settings *settings)
{
    bool is_first = true;
    begin_line(writer, false);
    fputs("\"required\": [", writer->out);
    for (size_t i = 0; i < settings->count; i++) {
        if (!settings->rows[i].is_required)
            continue;
        fprintf(writer->out, "%s\"%s\"", is_first ? "" : ", ", settings->rows[i].name);
        is_first = false;
    }
    fputc(']', writer->out);
}

/* The members of an object's schema, without its braces. */
static void write_rows(struct writer *writer, const struct serve_settings *settings)
{
    begin_line(writer, true);
    fputs("\"type\": \"object\",", writer->out);
    begin_line(writer, true);
    fputs("\"additionalProperties\": false", writer->out);
    write_required(writer, settings);
    begin_line(writer, false);
    fputs("\"properties\": {", writer->out);
    writer->indent += 2;
    for (size_t i = 0; i < settings->count; i++) {
        begin_line(writer, !i);
        write_setting(writer, &settings->rows[i]);
    }
    writer->indent -= 2;
    begin_line(writer, true);
    fputc('}', writer->out);
}

void serve_config_print_schema(const struct cli_command *command, FILE *out)
{
    struct serve_setting rows[SERVE_SETTINGS_MAX];
    struct serve_settings settings = {.rows = rows};
    struct writer writer = {.out = out, .indent = 2};
    serve_settings_of(command, rows, &settings.count);
    fputs("{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
          "  \"title\": \"Configuration of gossamer serve\",",
          out);
    write_rows(&writer, &settings);
    fputs("\n}\n", out);
}
