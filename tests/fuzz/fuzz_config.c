/* Fuzzes configuration files: what is accepted is printed, and the print reads back to the same. */
#include "serve/config/config.h"
#include "serve/operations/options.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Returns what the file means, as a file; NULL: it is refused. The caller frees it. */
static char *normalize(const char *text, size_t size)
{
    char *problems = NULL, *printed = NULL;
    size_t problems_size, printed_size;
    struct serve_config config;
    FILE *out = open_memstream(&problems, &problems_size);
    assert(out);
    struct serve_report report = {.file = "fuzz", .out = out};
    int err = serve_config_parse(&config, &serve_command, text, size, &report);
    fclose(out);
    assert(!err == !problems_size);
    free(problems);
    if (!err) {
        FILE *print = open_memstream(&printed, &printed_size);
        assert(print);
        serve_config_print(&config, &serve_command, print);
        fclose(print);
    }
    serve_config_done(&config);
    return printed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *once = normalize((const char *)data, size);
    if (!once)
        return 0;
    char *twice = normalize(once, strlen(once));
    assert(twice && !strcmp(once, twice));
    free(once);
    free(twice);
    return 0;
}
