/* YAML as a tree, read by libyaml.
 *
 *     struct serve_node *root;
 *     int err = serve_yaml_read(&arena, text, size, &report, &root);
 *
 * Values are texts, lists and maps; what a text means depends on the setting, not on its looks.
 * Anchors and aliases are supported. Tags, merge keys (<<), several documents, and aliases inside
 * of what they name are refused. What a file can make of the memory is limited: an alias counts as
 * often as it is used. */
#ifndef GS_SERVE_YAML_H
#define GS_SERVE_YAML_H

#include "serve/config/arena.h"
#include "serve/config/report.h"

#include <gossamer/api.h>
#include <stdbool.h>

enum {
    SERVE_YAML_DEPTH = 16,       /* of lists and maps in each other */
    SERVE_YAML_VALUES = 1 << 20, /* texts, lists and maps of a file, with those of its aliases */
    SERVE_YAML_TEXT = 64 << 10,  /* bytes of a text */
    SERVE_YAML_ANCHORS = 1000,   /* names of a file */
    SERVE_YAML_FILE = 16 << 20,  /* bytes of a file */
};

enum serve_node_kind { SERVE_NODE_TEXT, SERVE_NODE_LIST, SERVE_NODE_MAP };

/* Aliases share the node of their anchor. */
struct serve_node {
    enum serve_node_kind kind;
    unsigned line;
    bool is_plain;             /* a text without quotes */
    bool is_open;              /* its end was not read yet; private */
    unsigned weight;           /* values, with itself; private */
    const char *text;          /* NULL in lists and maps */
    struct serve_node **items; /* of a map: a key and its value in turn */
    size_t count;
};

/* *ret_root is NULL if the file is empty. Returns 0; -EINVAL after a problem was reported; -ENOMEM;
 * or -EOPNOTSUPP, with a report, in a program without libyaml. */
GS_MUST_CHECK int serve_yaml_read(struct serve_arena *arena, const char *text, size_t size,
                                  struct serve_report *report, struct serve_node **ret_root);

#endif
