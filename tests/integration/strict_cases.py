"""Requests and the statuses with which RFC 9110 and 9112 have them answered or refused."""

HOST = b"Host: x\r\n"


def line(text: bytes) -> bytes:
    """Return a request with this request line."""
    return text + b"\r\n" + HOST + b"\r\n"


def fields(text: bytes, method: bytes = b"GET") -> bytes:
    """Return a request with these raw field lines after Host."""
    return method + b" /a.txt HTTP/1.1\r\n" + HOST + text + b"\r\n"


def host(value: bytes) -> bytes:
    """Return a request whose Host has this value."""
    return b"GET /a.txt HTTP/1.1\r\nHost: " + value + b"\r\n\r\n"


def length(value: bytes) -> bytes:
    """Return a request whose Content-Length has this value, with five bytes of body."""
    return fields(b"Content-Length: " + value + b"\r\n") + b"abcde"


def coding(value: bytes) -> bytes:
    """Return a request whose Transfer-Encoding has this value, with a chunked body."""
    return fields(b"Transfer-Encoding: " + value + b"\r\n") + b"5\r\nabcde\r\n0\r\n\r\n"


def chunks(body: bytes) -> bytes:
    """Return a request with this raw chunked body."""
    return fields(b"Transfer-Encoding: chunked\r\n") + body


