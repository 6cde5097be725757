#include "http/media_type.h"
#include "tests/test.h"

#define UNKNOWN "application/octet-stream"

static const char *type(const char *path)
{
    return gs_http_media_type((struct gs_http_text){path, strlen(path)});
}

TEST(text_types_include_the_charset)
{
    CHECK_STR(type("index.html"), "text/html; charset=utf-8");
    CHECK_STR(type("a/b/old.htm"), "text/html; charset=utf-8");
    CHECK_STR(type("style.css"), "text/css; charset=utf-8");
    CHECK_STR(type("app.js"), "text/javascript; charset=utf-8");
    CHECK_STR(type("app.mjs"), "text/javascript; charset=utf-8");
    CHECK_STR(type("notes.txt"), "text/plain; charset=utf-8");
    CHECK_STR(type("table.csv"), "text/csv; charset=utf-8");
    CHECK_STR(type("README.md"), "text/markdown; charset=utf-8");
}

TEST(types_with_an_inherent_encoding_have_no_charset)
{
    CHECK_STR(type("data.json"), "application/json");
    CHECK_STR(type("feed.xml"), "application/xml");
    CHECK_STR(type("logo.svg"), "image/svg+xml");
    CHECK_STR(type("module.wasm"), "application/wasm");
}

static void check_known(const char *ending)
{
    char path[32];
    snprintf(path, sizeof path, "x.%s", ending);
    if (!strcmp(type(path), UNKNOWN))
        TEST_FAIL("no type for %s", ending);
    CHECK(strchr(type(path), '/'));
}

TEST(every_extension_of_the_table_is_found)
{
    const char *endings[] = {
        "3gp",      "7z",      "aac",         "apk",  "apng", "atom",  "avi",   "avif", "bmp",
        "br",       "bz2",     "c",           "cjs",  "conf", "crl",   "crt",   "css",  "csv",
        "deb",      "djvu",    "doc",         "docx", "dtd",  "eot",   "eps",   "epub", "flac",
        "flv",      "geojson", "gif",         "glb",  "gltf", "gz",    "h",     "heic", "heif",
        "htm",      "html",    "ico",         "ics",  "jar",  "jfif",  "jpeg",  "jpg",  "js",
        "json",     "jsonld",  "jxl",         "kml",  "log",  "m3u8",  "m4a",   "m4v",  "map",
        "markdown", "md",      "mid",         "midi", "mjs",  "mkv",   "mov",   "mp3",  "mp4",
        "mpeg",     "mpg",     "odp",         "ods",  "odt",  "oga",   "ogg",   "ogv",  "opus",
        "otf",      "pdf",     "png",         "ppt",  "pptx", "ps",    "rar",   "rss",  "rtf",
        "shtml",    "svg",     "svgz",        "tar",  "text", "tgz",   "tif",   "tiff", "toml",
        "ts",       "tsv",     "ttc",         "ttf",  "txt",  "vcf",   "vtt",   "wasm", "wav",
        "weba",     "webm",    "webmanifest", "webp", "woff", "woff2", "xhtml", "xls",  "xlsx",
        "xml",      "xsl",     "xz",          "yaml", "yml",  "zip",   "zst",
    };
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        check_known(endings[i]);
}

TEST(extension_is_found_in_upper_case)
{
    CHECK_STR(type("Picture.JPG"), "image/jpeg");
    CHECK_STR(type("INDEX.Html"), "text/html; charset=utf-8");
    CHECK_STR(type("font.WOFF2"), "font/woff2");
}

TEST(last_extension_of_the_last_segment_is_used)
{
    CHECK_STR(type("page.html.gz"), "application/gzip");
    CHECK_STR(type("archive.tar.xz"), "application/x-xz");
    CHECK_STR(type("site.css/logo.png"), "image/png");
    CHECK_STR(type("site.html/plain"), UNKNOWN);
    CHECK_STR(type("a..png"), "image/png");
    CHECK_STR(type(".hidden/.x.png"), "image/png");
}

TEST(names_without_a_known_extension_are_octet_streams)
{
    CHECK_STR(type(""), UNKNOWN);
    CHECK_STR(type("/"), UNKNOWN);
    CHECK_STR(type("Makefile"), UNKNOWN);
    CHECK_STR(type("trailing."), UNKNOWN);
    CHECK_STR(type(".html"), UNKNOWN);
    CHECK_STR(type("dir/.html"), UNKNOWN);
    CHECK_STR(type("x.unknown"), UNKNOWN);
    CHECK_STR(type("x.htmlx"), UNKNOWN);
    CHECK_STR(type("x.ht"), UNKNOWN);
    CHECK_STR(type("x.webmanifest"), "application/manifest+json");
    CHECK_STR(type("x.webmanifests"), UNKNOWN);
    CHECK_STR(type("x.0"), UNKNOWN);
    CHECK_STR(type("x.zzz"), UNKNOWN);
    CHECK_STR(gs_http_media_type((struct gs_http_text){NULL, 0}), UNKNOWN);
}

TEST(extension_may_contain_any_bytes)
{
    CHECK_STR(gs_http_media_type(GS_HTTP_TEXT("x.png\0")), UNKNOWN);
    CHECK_STR(gs_http_media_type(GS_HTTP_TEXT("x.\0")), UNKNOWN);
    CHECK_STR(type("x.\xff\xfe"), UNKNOWN);
    CHECK_STR(type("x.h\xc3\xa9"), UNKNOWN);
    CHECK_STR(type("x.@[`{"), UNKNOWN);
}
