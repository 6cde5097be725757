/* Checks of texts in settings, beside those of http. Each returns NULL, or what is wrong and what
 * to do. */
#ifndef GS_SERVE_CHECKS_H
#define GS_SERVE_CHECKS_H

const char *serve_check_host_name(const char *text); /* "example.org", "*.example.org" */
const char *serve_check_page(const char *text);      /* a path below the root */
const char *serve_check_field_name(const char *text);
const char *serve_check_field_value(const char *text);
const char *serve_check_error_status(const char *text); /* "404" */
const char *serve_check_not_empty(const char *text);

#endif