LINES = {
    "line ends with LF alone": (b"GET /a.txt HTTP/1.1\nHost: x\n\n", {400}),
    "only the request line ends with LF": (b"GET /a.txt HTTP/1.1\nHost: x\r\n\r\n", {400}),
    "only a field ends with LF": (b"GET /a.txt HTTP/1.1\r\nHost: x\nA: b\r\n\r\n", {400}),
    "only the header ends with LF": (b"GET /a.txt HTTP/1.1\r\nHost: x\r\n\n", {400}),
    "line ends with CR alone": (b"GET /a.txt HTTP/1.1\rHost: x\r\r", {400}),
    "line ends with CR CR LF": (b"GET /a.txt HTTP/1.1\r\r\nHost: x\r\n\r\n", {400}),
    "CR in the target": (line(b"GET /a\r.txt HTTP/1.1"), {400}),
    "CR instead of a space": (line(b"GET\r/a.txt HTTP/1.1"), {400}),
    "LF before the request": (b"\n" + line(b"GET /a.txt HTTP/1.1"), {400}),
    "CR before the request": (b"\r" + line(b"GET /a.txt HTTP/1.1"), {400}),
    "NUL before the request": (b"\0" + line(b"GET /a.txt HTTP/1.1"), {400}),
    "space before the request": (line(b" GET /a.txt HTTP/1.1"), {400}),
    "NUL in the method": (line(b"G\0T /a.txt HTTP/1.1"), {400}),
    "NUL in the target": (line(b"GET /a.txt\0 HTTP/1.1"), {400}),
    "control in the target": (line(b"GET /a\x01.txt HTTP/1.1"), {400}),
    "DEL in the target": (line(b"GET /a\x7f.txt HTTP/1.1"), {400}),
    "high byte in the target": (line(b"GET /d\xe4.txt HTTP/1.1"), {400}),
    "overlong slash in the target": (line(b"GET /..\xc0\xafa.txt HTTP/1.1"), {400}),
    "half a UTF-8 character": (line(b"GET /a.txt\xc3 HTTP/1.1"), {400}),
    "UTF-8 in the host of the target": (line(b"GET http://\xc3\xa4/a.txt HTTP/1.1"), {400}),
    "tab instead of the first space": (line(b"GET\t/a.txt HTTP/1.1"), {400}),
    "tab instead of the second space": (line(b"GET /a.txt\tHTTP/1.1"), {400}),
    "two spaces before the target": (line(b"GET  /a.txt HTTP/1.1"), {400}),
    "two spaces before the version": (line(b"GET /a.txt  HTTP/1.1"), {400}),
    "space after the version": (line(b"GET /a.txt HTTP/1.1 "), {400}),
    "tab after the version": (line(b"GET /a.txt HTTP/1.1\t"), {400}),
    "space in the target": (line(b"GET /a.txt /b HTTP/1.1"), {400}),
    "form feed for a space": (line(b"GET\x0c/a.txt HTTP/1.1"), {400}),
    "no version": (b"GET /a.txt\r\n\r\n", {400}),
    "no version, with a space": (b"GET /a.txt \r\n\r\n", {400}),
    "method alone": (b"GET\r\n\r\n", {400}),
    "no method": (line(b"/a.txt HTTP/1.1"), {400}),
    "brackets in the method": (line(b"GET() /a.txt HTTP/1.1"), {400}),
    "colon in the method": (line(b"GET: /a.txt HTTP/1.1"), {400}),
    "high byte in the method": (line(b"G\xc9T /a.txt HTTP/1.1"), {400}),
    "version in small letters": (line(b"GET /a.txt http/1.1"), {400}),
    "version with two digits": (line(b"GET /a.txt HTTP/1.10"), {400}),
    "version with two first digits": (line(b"GET /a.txt HTTP/01.1"), {400}),
    "version without a point": (line(b"GET /a.txt HTTP/11"), {400}),
    "version without a minor": (line(b"GET /a.txt HTTP/1."), {400}),
    "version without a major": (line(b"GET /a.txt HTTP/.1"), {400}),
    "version with a comma": (line(b"GET /a.txt HTTP/1,1"), {400}),
    "version with a sign": (line(b"GET /a.txt HTTP/+1.1"), {400}),
    "version with a space": (line(b"GET /a.txt HTTP/ 1.1"), {400}),
    "version with more behind": (line(b"GET /a.txt HTTP/1.1x"), {400}),
    "another protocol": (line(b"GET /a.txt HTTPS/1.1"), {400}),
    "version 0.9": (line(b"GET /a.txt HTTP/0.9"), {400, 505}),
    "version 2.0": (line(b"GET /a.txt HTTP/2.0"), {505}),
    "version 9.9": (line(b"GET /a.txt HTTP/9.9"), {505}),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", {400}),
    "fragment": (line(b"GET /a.txt#top HTTP/1.1"), {400}),
    "fragment in a query": (line(b"GET /a.txt?a#top HTTP/1.1"), {400}),
    "target without a slash": (line(b"GET a.txt HTTP/1.1"), {400}),
    "empty target": (line(b"GET  HTTP/1.1"), {400}),
    "asterisk": (line(b"GET * HTTP/1.1"), {400}),
    "authority": (line(b"GET x:80 HTTP/1.1"), {400}),
    "path for CONNECT": (line(b"CONNECT /a.txt HTTP/1.1"), {400}),
    "absolute without a host": (line(b"GET http:///a.txt HTTP/1.1"), {400}),
    "absolute with a user": (line(b"GET http://u:p@x/a.txt HTTP/1.1"), {400}),
    "absolute with a bad port": (line(b"GET http://x:y/a.txt HTTP/1.1"), {400}),
    "another scheme": (line(b"GET ftp://x/a.txt HTTP/1.1"), {400}),
    "what only TLS could bring": (line(b"GET https://x/a.txt HTTP/1.1"), {421}),
    "quotation mark in the target": (line(b'GET /a.txt?"x HTTP/1.1'), {400}),
    "angle bracket in the target": (line(b"GET /a.txt?<x HTTP/1.1"), {400}),
    "back slash for a slash": (line(b"GET \\a.txt HTTP/1.1"), {400}),
    "line too long": (line(b"GET /" + b"x" * 8192 + b" HTTP/1.1"), {414}),
    "line too long and no end": (b"GET /" + b"x" * 9000, {414}),
    "method too long": (line(b"G" * 9000 + b" /a.txt HTTP/1.1"), {501}),
    "method too long and no end": (b"G" * 9000, {501}),
}

HOSTS = {
    "no Host": (b"GET /a.txt HTTP/1.1\r\nA: b\r\n\r\n", {400}),
    "no field at all": (b"GET /a.txt HTTP/1.1\r\n\r\n", {400}),
    "no Host beside an absolute target": (b"GET http://x/a.txt HTTP/1.1\r\n\r\n", {400}),
    "Host twice": (fields(HOST), {400}),
    "two Hosts": (fields(b"Host: y\r\n"), {400}),
    "two Hosts in small letters": (fields(b"host: y\r\n"), {400}),
    "Host with a space": (host(b"x y"), {400}),
    "Host with a list": (host(b"x, y"), {400}),
    "Host with a path": (host(b"x/y"), {400}),
    "Host with a query": (host(b"x?y"), {400}),
    "Host with a fragment": (host(b"x#y"), {400}),
    "Host with a user": (host(b"u@x"), {400}),
    "Host with a scheme": (host(b"http://x"), {400}),
    "Host with a bad port": (host(b"x:y"), {400}),
    "Host with a port too large": (host(b"x:65536"), {400}),
    "Host with two ports": (host(b"x:80:80"), {400}),
    "Host with an open bracket": (host(b"[::1"), {400}),
    "Host with bad IPv6": (host(b"[::g]"), {400}),
    "Host with IPv6 without brackets": (host(b"::1"), {400}),
    "Host with a high byte": (host(b"\xe4"), {400}),
    "Host with a back slash": (host(b"x\\y"), {400}),
}

