/* Descriptions of errors, for persons. */
#ifndef GS_TLS_TEXT_H
#define GS_TLS_TEXT_H

#include <gossamer/tls_context.h>

/* Each writes one line, unless ret_text is NULL, and returns -EINVAL. */
int gs_tls_say(char *ret_text, const char *what);
/* With the file and OpenSSL's own words, whose queue of errors is emptied. */
int gs_tls_say_file(char *ret_text, const char *file, const char *what);

#endif
