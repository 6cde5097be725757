#include "tls/text.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>

int gs_tls_say(char *ret_text, const char *what)
{
    if (ret_text)
        snprintf(ret_text, GS_TLS_TEXT, "%s", what);
    return -EINVAL;
}

int gs_tls_say_file(char *ret_text, const char *file, const char *what)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    if (ret_text)
        snprintf(ret_text, GS_TLS_TEXT, "%s %s: %s", file, what, reason ? reason : "unknown error");
    ERR_clear_error();
    return -EINVAL;
}