FIELDS = {
    "space before the colon": (fields(b"A : b\r\n"), {400}),
    "tab before the colon": (fields(b"A\t: b\r\n"), {400}),
    "space before Host's colon": (b"GET /a.txt HTTP/1.1\r\nHost : x\r\n\r\n", {400}),
    "space before the first field": (b"GET /a.txt HTTP/1.1\r\n A: b\r\nHost: x\r\n\r\n", {400}),
    "folded line": (fields(b"A: b\r\n c\r\n"), {400}),
    "line folded by a tab": (fields(b"A: b\r\n\tc\r\n"), {400}),
    "folded empty line": (fields(b"A: b\r\n \r\n"), {400}),
    "no colon": (fields(b"field\r\n"), {400}),
    "no name": (fields(b": b\r\n"), {400}),
    "space in the name": (fields(b"A B: c\r\n"), {400}),
    "brackets in the name": (fields(b"A(b): c\r\n"), {400}),
    "slash in the name": (fields(b"A/b: c\r\n"), {400}),
    "high byte in the name": (fields(b"\xc4: b\r\n"), {400}),
    "NUL in the name": (fields(b"A\0: b\r\n"), {400}),
    "NUL in the value": (fields(b"A: b\0c\r\n"), {400}),
    "CR in the value": (fields(b"A: b\rc\r\n"), {400}),
    "LF in the value": (fields(b"A: b\nC: d\r\n"), {400}),
    "control in the value": (fields(b"A: b\x01\r\n"), {400}),
    "DEL in the value": (fields(b"A: b\x7f\r\n"), {400}),
    "escape in the value": (fields(b"A: \x1b[31m\r\n"), {400}),
    "too many fields": (fields(b"A: b\r\n" * 100), {431}),
    "header too large": (fields(b"A: " + b"b" * 33000 + b"\r\n"), {431}),
    "header too large and no end": (fields(b"A: b\r\n" * 9000)[:-2], {431}),
    "unknown expectation": (fields(b"Expect: miracles\r\n"), {417}),
    "unknown expectation beside another": (fields(b"Expect: 100-continue, miracles\r\n"), {417}),
    "unknown expectation behind another": (
        fields(b"Expect: 100-continue\r\nExpect: miracles\r\n"),
        {417},
    ),
}

LENGTHS = {
    "length twice": (fields(b"Content-Length: 5\r\n" * 2) + b"abcde", {400}),
    "two lengths": (fields(b"Content-Length: 5\r\nContent-Length: 6\r\n") + b"abcde", {400}),
    "lengths in a list": (length(b"5, 5"), {400}),
    "differing lengths in a list": (length(b"5, 6"), {400}),
    "length with a comma": (length(b"5,"), {400}),
    "length with a plus": (length(b"+5"), {400}),
    "length with a minus": (length(b"-5"), {400}),
    "negative zero": (length(b"-0"), {400}),
    "hexadecimal length": (length(b"0x5"), {400}),
    "length with a point": (length(b"5.0"), {400}),
    "length with an exponent": (length(b"5e0"), {400}),
    "length with a letter": (length(b"5a"), {400}),
    "length with a space": (length(b"5 5"), {400}),
    "length with an underscore": (length(b"1_0"), {400}),
    "empty length": (length(b""), {400}),
    "quoted length": (length(b'"5"'), {400}),
    "length of 2 to the 64th and 5": (length(b"18446744073709551621"), {400, 413}),
    "length with 30 digits": (length(b"9" * 30), {400, 413}),
    "length above the limit": (length(b"1048577"), {413}),
    "length and coding": (fields(b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), {400}),
    "coding and length": (fields(b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), {400}),
    "length and unknown coding": (
        fields(b"Content-Length: 5\r\nTransfer-Encoding: x\r\n") + b"abcde",
        {400, 501},
    ),
    "space before the length's colon": (fields(b"Content-Length : 5\r\n") + b"abcde", {400}),
}

