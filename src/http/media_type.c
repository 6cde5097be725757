#include "http/media_type.h"

#define UTF8 "; charset=utf-8"
#define EXTENSION_MAX 11

struct entry {
    char extension[EXTENSION_MAX + 1];
    const char *type;
};

/* Sorted by memcmp, for the binary search. */
static const struct entry entries[] = {
    {"3gp", "video/3gpp"},
    {"7z", "application/x-7z-compressed"},
    {"aac", "audio/aac"},
    {"apk", "application/vnd.android.package-archive"},
    {"apng", "image/apng"},
    {"atom", "application/atom+xml"},
    {"avi", "video/x-msvideo"},
    {"avif", "image/avif"},
    {"bmp", "image/bmp"},
    {"br", "application/x-brotli"},
    {"bz2", "application/x-bzip2"},
    {"c", "text/plain" UTF8},
    {"cjs", "text/javascript" UTF8},
    {"conf", "text/plain" UTF8},
    {"crl", "application/pkix-crl"},
    {"crt", "application/x-x509-ca-cert"},
    {"css", "text/css" UTF8},
    {"csv", "text/csv" UTF8},
    {"deb", "application/vnd.debian.binary-package"},
    {"djvu", "image/vnd.djvu"},
    {"doc", "application/msword"},
    {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {"dtd", "application/xml-dtd"},
    {"eot", "application/vnd.ms-fontobject"},
    {"eps", "application/postscript"},
    {"epub", "application/epub+zip"},
    {"flac", "audio/flac"},
    {"flv", "video/x-flv"},
    {"geojson", "application/geo+json"},
    {"gif", "image/gif"},
    {"glb", "model/gltf-binary"},
    {"gltf", "model/gltf+json"},
    {"gz", "application/gzip"},
    {"h", "text/plain" UTF8},
    {"heic", "image/heic"},
    {"heif", "image/heif"},
    {"htm", "text/html" UTF8},
    {"html", "text/html" UTF8},
    {"ico", "image/vnd.microsoft.icon"},
    {"ics", "text/calendar" UTF8},
    {"jar", "application/java-archive"},
    {"jfif", "image/jpeg"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", "text/javascript" UTF8},
    {"json", "application/json"},
    {"jsonld", "application/ld+json"},
    {"jxl", "image/jxl"},
    {"kml", "application/vnd.google-earth.kml+xml"},
    {"log", "text/plain" UTF8},
    {"m3u8", "application/vnd.apple.mpegurl"},
    {"m4a", "audio/mp4"},
    {"m4v", "video/mp4"},
    {"map", "application/json"},
    {"markdown", "text/markdown" UTF8},
    {"md", "text/markdown" UTF8},
    {"mid", "audio/midi"},
    {"midi", "audio/midi"},
    {"mjs", "text/javascript" UTF8},
    {"mkv", "video/matroska"},
    {"mov", "video/quicktime"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"mpeg", "video/mpeg"},
    {"mpg", "video/mpeg"},
    {"odp", "application/vnd.oasis.opendocument.presentation"},
    {"ods", "application/vnd.oasis.opendocument.spreadsheet"},
    {"odt", "application/vnd.oasis.opendocument.text"},
    {"oga", "audio/ogg"},
    {"ogg", "audio/ogg"},
    {"ogv", "video/ogg"},
    {"opus", "audio/ogg"},
    {"otf", "font/otf"},
    {"pdf", "application/pdf"},
    {"png", "image/png"},
    {"ppt", "application/vnd.ms-powerpoint"},
    {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
    {"ps", "application/postscript"},
    {"rar", "application/vnd.rar"},
    {"rss", "application/rss+xml"},
    {"rtf", "application/rtf"},
    {"shtml", "text/html" UTF8},
    {"svg", "image/svg+xml"},
    {"svgz", "image/svg+xml"},
    {"tar", "application/x-tar"},
    {"text", "text/plain" UTF8},
    {"tgz", "application/gzip"},
    {"tif", "image/tiff"},
    {"tiff", "image/tiff"},
    {"toml", "application/toml"},
    {"ts", "video/mp2t"},
    {"tsv", "text/tab-separated-values" UTF8},
    {"ttc", "font/collection"},
    {"ttf", "font/ttf"},
    {"txt", "text/plain" UTF8},
    {"vcf", "text/vcard" UTF8},
    {"vtt", "text/vtt" UTF8},
    {"wasm", "application/wasm"},
    {"wav", "audio/wav"},
    {"weba", "audio/webm"},
    {"webm", "video/webm"},
    {"webmanifest", "application/manifest+json"},
    {"webp", "image/webp"},
    {"woff", "font/woff"},
    {"woff2", "font/woff2"},
    {"xhtml", "application/xhtml+xml"},
    {"xls", "application/vnd.ms-excel"},
    {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {"xml", "application/xml"},
    {"xsl", "application/xslt+xml"},
    {"xz", "application/x-xz"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"zip", "application/zip"},
    {"zst", "application/zstd"},
};

/* Get the extension in lower case, padded with NUL. Returns false if there is none, or if it is
 * longer than all in the table. */
static bool find_extension(struct gs_http_text path, char ret_extension[EXTENSION_MAX + 1])
{
    const char *slash = memrchr(path.bytes, '/', path.n);
    const char *name = slash ? slash + 1 : path.bytes, *end = path.bytes + path.n;
    const char *dot = memrchr(name, '.', (size_t)(end - name));
    if (!dot || dot == name || end - (dot + 1) > EXTENSION_MAX)
        return false;
    memset(ret_extension, 0, EXTENSION_MAX + 1);
    for (const char *c = dot + 1; c < end; c++) {
        if (!*c)
            return false;
        *ret_extension++ = *c >= 'A' && *c <= 'Z' ? (char)(*c + ('a' - 'A')) : *c;
    }
    return true;
}

const char *gs_http_media_type(struct gs_http_text path)
{
    char extension[EXTENSION_MAX + 1];
    if (path.n && find_extension(path, extension)) {
        size_t low = 0, high = sizeof entries / sizeof *entries;
        while (low < high) {
            size_t middle = (low + high) / 2;
            int order = memcmp(extension, entries[middle].extension, sizeof extension);
            if (order == 0)
                return entries[middle].type;
            if (order < 0)
                high = middle;
            else
                low = middle + 1;
        }
    }
    return "application/octet-stream";
}

static bool begins_with(struct gs_http_text text, const char *start)
{
    size_t n = strlen(start);
    return text.n >= n && !memcmp(text.bytes, start, n);
}

static bool ends_with(struct gs_http_text text, const char *end)
{
    size_t n = strlen(end);
    return text.n >= n && !memcmp(text.bytes + text.n - n, end, n);
}

bool gs_http_media_type_is_compressible(struct gs_http_text type)
{
    static const char *const others[] = {
        "application/json",
        "application/javascript",
        "application/postscript",
        "application/rtf",
        "application/toml",
        "application/vnd.apple.mpegurl",
        "application/vnd.ms-fontobject",
        "application/wasm",
        "application/x-tar",
        "application/xml",
        "application/xml-dtd",
        "application/yaml",
        "font/collection",
        "font/otf",
        "font/ttf",
        "image/bmp",
        "image/vnd.microsoft.icon",
        "model/gltf-binary",
    };
    const char *semicolon = type.n ? memchr(type.bytes, ';', type.n) : NULL;
    if (semicolon)
        type.n = (size_t)(semicolon - type.bytes);
    if (begins_with(type, "text/") || ends_with(type, "+json") || ends_with(type, "+xml"))
        return true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (gs_http_text_is(type, others[i]))
            return true;
    return false;
}
