/* Streams on sockets and pipes, whose other ends are threads of the same program. */
#include "program.h"

enum { LINES = 2000, LARGE = 300000 };

static int clients;

/* Answers each line by its length, and ends with the last one. */
static void *serve(void *argument)
{
    int fd = (int)(long)argument;
    FILE *in = fdopen(fd, "r"), *out = fdopen(dup(fd), "w");
    char line[200];
    long lines = 0;
    while (fgets(line, sizeof line, in)) {
        fprintf(out, "%zu %.3s\n", strlen(line), line);
        fflush(out);
        lines++;
    }
    printf("served %ld, end %d\n", lines, feof(in) != 0);
    fclose(out);
    fclose(in);
    return NULL;
}

/* One stream for both directions, which sends before it reads. */
static void talk(void)
{
    int ends[2];
    pthread_t server;
    char answer[100];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    pthread_create(&server, NULL, serve, (void *)(long)ends[1]);
    FILE *file = fdopen(ends[0], "r+");
    for (int i = 0; i < 5; i++) {
        fprintf(file, "%0*d of client %d\n", i * 20 + 3, i, ++clients);
        if (!fgets(answer, sizeof answer, file))
            abort();
        fputs(answer, stdout);
    }
    fclose(file);
    pthread_join(server, NULL);
}

/* Lines arrive in pieces. */
static void *write_pieces(void *argument)
{
    int fd = *(int *)argument;
    const char *text = "first li|ne\nsecond|\nthird without end| \n17 4.5 wo|rd\n99| rest";
    for (const char *at = text; *at; at++) {
        if (*at == '|')
            usleep(2000);
        else if (write(fd, at, 1) != 1)
            abort();
    }
    close(fd);
    return NULL;
}

static void scan(FILE *file, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    printf("scanned %d\n", vfscanf(file, format, list));
    va_end(list);
}

static void read_pieces(void)
{
    int ends[2], number = 0, last = 0;
    pthread_t writer;
    char *line = NULL, word[20] = "", bytes[8] = {0};
    size_t size = 0;
    double fraction = 0;
    if (pipe(ends))
        abort();
    pthread_create(&writer, NULL, write_pieces, &ends[1]);
    FILE *file = fdopen(ends[0], "r");
    printf("getline %zd", getline(&line, &size, file));
    printf(" %s", line);
    printf("getc %c", getc(file));
    ungetc('S', file);
    printf(" getline %zd", getline(&line, &size, file));
    printf(" %s", line);
    printf("fread %zu", fread(bytes, 2, 3, file));
    printf(" %s\n", bytes);
    printf("getline %zd\n", getline(&line, &size, file));
    int found = fscanf(file, "%d %lf %19s", &number, &fraction, word);
    printf("fscanf %d: %d %g %s\n", found, number, fraction, word);
    scan(file, "%d", &last);
    printf("%d\n", last);
    printf("fread %zu, end %d\n", fread(bytes, 1, sizeof bytes, file), feof(file) != 0);
    printf("after the end %d\n", getc(file));
    free(line);
    fclose(file);
    pthread_join(writer, NULL);
}

static void *read_slowly(void *argument)
{
    FILE *file = fdopen(*(int *)argument, "r");
    unsigned sum = 0;
    int byte;
    usleep(5000);
    while ((byte = getc(file)) != EOF)
        sum = sum * 31 + (unsigned)byte;
    fclose(file);
    return (void *)(unsigned long)sum;
}

/* More than fits into a pipe, while the reader sleeps; by lines, in a block, and without buffer. */
static void write_much(int mode)
{
    int ends[2];
    pthread_t reader;
    void *sum;
    char *bytes = malloc(LARGE);
    if (pipe(ends) || !bytes)
        abort();
    memset(bytes, 'x', LARGE);
    pthread_create(&reader, NULL, read_slowly, &ends[0]);
    FILE *file = fdopen(ends[1], "w");
    setvbuf(file, NULL, mode, mode == _IONBF ? 0 : BUFSIZ);
    for (int i = 0; i < LINES; i++)
        fprintf(file, "line %d of %s\n", i, "many lines");
    printf("fwrite %zu", fwrite(bytes, 1, LARGE, file));
    printf(" putc %d", putc('\n', file));
    printf(" fputs %d", fputs("end\n", file) >= 0);
    printf(" fclose %d", fclose(file));
    pthread_join(reader, &sum);
    printf(" sum %lu\n", (unsigned long)sum);
    free(bytes);
}

