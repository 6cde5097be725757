#include "serve/config/yaml.h"

#include <errno.h>
#include <string.h>
#include <yaml.h>

struct anchor {
    const char *name;
    struct serve_node *node;
};

struct composer {
    yaml_parser_t parser;
    struct serve_arena *arena;
    struct serve_report *report;
    struct serve_node *root;
    struct serve_node *open[SERVE_YAML_DEPTH]; /* lists and maps whose end was not read */
    unsigned depth;
    unsigned documents;
    unsigned values;
    struct anchor *anchors;
    size_t anchor_count;
};

static unsigned line_of(const yaml_event_t *event)
{
    return (unsigned)event->start_mark.line + 1;
}

static int refuse(struct composer *composer, const yaml_event_t *event, const char *text)
{
    serve_report_add(composer->report, line_of(event), "%s", text);
    return -EINVAL;
}

/* What the parser of libyaml has not understood. */
static int refuse_syntax(struct composer *composer)
{
    const yaml_parser_t *parser = &composer->parser;
    if (parser->error == YAML_MEMORY_ERROR)
        return -ENOMEM;
    const char *problem = parser->problem ? parser->problem : "it can't be read";
    if (parser->error == YAML_READER_ERROR)
        serve_report_add(composer->report, 0, "the file is no text in UTF-8: %s at byte %zu",
                         problem, parser->problem_offset);
    else
        serve_report_add(composer->report, (unsigned)parser->problem_mark.line + 1,
                         "this is no YAML: %s%s%s", problem, parser->context ? " " : "",
                         parser->context ? parser->context : "");
    return -EINVAL;
}

static int add_item(struct composer *composer, struct serve_node *list, struct serve_node *node)
{
    struct serve_node **items =
        serve_arena_grow(composer->arena, list->items, list->count, sizeof(struct serve_node *));
    if (!items)
        return -ENOMEM;
    items[list->count++] = node;
    list->items = items;
    list->weight += node->weight;
    return 0;
}

/* Put the node where it belongs: into the innermost list or map that is open. */
static int place(struct composer *composer, struct serve_node *node)
{
    if (composer->depth)
        return add_item(composer, composer->open[composer->depth - 1], node);
    composer->root = node;
    return 0;
}

/* `weight` is at most SERVE_YAML_VALUES. */
static int count_values(struct composer *composer, const yaml_event_t *event, unsigned weight)
{
    composer->values += weight;
    if (composer->values <= SERVE_YAML_VALUES)
        return 0;
    return refuse(composer, event,
                  "the file has more than a million values, counting those of "
                  "aliases each time: split the sites among several servers");
}

static int add_anchor(struct composer *composer, const yaml_event_t *event, const yaml_char_t *name,
                      struct serve_node *node)
{
    if (!name)
        return 0;
    if (composer->anchor_count == SERVE_YAML_ANCHORS)
        return refuse(composer, event, "the file has more than 1000 anchors: use fewer");
    struct anchor *anchors = serve_arena_grow(composer->arena, composer->anchors,
                                              composer->anchor_count, sizeof *anchors);
    if (!anchors)
        return -ENOMEM;
    composer->anchors = anchors;
    const char *text = (const char *)name;
    const char *copy = serve_arena_copy(composer->arena, text, strlen(text));
    if (!copy)
        return -ENOMEM;
    anchors[composer->anchor_count++] = (struct anchor){copy, node};
    return 0;
}

/* Begin a value. Returns 0 or -errno. */
static int add_node(struct composer *composer, const yaml_event_t *event, enum serve_node_kind kind,
                    struct serve_node **ret_node)
{
    struct serve_node *node = serve_arena_take(composer->arena, sizeof *node);
    if (!node)
        return -ENOMEM;
    node->kind = kind;
    node->line = line_of(event);
    node->weight = 1;
    *ret_node = node;
    return count_values(composer, event, 1);
}

