/* A JSON API with SQLite: POST /notes stores the text in its body, GET /notes?word=WORD lists those
 * that contain a word. The database, whose calls block, is called on other kernel threads. */
#include <arpa/inet.h>
#include <errno.h>
#include <gossamer/http_server.h>
#include <gossamer/io.h>
#include <gossamer/net.h>
#include <gossamer/sys.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

struct query {
    sqlite3 *db;
    const char *sql, *parameter;
    char *json; /* which SQLite writes; NULL: an error */
};

static void run_query(void *argument)
{
    struct query *query = argument;
    sqlite3_stmt *statement = NULL;
    if (!sqlite3_prepare_v2(query->db, query->sql, -1, &statement, NULL) &&
        !sqlite3_bind_text(statement, 1, query->parameter, -1, SQLITE_STATIC) &&
        sqlite3_step(statement) == SQLITE_ROW)
        query->json = sqlite3_mprintf("%s\n", sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
}

static void handle(struct gs_http_exchange *exchange, void *db)
{
    char text[1000] = "";
    bool is_post = !strcmp(exchange->method, "POST");
    struct query query = {.db = db, .parameter = text};
    query.sql = is_post ? "INSERT INTO notes(text) VALUES(?) RETURNING json_object('id', id)"
                        : "SELECT json_group_array(text) FROM notes WHERE instr(text, ?)";
    ssize_t n = is_post ? gs_http_read_all(exchange, text, sizeof text - 1)
                        : gs_http_query_value(exchange->query, "word", text, sizeof text);
    if (strcmp(exchange->path, "/notes") != 0)
        (void)!gs_http_respond(exchange, 404, "application/json", "{}\n", 3);
    else if (n >= 0 || n == -ENOENT)
        (void)!gs_run_blocking(run_query, &query, gs_clock_now() + 5 * GS_SECOND);
    if (query.json)
        (void)!gs_http_respond(exchange, is_post ? 201 : 200, "application/json", query.json,
                               strlen(query.json));
    sqlite3_free(query.json); /* without a response, it is 400, 408, 413 or 500 */
}

static struct gs_http_server server = {.handler = handle};

static void *serve(void *listener)
{
    return (void *)(intptr_t)gs_http_serve(*(int *)listener, &server);
}

static void *run(void *listener)
{
    struct gs_thread *thread;
    if (gs_thread_spawn(NULL, serve, listener, &thread) || gs_wait_signal(SIGTERM, GS_NEVER))
        return NULL;
    gs_thread_cancel(thread);
    return (void *)(intptr_t)gs_thread_join(thread, GS_NEVER, NULL);
}

int main(void)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    sqlite3 *db;
    int fd = gs_listen("127.0.0.1:0", NULL); /* a free port */
    if (fd < 0 || gs_sys_getsockname(fd, (struct sockaddr *)&address, &length) ||
        sqlite3_open(":memory:", &db) ||
        sqlite3_exec(db, "CREATE TABLE notes(id INTEGER PRIMARY KEY, text)", NULL, NULL, NULL))
        return 1;
    printf("serving http://127.0.0.1:%d/notes\n", ntohs(address.sin_port));
    server.data = db;
    return fflush(stdout) || gs_threads_run(NULL, run, &fd, NULL) || sqlite3_close(db);
}