/* The stream is of a pipe, of a file, and of a FIFO, with the same descriptor. */
static void reopen(void)
{
    int ends[2];
    pthread_t reader;
    void *sum;
    unlink("reopened");
    unlink("fifo");
    if (pipe(ends) || mkfifo("fifo", 0600))
        abort();
    pthread_create(&reader, NULL, read_slowly, &ends[0]);
    FILE *file = fdopen(ends[1], "w");
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < LARGE / 10; i++)
            fprintf(file, "line %04d\n", i % 10000);
        if (step == 1) {
            ends[0] = open("fifo", O_RDONLY | O_NONBLOCK);
            fcntl(ends[0], F_SETFL, 0);
        }
        if (step < 2 && !freopen(step ? "fifo" : "reopened", "w", file))
            abort();
        if (step == 1) {
            pthread_create(&reader, NULL, read_slowly, &ends[0]);
        } else {
            if (step == 2)
                fclose(file);
            pthread_join(reader, &sum);
            printf("reopened %d, sum %lu\n", step, (unsigned long)sum);
        }
    }
    struct stat status;
    printf("file %ld\n", stat("reopened", &status) ? -1L : (long)status.st_size);
}

/* Two threads read from one stream: each line is whole. */
static void *take_lines(void *argument)
{
    char line[50];
    long good = 0;
    while (fgets(line, sizeof line, argument))
        good += strlen(line) == 11 && line[10] == '\n';
    return (void *)good;
}

static void share(void)
{
    int ends[2];
    pthread_t readers[2];
    void *first, *second;
    if (pipe(ends))
        abort();
    FILE *file = fdopen(ends[0], "r");
    for (int i = 0; i < 2; i++)
        pthread_create(&readers[i], NULL, take_lines, file);
    for (int i = 0; i < 40; i++) {
        if (write(ends[1], "0123", 4) != 4)
            abort();
        usleep(100);
        if (write(ends[1], "456789\n", 7) != 7)
            abort();
    }
    close(ends[1]);
    pthread_join(readers[0], &first);
    pthread_join(readers[1], &second);
    printf("shared %ld\n", (long)first + (long)second);
    fclose(file);
}

enum { READERS = 80 };
static int reader_ends[READERS][2];

/* All but the last wait for what that one starts. */
static void *scan_number(void *argument)
{
    int *ends = argument, sum = 0, number;
    FILE *file = fdopen(ends[0], "r");
    while (fscanf(file, "%d", &number) == 1) {
        sum += number;
        if (ends > reader_ends[0] && write(ends[-1], "5\n", 2) != 2)
            abort();
    }
    fclose(file);
    if (ends > reader_ends[0])
        close(ends[-1]);
    return (void *)(long)sum;
}

static void scan_in_many(void)
{
    pthread_t readers[READERS];
    long sum = 0;
    for (int i = 0; i < READERS; i++)
        if (pipe(reader_ends[i]))
            abort();
    for (int i = 0; i < READERS; i++)
        pthread_create(&readers[i], NULL, scan_number, reader_ends[i]);
    for (int i = 0; i < 2; i++) {
        usleep(2000);
        if (write(reader_ends[READERS - 1][1], "5\n", 2) != 2)
            abort();
    }
    close(reader_ends[READERS - 1][1]);
    for (int i = 0; i < READERS; i++) {
        void *result;
        pthread_join(readers[i], &result);
        sum += (long)result;
    }
    printf("scanned by many %ld\n", sum);
}

static void fail_as_usual(void)
{
    int ends[2];
    char line[20];
    struct timeval limit = {0, 3000};
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    FILE *file = fdopen(ends[0], "r");
    printf("limit %d", fgets(line, sizeof line, file) == NULL);
    printf(" %d %d\n", errno == EAGAIN, ferror(file) != 0);
    printf("read only %d", fputc('x', file));
    printf(" %d\n", errno == EBADF);
    fclose(file);
    close(ends[1]);
}

static void *blocked(void *argument)
{
    char line[20];
    fgets(line, sizeof line, argument);
    return NULL;
}

static void cancel(void)
{
    int ends[2];
    pthread_t thread;
    void *result = NULL;
    if (pipe(ends))
        abort();
    FILE *file = fdopen(ends[0], "r");
    pthread_create(&thread, NULL, blocked, file);
    usleep(2000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("canceled %d\n", result == PTHREAD_CANCELED);
    if (write(ends[1], "free\n", 5) != 5)
        abort();
    printf("%c\n", getc(file));
}

static void commands(void)
{
    for (int i = 0; i < 3; i++) {
        char line[50];
        FILE *file = popen("sleep 0.01; echo from a command", "r");
        if (fgets(line, sizeof line, file))
            fputs(line, stdout);
        printf("pclose %d\n", pclose(file));
    }
}

int main(void)
{
    char line[50];
    talk();
    read_pieces();
    write_much(_IOFBF);
    write_much(_IOLBF);
    write_much(_IONBF);
    share();
    reopen();
    scan_in_many();
    fail_as_usual();
    cancel();
    commands();
    while (fgets(line, sizeof line, stdin))
        printf("standard input: %s", line);
    return 0;
}
