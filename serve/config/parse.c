/* From the tree of a file to its configuration: each map is read by the table of its settings. */
#include "cli/suggestion.h"
#include "cli/value.h"
#include "serve/config/settings.h"
#include "serve/config/yaml.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct reader {
    struct serve_arena *arena;
    struct serve_report *report;
    struct serve_config *config;
    serve_config_look *look; /* NULL: files are not looked for */
};

/* A problem of a setting's value. */
static void complain(struct reader *reader, const struct serve_node *node, const char *name,
                     const char *problem)
{
    bool is_verb = !strncmp(problem, "is ", 3) || !strncmp(problem, "has ", 4);
    if (node->text)
        serve_report_add(reader->report, node->line, "%s \"%.200s\"%s %s", name, node->text,
                         is_verb ? "" : ":", problem);
    else
        serve_report_add(reader->report, node->line, "%s: %s", name, problem);
}

/* Empty values and `null` are plain texts to YAML. */
static bool is_null(const struct serve_node *node)
{
    return node->is_plain &&
           (!*node->text || !strcmp(node->text, "~") || !strcmp(node->text, "null") ||
            !strcmp(node->text, "Null") || !strcmp(node->text, "NULL"));
}

/* Returns whether the value is a text; a problem has been reported otherwise. */
static bool expect_text(struct reader *reader, const char *name, const struct serve_node *node)
{
    if (node->kind != SERVE_NODE_TEXT)
        complain(reader, node, name,
                 node->kind == SERVE_NODE_LIST ? "it is a list: write a single value"
                                               : "it is a map: write a single value");
    else if (is_null(node))
        serve_report_add(reader->report, node->line,
                         "%s: it has no value: write one, or leave the setting out", name);
    else
        return true;
    return false;
}

static bool expect(struct reader *reader, const char *name, const struct serve_node *node,
                   enum serve_node_kind kind)
{
    if (node->kind == kind)
        return true;
    complain(reader, node, name,
             kind == SERVE_NODE_MAP
                 ? "it is no map: write settings as NAME: VALUE, one a line and indented"
                 : "it is no list: begin each item with \"- \", or write [a, b]");
    return false;
}

/* ---- Values ---- */

static int add_value(struct reader *reader, const struct serve_setting *setting,
                     const struct serve_node *node)
{
    struct serve_config_items *values = &reader->config->values;
    struct serve_config_value *items =
        serve_arena_grow(reader->arena, values->items, values->count, sizeof *items);
    if (!items)
        return -ENOMEM;
    items[values->count++] = (struct serve_config_value){setting->option, node->text, node->line};
    values->items = items;
    return 0;
}

/* Returns NULL, or what is wrong with the text. */
static const char *check_text(struct reader *reader, const struct serve_setting *setting,
                              const char *text)
{
    const char *problem = setting->check ? setting->check(text) : NULL;
    if (!problem && setting->file && reader->look)
        problem = reader->look(text, setting->file);
    return problem;
}

static bool check_value(struct reader *reader, const struct serve_setting *setting,
                        const struct serve_node *node, uint64_t *ret_value)
{
    char problem[CLI_PROBLEM_SIZE];
    if (setting->choices && !serve_setting_has_choice(setting->choices, node->text)) {
        snprintf(problem, sizeof problem, "it is none of %s: write one of these", setting->choices);
        complain(reader, node, setting->name, problem);
        return false;
    }
    if (setting->kind == CLI_TEXT || setting->kind == CLI_LIST) {
        const char *wrong = check_text(reader, setting, node->text);
        if (wrong)
            complain(reader, node, setting->name, wrong);
        return !wrong;
    }
    const struct cli_option bounds = {
        .kind = setting->kind, .min = setting->min, .max = setting->max};
    if (!cli_value_read(&bounds, node->text, ret_value, problem))
        return true;
    serve_report_add(reader->report, node->line, "%s: %s", setting->name, problem);
    return false;
}

