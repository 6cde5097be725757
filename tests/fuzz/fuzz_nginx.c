/* Fuzzes configurations of nginx: what one becomes is YAML. */
#include "serve/nginx/nginx.h"

#include "serve/config/config.h"
#include "serve/operations/options.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Its settings may be refused, but not its syntax, unless the text is not in UTF-8. */
static void read_back(const char *yaml, size_t size)
{
    char *problems = NULL;
    size_t problems_size;
    struct serve_config config;
    FILE *out = open_memstream(&problems, &problems_size);
    assert(out);
    struct serve_report report = {.file = "fuzz", .out = out};
    int err = serve_config_parse(&config, &serve_command, yaml, size, &report);
    fclose(out);
    assert(!err || *problems);
    assert(!strstr(problems, "this is no YAML"));
    serve_config_done(&config);
    free(problems);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *yaml = NULL, *said = NULL;
    size_t yaml_size, said_size;
    assert(text);
    memcpy(text, data, size);
    text[size] = '\0';
    FILE *out = open_memstream(&yaml, &yaml_size), *err = open_memstream(&said, &said_size);
    assert(out && err);
    struct serve_report report = {.out = err};
    int failed = serve_nginx_convert_text(text, out, &report);
    fclose(out);
    fclose(err);
    assert(!failed || (said_size && !yaml_size));
    if (!failed)
        read_back(yaml, yaml_size);
    free(said);
    free(yaml);
    free(text);
    return 0;
}
