/* In place of yaml.c, where libyaml was not found: no file can be read. */
#include "serve/config/yaml.h"

#include <errno.h>

int serve_yaml_read(struct serve_arena *arena, const char *text, size_t size,
                    struct serve_report *report, struct serve_node **ret_root)
{
    (void)arena, (void)text, (void)size, (void)ret_root;
    serve_report_add(report, 0,
                     "this program was built without libyaml: build it where libyaml is "
                     "found, or use options instead of --config");
    return -EOPNOTSUPP;
}