static bool check_flag(struct reader *reader, const struct serve_setting *setting,
                       const struct serve_node *node)
{
    bool is_flag = node->is_plain && (!strcmp(node->text, "true") || !strcmp(node->text, "false"));
    if (!is_flag)
        complain(reader, node, setting->name, "write true or false, without quotes");
    return is_flag;
}

/* Store one text: returns 0, also after a problem, or -ENOMEM. */
static int read_single(struct reader *reader, const struct serve_setting *setting,
                       const struct serve_node *node, void *target)
{
    uint64_t value = 0;
    bool is_flag = setting->kind == CLI_FLAG;
    if (!expect_text(reader, setting->name, node) ||
        !(is_flag ? check_flag(reader, setting, node) : check_value(reader, setting, node, &value)))
        return 0;
    if (setting->option)
        return add_value(reader, setting, node);
    if (is_flag)
        *(bool *)target = node->text[0] == 't';
    else if (setting->kind == CLI_TEXT)
        *(const char **)target = node->text;
    else
        *(uint64_t *)target = value;
    return 0;
}

static int add_to_list(struct reader *reader, const struct serve_setting *setting,
                       const struct serve_node *node, struct serve_config_items *list)
{
    uint64_t unused;
    if (!expect_text(reader, setting->name, node) || !check_value(reader, setting, node, &unused))
        return 0;
    if (setting->option)
        return add_value(reader, setting, node);
    const char **items =
        serve_arena_grow(reader->arena, list->items, list->count, sizeof(const char *));
    if (!items)
        return -ENOMEM;
    items[list->count++] = node->text;
    list->items = items;
    return 0;
}

/* A single text is a list of one. */
static int read_list(struct reader *reader, const struct serve_setting *setting,
                     const struct serve_node *node, void *target)
{
    if (node->kind == SERVE_NODE_TEXT)
        return add_to_list(reader, setting, node, target);
    if (!expect(reader, setting->name, node, SERVE_NODE_LIST))
        return 0;
    int err = 0;
    for (size_t i = 0; i < node->count && !err; i++)
        err = add_to_list(reader, setting, node->items[i], target);
    return err;
}

/* ---- Maps of texts ---- */

static const struct serve_config_entry *find_entry(const struct serve_config_items *entries,
                                                   const char *name)
{
    const struct serve_config_entry *items = entries->items;
    for (size_t i = 0; i < entries->count; i++)
        if (!strcasecmp(items[i].name, name))
            return &items[i];
    return NULL;
}

static int read_entry(struct reader *reader, const struct serve_setting *setting,
                      struct serve_node *const *pair, struct serve_config_items *entries)
{
    const struct serve_node *key = pair[0], *value = pair[1];
    if (!expect_text(reader, setting->name, key) || !expect_text(reader, setting->name, value))
        return 0;
    const struct serve_config_entry *twin = find_entry(entries, key->text);
    if (twin) {
        serve_report_add(reader->report, key->line,
                         "%s: \"%.200s\" is given twice, first in line %u: leave one out",
                         setting->name, key->text, twin->line);
        return 0;
    }
    const char *wrong = setting->check_key(key->text);
    if (wrong)
        complain(reader, key, setting->name, wrong);
    else if ((wrong = check_text(reader, setting, value->text)))
        complain(reader, value, setting->name, wrong);
    struct serve_config_entry *items =
        serve_arena_grow(reader->arena, entries->items, entries->count, sizeof *items);
    if (!items)
        return -ENOMEM;
    items[entries->count++] = (struct serve_config_entry){key->text, value->text, key->line};
    entries->items = items;
    return 0;
}

