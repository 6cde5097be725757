#include "http_client/error.h"

#include <errno.h>
#include <gossamer/http_client.h>
#include <gossamer/thread.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int key; /* -EAGAIN: there was none left */

static void new_key(void)
{
    key = gs_thread_key_new(free);
}

int gs_http_client_error_init(void)
{
    pthread_once(&once, new_key);
    return key < 0 ? key : 0;
}

/* Returns the text of the thread; NULL: there is none. */
static char *text_of_thread(void)
{
    return gs_thread_value(key);
}

/* Without memory there is no text: gs_http_client_error then tells so. */
static char *room_of_thread(void)
{
    char *text = text_of_thread();
    if (text)
        return text;
    text = malloc(GS_HTTP_CLIENT_TEXT);
    if (!text || !gs_thread_set_value(key, text))
        return text;
    free(text);
    return NULL;
}

/* A user and a password in a URL are not for a log. */
static void hide_user(char *text)
{
    char *at = text;
    while ((at = strstr(at, "://"))) {
        at += 3;
        size_t n = strcspn(at, "/?# ");
        char *end = at + n;
        while (end > at && end[-1] != '@')
            end--;
        memmove(at, end, strlen(end) + 1);
    }
}

int gs_http_client_fail(int err, const char *format, ...)
{
    char *text = room_of_thread();
    va_list arguments;
    if (!text)
        return err;
    va_start(arguments, format);
    vsnprintf(text, GS_HTTP_CLIENT_TEXT, format, arguments);
    va_end(arguments);
    hide_user(text);
    for (char *at = text; *at; at++) /* what comes from outside may be printed to a terminal */
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
    return err;
}

void gs_http_client_error_clear(void)
{
    char *text = text_of_thread();
    if (text)
        text[0] = '\0';
}

int gs_http_client_fail_plainly(int err, const char *what)
{
    const char *text = text_of_thread();
    if (text && text[0])
        return err;
    return gs_http_client_fail(err, "%s: %s", what, gs_strerror(err));
}

const char *gs_http_client_error(void)
{
    const char *text = gs_http_client_error_init() ? NULL : text_of_thread();
    return text && text[0] ? text : gs_strerror(-ENOMEM);
}
