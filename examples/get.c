/* Get a page by HTTP: get HOST:PORT/PATH, get unix:SOCKET. The status and the header fields are
 * read as lines, the rest as it comes. */
#include <gossamer/buffered.h>
#include <gossamer/io.h>
#include <gossamer/net.h>

#include <stdio.h>
#include <string.h>

#define FIELD_MAX 8192

static int request(int fd, const char *host, const char *path, uint64_t deadline_ns)
{
    struct gs_writer writer;
    int err = gs_writer_init(&writer, fd, NULL, 1024);
    if (err)
        return err;
    gs_writer_printf(&writer, deadline_ns, "GET /%s HTTP/1.0\r\n", path);
    gs_writer_printf(&writer, deadline_ns, "Host: %s\r\n\r\n", host);
    err = gs_writer_flush(&writer, deadline_ns); /* or the error of what was written before */
    gs_writer_done(&writer);
    return err;
}

static ssize_t print_response(int fd, uint64_t deadline_ns)
{
    struct gs_reader reader;
    char *line, bytes[4096];
    ssize_t n = gs_reader_init(&reader, fd, NULL, FIELD_MAX);
    if (n)
        return n;
    while ((n = gs_reader_read_line(&reader, FIELD_MAX, deadline_ns, &line)) > 0)
        fprintf(stderr, "%s\n", line);
    while (n >= 0 && (n = gs_reader_read_some(&reader, bytes, sizeof bytes, deadline_ns)) > 0)
        fwrite(bytes, 1, (size_t)n, stdout);
    gs_reader_done(&reader);
    return n;
}

static void *get(void *address)
{
    uint64_t deadline_ns = gs_clock_now() + 30 * GS_SECOND;
    char *slash = strncmp(address, "unix:", 5) ? strchr(address, '/') : NULL;
    if (slash)
        *slash = '\0';
    int fd = gs_dial(address, deadline_ns);
    ssize_t err = fd < 0 ? fd : request(fd, address, slash ? slash + 1 : "", deadline_ns);
    if (!err)
        err = print_response(fd, deadline_ns);
    if (fd >= 0)
        gs_close(fd);
    if (err)
        fprintf(stderr, "%s: %s\n", (char *)address, gs_strerror((int)err));
    return err ? address : NULL;
}

int main(int argc, char **argv)
{
    void *failed = NULL;
    return argc != 2 || gs_threads_run(NULL, get, argv[1], &failed) || failed;
}
