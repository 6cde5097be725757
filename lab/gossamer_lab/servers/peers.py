"""The peers: other web servers, found in ``peers/bin`` or on the path."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gossamer_lab import paths
from gossamer_lab.experiments.manifest import PATIENT
from gossamer_lab.servers import configurations
from gossamer_lab.servers.configurations import write_config
from gossamer_lab.servers.ports import free_port, free_ports
from gossamer_lab.servers.server import Launch, Server, Site

_VERSION_S = 60.0


def _nginx(program: Path, site: Site) -> Launch:
    config = write_config(
        configurations.NGINX, "nginx", site, "user root;", configurations.NGINX_TLS
    )
    argv = (str(program), "-e", "stderr", "-p", str(site.folder), "-c", str(config.path))
    return Launch(argv, config.text, config.url)


def _lighttpd(program: Path, site: Site) -> Launch:
    config = write_config(
        configurations.LIGHTTPD, "lighttpd", site, tls=configurations.LIGHTTPD_TLS
    )
    return Launch((str(program), "-D", "-f", str(config.path)), config.text, config.url)


def _h2o(program: Path, site: Site) -> Launch:
    config = write_config(configurations.H2O, "h2o", site, "user: root", configurations.H2O_TLS)
    return Launch((str(program), "-m", "worker", "-c", str(config.path)), config.text, config.url)


def _open_to_all(site: Site) -> None:
    """Make the pages accessible to a server that drops root privileges."""
    for folder in {site.folder, site.root, site.root.parent}:
        folder.chmod(folder.stat().st_mode | 0o001)


def _stock_apache(model: str, program: Path, site: Site) -> Launch:
    return _apache(model, program, site, is_stock=True)


def _apache(model: str, program: Path, site: Site, *, is_stock: bool = False) -> Launch:
    _open_to_all(site)
    template = configurations.apache(model, is_stock=is_stock)
    config = write_config(template, f"apache-{model}", site, "User www-data\nGroup www-data")
    argv = (str(program), "-D", "FOREGROUND", "-f", str(config.path))
    return Launch(argv, config.text, config.url)


def _mini_httpd(program: Path, site: Site) -> Launch:
    _open_to_all(site)
    port = str(free_port(site.address))
    argv = (str(program), "-D", "-h", site.address, "-p", port, "-d", str(site.root))
    return Launch(argv, url=f"http://{site.address}:{port}")


def _go(program: Path, site: Site) -> Launch:
    return Launch((str(program), str(site.root), site.address))


def _upstream(site: Site, port: int) -> tuple[str, ...]:
    """Return the command line of a server behind a proxy, which closes no idle connection."""
    options = ("--arch", "event", "--workers", "1", "--listen", f"{site.address}:{port}")
    limit = ("--max-connections", str(site.open_files * 9 // 10))
    return (str(paths.program()), "serve", *options, *limit, *PATIENT, str(site.root))


def certificate(folder: Path) -> Path:
    """Return a file with a P-256 key and its certificate; they are made at the first call."""
    both = folder / "certificate.pem"
    if not both.exists():
        key, certificate = folder / "certificate.key", folder / "certificate.crt"
        kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        names = ("-subj", "/CN=localhost", "-keyout", str(key), "-out", str(certificate))
        argv = ("openssl", "req", "-x509", "-days", "30", *kind, *names)
        subprocess.run(argv, check=True, capture_output=True, timeout=_VERSION_S)
        both.touch(0o600)
        both.write_text(key.read_text() + certificate.read_text())
    return both


def _stunnel(program: Path, site: Site) -> Launch:
    """Serve TLS in front of our server; clients come through another stunnel."""
    port, plain, upstream = free_ports(site.address, 3)
    values = {"address": site.address, "port": port, "plain": plain, "upstream": upstream}
    texts = {
        "stunnel": configurations.STUNNEL.format(certificate=certificate(site.folder), **values),
        "stunnel-client": configurations.STUNNEL_CLIENT.format(**values),
    }
    for name, text in texts.items():
        (site.folder / f"{name}.conf").write_text(text)
    argv, client = ((str(program), str(site.folder / f"{name}.conf")) for name in texts)
    url = f"http://{site.address}:{plain}"
    return Launch(argv, texts["stunnel"], url, (_upstream(site, upstream), client))


def _tinyproxy(program: Path, site: Site) -> Launch:
    port, upstream = free_ports(site.address, 2)
    path = site.folder / "tinyproxy.conf"
    text = configurations.TINYPROXY.format(address=site.address, port=port, upstream=upstream)
    path.write_text(text)
    argv = (str(program), "-d", "-c", str(path))
    return Launch(argv, text, f"http://{site.address}:{port}", (_upstream(site, upstream),))


@dataclass(frozen=True)
class _Peer:
    """Another server: its program, configuration, and version option."""

    program: str
    summary: str
    configure: Callable[[Path, Site], Launch]
    version: str = "-v"


_PEERS = {
    "nginx": _Peer("nginx", "one worker process, open_file_cache on, sendfile off", _nginx),
    "lighttpd": _Peer("lighttpd", "one process, epoll, stat cache", _lighttpd),
    "h2o": _Peer("h2o", "one thread, its cache of open files", _h2o),
    "apache-prefork": _Peer(
        "apache2", "256 processes of one connection each", partial(_apache, "prefork")
    ),
    "apache-worker": _Peer("apache2", "18 processes of 64 threads", partial(_apache, "worker")),
    "apache-event": _Peer(
        "apache2",
        "18 processes of 64 threads, idle connections hold no thread",
        partial(_apache, "event"),
    ),
    **{
        f"apache-{model}, stock": _Peer("apache2", summary, partial(_stock_apache, model))
        for model, summary in (
            ("prefork", "stock limits: up to 256 processes of one connection each"),
            ("worker", "stock limits: up to 16 processes of 25 threads"),
            ("event", "stock limits: up to 16 processes of 25 threads"),
        )
    },
    "mini-httpd": _Peer("mini_httpd", "a new process for each connection", _mini_httpd, "-V"),
    "stunnel": _Peer(
        "stunnel4", "a TLS tunnel with a thread for each connection", _stunnel, "-version"
    ),
    "tinyproxy": _Peer("tinyproxy", "a proxy with a thread for each connection", _tinyproxy),
    "go": _Peer("go-http", "Go's net/http: a goroutine for each connection", _go),
}


def version_line(program: str | Path, option: str) -> str:
    """Return the first line of the program's version output."""
    try:
        result = subprocess.run(
            (str(program), option), check=False, capture_output=True, text=True, timeout=_VERSION_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown ({error})"
    lines = (result.stdout + result.stderr).strip().splitlines()
    lines = [line for line in lines if not line.startswith("Initializing")]  # stunnel's
    return lines[0].removeprefix("nginx version: ") if lines else "unknown"


def peer_program(name: str) -> Path | None:
    """Return the program of a peer, None if it is not installed."""
    return paths.peer(_PEERS[name].program)


def present_peers(names: tuple[str, ...]) -> list[Server]:
    """Return those of the named peers that are installed."""
    found = []
    for name in names:
        peer, program = _PEERS[name], peer_program(name)
        if program:
            version = version_line(program, peer.version)
            configure = partial(peer.configure, program)
            found.append(Server(name, False, peer.summary, version, configure))
    return found


def absent_peers(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of the named peers that are not installed."""
    return tuple(name for name in names if not peer_program(name))