static int on_text(struct composer *composer, const yaml_event_t *event)
{
    const char *bytes = (const char *)event->data.scalar.value;
    size_t n = event->data.scalar.length;
    struct serve_node *node;
    if (event->data.scalar.tag)
        return refuse(composer, event, "tags (!) are not supported: leave it out");
    if (n > SERVE_YAML_TEXT)
        return refuse(composer, event, "the text is longer than 64 KiB: shorten it");
    if (memchr(bytes, '\0', n))
        return refuse(composer, event, "the text contains a zero byte: leave it out");
    int err = add_node(composer, event, SERVE_NODE_TEXT, &node);
    if (err)
        return err;
    node->is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    node->text = serve_arena_copy(composer->arena, bytes, n);
    if (!node->text)
        return -ENOMEM;
    err = add_anchor(composer, event, event->data.scalar.anchor, node);
    return err ? err : place(composer, node);
}

static int on_start(struct composer *composer, const yaml_event_t *event)
{
    bool is_map = event->type == YAML_MAPPING_START_EVENT;
    const yaml_char_t *tag =
        is_map ? event->data.mapping_start.tag : event->data.sequence_start.tag;
    struct serve_node *node;
    if (tag)
        return refuse(composer, event, "tags (!) are not supported: leave it out");
    if (composer->depth == SERVE_YAML_DEPTH)
        return refuse(composer, event, "lists and maps are too deep in each other: at most 16");
    int err = add_node(composer, event, is_map ? SERVE_NODE_MAP : SERVE_NODE_LIST, &node);
    if (!err)
        err = add_anchor(
            composer, event,
            is_map ? event->data.mapping_start.anchor : event->data.sequence_start.anchor, node);
    if (err)
        return err;
    node->is_open = true;
    composer->open[composer->depth++] = node;
    return 0;
}

static int on_end(struct composer *composer)
{
    struct serve_node *node = composer->open[--composer->depth];
    node->is_open = false;
    return place(composer, node);
}

/* The last anchor of a name counts. */
static int on_alias(struct composer *composer, const yaml_event_t *event)
{
    const char *name = (const char *)event->data.alias.anchor;
    for (size_t i = composer->anchor_count; i-- > 0;) {
        struct serve_node *node = composer->anchors[i].node;
        if (strcmp(composer->anchors[i].name, name) != 0)
            continue;
        if (node->is_open)
            return refuse(composer, event, "an alias is inside of what it names: write it out");
        int err = count_values(composer, event, node->weight);
        return err ? err : place(composer, node);
    }
    serve_report_add(composer->report, line_of(event),
                     "*%s: there is no anchor &%s above: write it before its aliases", name, name);
    return -EINVAL;
}

static int on_event(struct composer *composer, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (composer->documents++)
            return refuse(composer, event, "a second document begins: a file has one");
        return 0;
    case YAML_SCALAR_EVENT:
        return on_text(composer, event);
    case YAML_ALIAS_EVENT:
        return on_alias(composer, event);
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return on_start(composer, event);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return on_end(composer);
    default:
        return 0;
    }
}

static int compose(struct composer *composer)
{
    yaml_event_t event;
    bool has_ended = false;
    int err = 0;
    while (!err && !has_ended) {
        if (!yaml_parser_parse(&composer->parser, &event))
            return refuse_syntax(composer);
        has_ended = event.type == YAML_STREAM_END_EVENT;
        err = on_event(composer, &event);
        yaml_event_delete(&event);
    }
    return err;
}

int serve_yaml_read(struct serve_arena *arena, const char *text, size_t size,
                    struct serve_report *report, struct serve_node **ret_root)
{
    struct composer composer = {.arena = arena, .report = report};
    if (!yaml_parser_initialize(&composer.parser))
        return -ENOMEM;
    yaml_parser_set_input_string(&composer.parser, (const unsigned char *)text, size);
    int err = compose(&composer);
    yaml_parser_delete(&composer.parser);
    if (!err)
        *ret_root = composer.root;
    return err;
}
