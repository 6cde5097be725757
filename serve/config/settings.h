/* The tables of settings. A row describes one: its kind, where its value is stored, its limits, and
 * what help says.
 *
 *     static const struct serve_setting rows[] = {
 *         {"status", .kind = CLI_NUMBER, .offset = offsetof(struct serve_config_redirect, status),
 *          .choices = "301|302|303|307|308", .initial = 301, .help = "status of the response"},
 *     };
 */
#ifndef GS_SERVE_SETTINGS_H
#define GS_SERVE_SETTINGS_H

#include "cli/options.h"
#include "serve/config/config.h"

struct serve_node;

enum {
    SERVE_SETTINGS_MAX = CLI_OPTIONS_MAX + 1, /* the options of a command, and the hosts */
    SERVE_SETTING_ENTRIES = 100,              /* of a map */
};

enum serve_setting_shape {
    SERVE_SETTING_VALUE, /* of the kind `kind` */
    SERVE_SETTING_MAP,   /* of texts; struct serve_config_entry */
    SERVE_SETTING_ITEMS, /* maps of further settings */
};

/* What a file's value must name, if that is checked. */
enum serve_setting_file { SERVE_SETTING_ANYTHING, SERVE_SETTING_FILE, SERVE_SETTING_DIRECTORY };

/* Look for a file. Returns NULL, or what is wrong and what to do. */
typedef const char *serve_config_look(const char *path, enum serve_setting_file file);

struct serve_settings {
    const struct serve_setting *rows;
    size_t count;
    size_t size; /* bytes of the struct that they are stored in */
    /* Returns NULL, or what is wrong with an item as a whole: "has ...". May be NULL. */
    const char *(*check)(const void *item);
};

struct serve_setting {
    char name[32];
    enum serve_setting_shape shape;
    /* A CLI_FLAG is a bool, a number uint64_t, CLI_TEXT const char *, CLI_LIST, of texts, and all
     * other shapes are struct serve_config_items. */
    enum cli_kind kind;
    size_t offset;
    uint64_t min, max, initial; /* max 0: no limit */
    bool is_required;
    enum serve_setting_file file;
    const char *choices; /* "301|302"; NULL: all values */
    const char *help, *example;

    /* For each text, of a map each key and each value: returns NULL, or what is wrong and what to
     * do. May be NULL. */
    const char *(*check)(const char *text);
    const char *(*check_key)(const char *text);

    const struct serve_settings *inner; /* of SERVE_SETTING_ITEMS */
    const struct cli_option *option;    /* to be stored as its values; NULL: at `offset` */
};

extern const struct serve_settings serve_host_settings;

/* The settings of the file itself: options of the command, and `hosts`. */
void serve_settings_of(const struct cli_command *command,
                       struct serve_setting ret_rows[SERVE_SETTINGS_MAX], size_t *ret_count);

/* Fill an empty configuration from a tree of YAML. look: NULL: files are not looked for. Returns 0,
 * also after problems have been reported, or -ENOMEM. */
GS_MUST_CHECK int serve_config_build(struct serve_config *config, const struct cli_command *command,
                                     const struct serve_node *root, struct serve_report *report,
                                     serve_config_look *look);

/* Returns whether a number is one that a file may give: others stand for "not given". */
bool serve_setting_may_be(const struct serve_setting *setting, uint64_t value);

/* Whether `word` is one of "a|b|c". */
bool serve_setting_has_choice(const char *choices, const char *word);

#endif
