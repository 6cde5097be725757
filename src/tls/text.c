#include "tls/text.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void gs_tls_keep_ascii(char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

int gs_tls_say(char *ret_text, const char *format, ...)
{
    va_list arguments;
    if (!ret_text)
        return -EINVAL;
    va_start(arguments, format);
    vsnprintf(ret_text, GS_TLS_TEXT, format, arguments);
    va_end(arguments);
    gs_tls_keep_ascii(ret_text);
    return -EINVAL;
}

static bool copy_dns_name(GENERAL_NAMES *names, char *ret_text, size_t size)
{
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        int type;
        const ASN1_STRING *name = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);
        if (type != GEN_DNS)
            continue;
        snprintf(ret_text, size, "%.*s", ASN1_STRING_length(name),
                 (const char *)ASN1_STRING_get0_data(name));
        return true;
    }
    return false;
}

struct gs_tls_name_text gs_tls_name_of(const X509 *certificate)
{
    struct gs_tls_name_text name = {.text = "the peer"};
    if (!certificate)
        return name;
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    name.is_common = !names || !copy_dns_name(names, name.text, sizeof name.text);
    if (name.is_common)
        X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name.text,
                                  sizeof name.text);
    GENERAL_NAMES_free(names);
    return name;
}

const char *gs_tls_last_reason(void)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return reason ? reason : "unknown error";
}
