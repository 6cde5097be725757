/* Streams of wide characters, the functions without locks, messages on the standard error, and what
 * is left in the buffer when the process ends: a full pipe does not stop the other threads. */
#include "start.h"

#include <err.h>
#include <wchar.h>

enum { SIZE = 100000 };
static int fds[2];
static char text[SIZE + 1];
static wchar_t wide[SIZE + 1];

static void *count(void *argument)
{
    char part[3000];
    size_t all = 0, sum = 0;
    ssize_t n;
    while ((n = read(fds[0], part, sizeof part)) > 0)
        for (ssize_t i = 0; i < n; i++)
            sum += (unsigned char)part[i] * (all++ % 5 + 1);
    printf("%s: %zu bytes, %zu\n", (const char *)argument, all, sum);
    return argument;
}

/* Returns a stream to write to, whose other end is counted. */
static FILE *begin(const char *name, pthread_t *ret_reader)
{
    if (pipe(fds))
        abort();
    *ret_reader = start(count, (void *)name);
    return fdopen(fds[1], "w");
}

static void end(FILE *file, pthread_t reader)
{
    fclose(file);
    pthread_join(reader, NULL);
    close(fds[0]);
}

static void write_wide(void)
{
    pthread_t reader;
    FILE *file = begin("wide", &reader);
    int n = fwprintf(file, L"%d %ls\n", 7, wide);
    printf("fwprintf %d\n", n);
    printf("fputws %d\n", fputws(wide, file) >= 0);
    for (int i = 0; i < 50; i++)
        putwc(L'p', file);
    end(file, reader);
}

static void write_unlocked(void)
{
    pthread_t reader;
    FILE *file = begin("unlocked", &reader);
    printf("fputs %d\n", fputs_unlocked(text, file) >= 0);
    printf("fwrite %zu\n", fwrite_unlocked(text, 2, SIZE / 2, file));
    fputc_unlocked('x', file);
    putc_unlocked('y', file);
    printf("fflush %d\n", fflush_unlocked(file));
    end(file, reader);
}

static void warn_with(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vwarnx(format, list);
    va_end(list);
}

static void complain(void)
{
    pthread_t reader;
    int before = dup(2);
    FILE *file = begin("complaints", &reader);
    dup2(fds[1], 2);
    program_invocation_short_name[0] = '\0'; /* it differs */
    errno = ENOENT;
    perror(text);
    errno = EACCES;
    warn("%s %d", text, 5);
    warnx("%s", text);
    warn_with("%s", text);
    psignal(SIGINT, text);
    dup2(before, 2);
    close(before);
    end(file, reader);
}

static void *write_slowly(void *argument)
{
    const char *lines = "first line\nsecond 12\nx";
    for (; *lines; lines++) {
        usleep(200);
        if (write(fds[1], lines, 1) != 1)
            abort();
    }
    close(fds[1]);
    return argument;
}

static void read_wide(void)
{
    wchar_t line[32] = L"", word[16] = L"";
    int number = 0;
    if (pipe(fds))
        abort();
    FILE *file = fdopen(fds[0], "r");
    pthread_t writer = start(write_slowly, NULL);
    wint_t c = fgetwc(file);
    printf("%lc", c);
    c = getwc(file);
    printf("%lc", c);
    printf("%ls", fgetws(line, 32, file) ? line : L"nothing\n");
    printf("fwscanf %d", fwscanf(file, L"%15ls %d", word, &number));
    printf(" %ls %d\n", word, number);
    printf("end:");
    while ((c = fgetwc(file)) != WEOF)
        printf(" %d", (int)c);
    puts("");
    pthread_join(writer, NULL);
    fclose(file);
}

static void read_unlocked(void)
{
    char line[32], part[8] = "";
    if (pipe(fds))
        abort();
    FILE *file = fdopen(fds[0], "r");
    pthread_t writer = start(write_slowly, NULL);
    printf("%c", fgetc_unlocked(file));
    printf("%c", getc_unlocked(file));
    printf("%s", fgets_unlocked(line, sizeof line, file) ? line : "nothing\n");
    size_t n = fread_unlocked(part, 1, 6, file);
    printf("%zu %s\n", n, part);
    pthread_join(writer, NULL);
    fclose(file);
}

static void *all(void *argument)
{
    write_wide();
    write_unlocked();
    complain();
    read_wide();
    read_unlocked();
    return argument;
}

/* ---- The end ---- */

static char buffer[300000];

static void *drain(void *argument)
{
    char part[1000];
    size_t all = 0;
    ssize_t n;
    while ((n = read(fds[0], part, sizeof part)) > 0) {
        all += (size_t)n;
        if (all >= SIZE && all - (size_t)n < SIZE && write(2, "half\n", 5) < 0)
            abort();
    }
    return argument;
}

int main(void)
{
    for (size_t i = 0; i < SIZE; i++) {
        text[i] = (char)('a' + i % 26);
        wide[i] = (wchar_t)text[i];
    }
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    all(NULL);
    pthread_join(start(all, NULL), NULL);
    fflush(stdout);
    /* More than the pipe takes, so the thread must read until the buffer is written. */
    if (pipe(fds) || dup2(fds[1], 1) < 0)
        abort();
    printf("%s%s", text, text);
    start(drain, NULL);
    return 0;
}
