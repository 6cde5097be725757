#include "serve/config/config.h"

#include "serve/config/settings.h"
#include "serve/config/yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct content {
    char *bytes;
    size_t size;
};

static int parse(struct serve_config *config, const struct cli_command *command,
                 const struct content *text, struct serve_report *report, serve_config_look *look)
{
    struct serve_node *root = NULL;
    config->file = report->file;
    int err = serve_yaml_read(&config->arena, text->bytes, text->size, report, &root);
    if (!err && !root)
        serve_report_add(report, 0, "the file is empty: write hosts:, and - root: /srv/www below");
    else if (!err)
        err = serve_config_build(config, command, root, report, look);
    if (err == -ENOMEM)
        serve_report_add(report, 0, "there is not enough memory to read the file");
    return serve_report_end(report) && !err ? -EINVAL : err;
}

int serve_config_parse(struct serve_config *config, const struct cli_command *command,
                       const char *text, size_t size, struct serve_report *report)
{
    *config = (struct serve_config){0};
    return parse(config, command, &(struct content){(char *)text, size}, report, NULL);
}

static const char *look_for(const char *path, enum serve_setting_file file)
{
    struct stat status;
    if (stat(path, &status))
        return errno == ENOENT   ? "there is no such file: make it, or correct the name"
               : errno == EACCES ? "a directory of its path may not be entered: change its mode"
                                 : "it can't be found: correct the name";
    if (file == SERVE_SETTING_DIRECTORY)
        return S_ISDIR(status.st_mode) ? NULL : "it is no directory: name the one of the site";
    if (S_ISDIR(status.st_mode))
        return "it is a directory: name a file";
    return access(path, R_OK) ? "it may not be read: change its mode or its owner" : NULL;
}

/* The file may be a pipe. Returns 0 or -errno; the caller frees *text. */
static int read_all(int fd, struct content *text)
{
    size_t room = 0;
    for (;;) {
        if (text->size == room) {
            room = room ? 2 * room : 64 << 10;
            char *bytes = realloc(text->bytes, room);
            if (!bytes)
                return -ENOMEM;
            text->bytes = bytes;
        }
        ssize_t n = read(fd, text->bytes + text->size, room - text->size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n ? -errno : 0;
        text->size += (size_t)n;
        if (text->size > SERVE_YAML_FILE)
            return -EFBIG;
    }
}

int serve_config_read(struct serve_config *config, const struct cli_command *command,
                      struct serve_report *report)
{
    struct content text = {0};
    *config = (struct serve_config){0};
    int fd = open(report->file, O_RDONLY | O_CLOEXEC);
    int err = fd < 0 ? -errno : read_all(fd, &text);
    if (fd >= 0)
        close(fd);
    if (err == -EFBIG)
        serve_report_add(report, 0, "the file has more than 16 MiB: split it");
    else if (err)
        serve_report_add(report, 0, "the file can't be read: %s", strerror(-err));
    else
        err = parse(config, command, &text, report, look_for);
    free(text.bytes);
    return err;
}

void serve_config_done(struct serve_config *config)
{
    serve_arena_free(&config->arena);
    *config = (struct serve_config){0};
}

int serve_config_apply(const struct serve_config *config, const struct cli_command *command)
{
    const struct serve_config_value *values = config->values.items;
    int err = 0;
    for (size_t i = 0; i < config->values.count && !err; i++) {
        if (values[i].option->kind == CLI_FLAG)
            *(bool *)values[i].option->target = values[i].text[0] == 't';
        else
            err = cli_store(command, values[i].option, values[i].text);
    }
    return err;
}

unsigned serve_config_line(const struct serve_config *config, const char *option)
{
    const struct serve_config_value *values = config->values.items;
    for (size_t i = 0; i < config->values.count; i++)
        if (!strcmp(values[i].option->name, option))
            return values[i].line;
    return 0;
}