static int read_map(struct reader *reader, const struct serve_setting *setting,
                    const struct serve_node *node, struct serve_config_items *entries)
{
    if (!expect(reader, setting->name, node, SERVE_NODE_MAP))
        return 0;
    if (node->count / 2 > SERVE_SETTING_ENTRIES) {
        complain(reader, node, setting->name, "it has more than 100 entries: use fewer");
        return 0;
    }
    int err = 0;
    for (size_t i = 0; i < node->count && !err; i += 2)
        err = read_entry(reader, setting, node->items + i, entries);
    return err;
}

/* ---- Settings ---- */

static int read_rows(struct reader *reader, const struct serve_settings *settings,
                     const struct serve_node *node, void *target);

static void set_initial(const struct serve_settings *settings, void *target)
{
    for (size_t i = 0; i < settings->count; i++)
        if (settings->rows[i].initial)
            *(uint64_t *)((char *)target + settings->rows[i].offset) = settings->rows[i].initial;
}

static int read_item(struct reader *reader, const struct serve_setting *setting,
                     const struct serve_node *node, void *item)
{
    const struct serve_settings *inner = setting->inner;
    unsigned problems = reader->report->count;
    set_initial(inner, item);
    int err = read_rows(reader, inner, node, item);
    bool is_whole = !err && reader->report->count == problems;
    const char *problem = is_whole && inner->check ? inner->check(item) : NULL;
    if (problem)
        serve_report_add(reader->report, node->line, "%s: an item %s", setting->name, problem);
    return err;
}

/* Each struct of the items begins with its line. */
static int read_items(struct reader *reader, const struct serve_setting *setting,
                      const struct serve_node *node, struct serve_config_items *list)
{
    const struct serve_settings *inner = setting->inner;
    if (!expect(reader, setting->name, node, SERVE_NODE_LIST) || !node->count)
        return 0;
    list->items = serve_arena_take(reader->arena, node->count * inner->size);
    if (!list->items)
        return -ENOMEM;
    int err = 0;
    for (size_t i = 0; i < node->count && !err; i++) {
        char *item = (char *)list->items + i * inner->size;
        if (!expect(reader, setting->name, node->items[i], SERVE_NODE_MAP))
            continue;
        *(unsigned *)item = node->items[i]->line;
        err = read_item(reader, setting, node->items[i], item);
        list->count = i + 1;
    }
    return err;
}

static int read_setting(struct reader *reader, const struct serve_setting *setting,
                        const struct serve_node *node, void *target)
{
    if (setting->shape == SERVE_SETTING_MAP)
        return read_map(reader, setting, node, target);
    if (setting->shape == SERVE_SETTING_ITEMS)
        return read_items(reader, setting, node, target);
    if (setting->kind == CLI_LIST)
        return read_list(reader, setting, node, target);
    return read_single(reader, setting, node, target);
}

static void complain_of_name(struct reader *reader, const struct serve_settings *settings,
                             const struct serve_node *key)
{
    if (!strcmp(key->text, "<<")) {
        serve_report_add(reader->report, key->line,
                         "<<: maps are not merged: give each setting an alias of its own");
        return;
    }
    struct cli_suggestion suggestion = cli_suggestion_for(key->text, strlen(key->text));
    for (size_t i = 0; i < settings->count; i++)
        cli_suggestion_consider(&suggestion, settings->rows[i].name);
    if (suggestion.name)
        serve_report_add(reader->report, key->line,
                         "there is no setting \"%.100s\" here: did you mean %s?", key->text,
                         suggestion.name);
    else
        serve_report_add(reader->report, key->line,
                         "there is no setting \"%.100s\" here: see `gossamer serve "
                         "--print-config`",
                         key->text);
}

/* Returns the row of the key; NULL after a problem. */
static const struct serve_setting *find_row(struct reader *reader,
                                            const struct serve_settings *settings,
                                            const struct serve_node *key, unsigned *lines)
{
    if (!expect_text(reader, "the name of a setting", key))
        return NULL;
    size_t i = 0;
    while (i < settings->count && strcmp(settings->rows[i].name, key->text) != 0)
        i++;
    if (i == settings->count) {
        complain_of_name(reader, settings, key);
        return NULL;
    }
    if (lines[i]) {
        serve_report_add(reader->report, key->line,
                         "%s is given twice, first in line %u: leave one out", key->text, lines[i]);
        return NULL;
    }
    lines[i] = key->line;
    return &settings->rows[i];
}

