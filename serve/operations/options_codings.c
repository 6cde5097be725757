#include "serve/operations/options_codings.h"

#include "serve/arch/arch.h"
#include "serve/log/error_log.h"
#include "serve/operations/encode.h"

#include <string.h>

/* Returns an empty set if the word is none. */
static unsigned find_codings(const char *word, size_t n)
{
    if (n == 3 && !memcmp(word, "all", n))
        return serve_encodings();
    for (unsigned coding = 1; coding < GS_HTTP_CODINGS; coding++) {
        const char *name = gs_http_coding_name((enum gs_http_coding)coding);
        if (n == strlen(name) && !memcmp(word, name, n))
            return GS_HTTP_CODING_BIT(coding);
    }
    return 0;
}

int serve_options_choose_codings(struct serve_options *options, const char *list)
{
    for (const char *word = list, *end; word; word = *end ? end + 1 : NULL) {
        end = strchrnul(word, ',');
        int n = (int)(end - word);
        unsigned codings = find_codings(word, (size_t)n);
        if (!codings)
            return serve_options_refuse("--compress %.*s: it is br, zstd, gzip or all", n, word);
        if (codings & ~serve_encodings())
            return serve_options_refuse("--compress %.*s: this program was built without it", n,
                                        word);
        options->compressed |= codings;
    }
    if (!options->compressed || !options->arch->has_processes)
        return 0;
    serve_warn("--compress: the processes of %s share no memory, so nothing is compressed; "
               "--precompressed works there, too",
               options->arch->name);
    options->compressed = 0;
    return 0;
}