CODINGS = {
    "unknown coding": (coding(b"gzip"), {400}),
    "identity": (coding(b"identity"), {400}),
    "unknown coding before chunked": (coding(b"gzip, chunked"), {400, 501}),
    "chunked is not the last": (coding(b"chunked, gzip"), {400}),
    "chunked twice": (coding(b"chunked, chunked"), {400}),
    "chunked twice in two fields": (
        fields(b"Transfer-Encoding: chunked\r\n" * 2) + b"0\r\n\r\n",
        {400},
    ),
    "chunked and identity in two fields": (
        fields(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n") + b"0\r\n\r\n",
        {400},
    ),
    "identity and chunked in two fields": (
        fields(b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n") + b"0\r\n\r\n",
        {400, 501},
    ),
    "empty coding": (coding(b""), {400, 501}),
    "nearly chunked": (coding(b"xchunked"), {400}),
    "chunked and more": (coding(b"chunkedx"), {400}),
    "chunked with a space": (coding(b"chu nked"), {400}),
    "chunked with a parameter": (coding(b"chunked;a=b"), {400}),
    "quoted chunked": (coding(b'"chunked"'), {400}),
    "chunked with a vertical tab": (coding(b"\x0bchunked"), {400}),
    "chunked folded": (fields(b"Transfer-Encoding:\r\n chunked\r\n") + b"0\r\n\r\n", {400}),
    "space before the coding's colon": (
        fields(b"Transfer-Encoding : chunked\r\n") + b"0\r\n\r\n",
        {400},
    ),
    "coding in 1.0": (
        b"GET /a.txt HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        {400},
    ),
}

CHUNKS = {
    "size that is none": (chunks(b"g\r\n"), {400}),
    "empty size": (chunks(b"\r\n"), {400}),
    "size with a minus": (chunks(b"-1\r\na\r\n0\r\n\r\n"), {400}),
    "size with a plus": (chunks(b"+1\r\na\r\n0\r\n\r\n"), {400}),
    "size with 0x": (chunks(b"0x1\r\na\r\n0\r\n\r\n"), {400}),
    "size with a space before": (chunks(b" 1\r\na\r\n0\r\n\r\n"), {400}),
    "size with a space behind": (chunks(b"1 \r\na\r\n0\r\n\r\n"), {400}),
    "size with an underscore": (chunks(b"1_0\r\na\r\n0\r\n\r\n"), {400}),
    "size above 64 bits": (chunks(b"10000000000000001\r\na\r\n0\r\n\r\n"), {400, 413}),
    "size of 64 bits": (chunks(b"ffffffffffffffff\r\na\r\n0\r\n\r\n"), {400, 413}),
    "size of 63 bits": (chunks(b"7fffffffffffffff\r\na\r\n0\r\n\r\n"), {400, 413}),
    "size above the limit": (chunks(b"100001\r\n" + b"a" * 99), {413}),
    "size line ends with LF": (chunks(b"1\na\r\n0\r\n\r\n"), {400}),
    "size line ends with CR": (chunks(b"1\ra\r\n0\r\n\r\n"), {400}),
    "more data than announced": (chunks(b"1\r\nab\r\n0\r\n\r\n"), {400}),
    "data ends with LF": (chunks(b"1\r\na\n0\r\n\r\n"), {400}),
    "data ends with CR": (chunks(b"1\r\na\r0\r\n\r\n"), {400}),
    "no end of data": (chunks(b"1\r\na0\r\n\r\n"), {400}),
    "LF in an extension": (chunks(b"1;a\nb\r\na\r\n0\r\n\r\n"), {400}),
    "CR in an extension": (chunks(b"1;a\rb\r\na\r\n0\r\n\r\n"), {400}),
    "NUL in an extension": (chunks(b"1;a\0\r\na\r\n0\r\n\r\n"), {400}),
    "endless extension": (chunks(b"1;" + b"a" * 70000), {400, 413, 431}),
    "last chunk ends with LF": (chunks(b"0\n\r\n"), {400}),
    "body ends with LF": (chunks(b"0\r\n\n"), {400}),
    "folded trailer": (chunks(b"0\r\nA: b\r\n c\r\n\r\n"), {400}),
    "trailer without a colon": (chunks(b"0\r\nfield\r\n\r\n"), {400}),
    "trailer with a space before its colon": (chunks(b"0\r\nA : b\r\n\r\n"), {400}),
    "LF in a trailer": (chunks(b"0\r\nA: b\n\r\n"), {400}),
    "endless trailer": (chunks(b"0\r\n" + b"A: b\r\n" * 20000), {400, 413, 431}),
}

REFUSED: dict[str, tuple[bytes, set[int]]] = LINES | HOSTS | FIELDS | LENGTHS | CODINGS | CHUNKS

ACCEPTED: dict[str, bytes] = {
    "empty line before": b"\r\n" + fields(b""),
    "empty lines before": b"\r\n\r\n\r\n" + fields(b""),
    "no space after the colon": b"GET /a.txt HTTP/1.1\r\nHost:x\r\nA:b\r\n\r\n",
    "spaces and tabs around a value": fields(b"A: \t b \t \r\n"),
    "spaces within a value": fields(b"A: b  c\td\r\n"),
    "empty value": fields(b"A:\r\nB: \r\n"),
    "UTF-8 in the query": line(b"GET /a.txt?\xc3\xa4=\xf0\x9f\x98\x80 HTTP/1.1"),
    "high bytes in a value": fields(b"A: \xc3\xa4\xff\r\n"),
    "names in any letters": b"GET /a.txt HTTP/1.1\r\nhOST: x\r\nCONTENT-length: 3\r\n\r\nabc",
    "every character of a name": fields(b"!#$%&'*+-.^_`|~0aZ: b\r\n"),
    "colons in a value": fields(b"A: b: c: d\r\n"),
    "the same name often": fields(b"A: b\r\n" * 50),
    "100 fields": fields(b"A: b\r\n" * 99),
    "longest line": line(b"GET /a.txt?" + b"x" * (8192 - 20) + b" HTTP/1.1"),
    "Host with a port": host(b"x:80"),
    "Host with an empty port": host(b"x:"),
    "Host with IPv4": host(b"127.0.0.1:8080"),
    "Host with IPv6": host(b"[::1]:8080"),
    "Host in capitals": host(b"EXAMPLE.ORG"),
    "Host beside an absolute target": line(b"GET http://other:80/a.txt HTTP/1.1"),
    "query": line(b"GET /a.txt?a=b&c=/../?x HTTP/1.1"),
    "higher minor version": line(b"GET /a.txt HTTP/1.2"),
    "length of zero": fields(b"Content-Length: 0\r\n"),
    "length with zeros before": length(b"0000005"),
    "length with spaces around": length(b"  5\t"),
    "chunked": chunks(b"5\r\nabcde\r\n0\r\n\r\n"),
    "chunked in any letters": coding(b"CHunkeD"),
    "chunks of nothing": chunks(b"0\r\n\r\n"),
    "size with zeros before": chunks(b"0000000000000005\r\nabcde\r\n0000\r\n\r\n"),
    "size in any letters": chunks(b"A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n"),
    "extensions": chunks(b"1;a\r\na\r\n1;a=b;c=d\r\na\r\n0;last\r\n\r\n"),
    "quoted extension": chunks(b'1;a="b;\tc"\r\na\r\n0\r\n\r\n'),
    "trailers": chunks(b"0\r\nA: b\r\nContent-Length: 5\r\n\r\n"),
    "request within a body": length(b"5")[:-5] + b"GET /",
    "name that only looks like a coding": fields(b"Transfer_Encoding: chunked\r\n"),
    "keep-alive in a list": fields(b"Connection: , keep-alive ,,x\r\n"),
    "Upgrade to something else": fields(b"Connection: upgrade\r\nUpgrade: h2c\r\n"),
}

ANSWERED: dict[str, tuple[bytes, int]] = {
    "method in small letters": (line(b"get /a.txt HTTP/1.1"), 501),
    "unknown method": (line(b"BREW /a.txt HTTP/1.1"), 501),
    "nearly GET": (line(b"GETX /a.txt HTTP/1.1"), 501),
    "POST": (fields(b"Content-Length: 5\r\n", b"POST") + b"abcde", 405),
    "POST without a body": (fields(b"", b"POST"), 405),
    "PUT in chunks": (
        fields(b"Transfer-Encoding: chunked\r\n", b"PUT") + b"5\r\nabcde\r\n0\r\n\r\n",
        405,
    ),
    "DELETE": (fields(b"", b"DELETE"), 405),
    "TRACE": (fields(b"", b"TRACE"), 405),
    "CONNECT": (line(b"CONNECT x:80 HTTP/1.1"), 405),
    "OPTIONS": (fields(b"", b"OPTIONS"), 200),
    "OPTIONS for all": (line(b"OPTIONS * HTTP/1.1"), 200),
}