/* A map whose keys are rows of the table. Returns 0, also after problems, or -ENOMEM. */
static int read_rows(struct reader *reader, const struct serve_settings *settings,
                     const struct serve_node *node, void *target)
{
    unsigned lines[SERVE_SETTINGS_MAX] = {0};
    int err = 0;
    for (size_t i = 0; i < node->count && !err; i += 2) {
        const struct serve_setting *row = find_row(reader, settings, node->items[i], lines);
        if (row)
            err = read_setting(reader, row, node->items[i + 1], (char *)target + row->offset);
    }
    for (size_t i = 0; i < settings->count && !err; i++)
        if (settings->rows[i].is_required && !lines[i])
            serve_report_add(reader->report, node->line, "%s is missing: add %s: %s",
                             settings->rows[i].name, settings->rows[i].name,
                             settings->rows[i].example);
    return err;
}

/* ---- Hosts together ---- */

struct name {
    const char *text;
    unsigned line;
};

static int compare_names(const void *left, const void *right)
{
    const struct name *a = left, *b = right;
    int order = strcasecmp(a->text, b->text);
    return order ? order : (a->line > b->line) - (a->line < b->line);
}

static size_t collect_names(const struct serve_config_items *hosts, struct name *names)
{
    const struct serve_config_host *items = hosts->items;
    size_t count = 0;
    for (size_t i = 0; i < hosts->count; i++) {
        const char *const *texts = items[i].names.items;
        for (size_t k = 0; k < items[i].names.count; k++)
            if (names)
                names[count++] = (struct name){texts[k], items[i].line};
            else
                count++;
    }
    return count;
}

static int find_twins(struct reader *reader)
{
    const struct serve_config_items *hosts = &reader->config->hosts;
    size_t count = collect_names(hosts, NULL);
    struct name *names = serve_arena_take(reader->arena, (count + 1) * sizeof *names);
    if (!names)
        return -ENOMEM;
    collect_names(hosts, names);
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 1; i < count; i++)
        if (!strcasecmp(names[i - 1].text, names[i].text))
            serve_report_add(reader->report, names[i].line,
                             "names: \"%.200s\" is also a name of the host in line %u: leave one "
                             "out",
                             names[i].text, names[i - 1].line);
    return 0;
}

/* One host at most has no names. */
static void find_nameless(struct reader *reader)
{
    const struct serve_config_items *hosts = &reader->config->hosts;
    const struct serve_config_host *items = hosts->items, *nameless = NULL;
    for (size_t i = 0; i < hosts->count; i++) {
        if (items[i].names.count || !items[i].line)
            continue;
        if (nameless)
            serve_report_add(reader->report, items[i].line,
                             "two hosts have no names, the other is in line %u: give one names",
                             nameless->line);
        nameless = &items[i];
    }
}

int serve_config_build(struct serve_config *config, const struct cli_command *command,
                       const struct serve_node *root, struct serve_report *report,
                       serve_config_look *look)
{
    struct serve_setting rows[SERVE_SETTINGS_MAX];
    struct serve_settings settings = {.rows = rows};
    struct reader reader = {
        .arena = &config->arena, .report = report, .config = config, .look = look};
    serve_settings_of(command, rows, &settings.count);
    if (!expect(&reader, "the file", root, SERVE_NODE_MAP))
        return 0;
    int err = read_rows(&reader, &settings, root, config);
    if (err || report->count)
        return err;
    if (!config->hosts.count)
        serve_report_add(report, root->line, "hosts is empty: write - root: /srv/www below it");
    find_nameless(&reader);
    return find_twins(&reader);
}
