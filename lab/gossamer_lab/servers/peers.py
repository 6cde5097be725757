"""The peers: other web servers, each with access logs off and small files cached."""

import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gossamer_lab import paths
from gossamer_lab.servers.ports import free_port
from gossamer_lab.servers.server import Launch, Server, Site

_NGINX = """\
daemon off;
{user}
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{
    use epoll;
    worker_connections {nginx_connections};
}}
http {{
    access_log off;
    sendfile off;
    types {{ text/html html; }}
    default_type application/octet-stream;
    keepalive_timeout 300s;
    keepalive_requests 1000000000;
    open_file_cache max=1000 inactive=300s;
    open_file_cache_valid 60s;
    client_body_temp_path {folder}/nginx-body;
    proxy_temp_path {folder}/nginx-proxy;
    fastcgi_temp_path {folder}/nginx-fastcgi;
    uwsgi_temp_path {folder}/nginx-uwsgi;
    scgi_temp_path {folder}/nginx-scgi;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        root {root};
    }}
}}
"""

_LIGHTTPD = """\
server.bind = "127.0.0.1"
server.port = {port}
server.document-root = "{root}"
server.event-handler = "linux-sysepoll"
server.network-backend = "writev"
server.stat-cache-engine = "simple"
server.max-fds = {open_files}
server.max-connections = {connections}
server.listen-backlog = 4096
server.max-keep-alive-idle = 300
server.max-keep-alive-requests = 65535
server.compat-module-load = "disable"
server.modules = ( "mod_staticfile" )
mimetype.assign = ( ".html" => "text/html" )
"""

_H2O = """\
num-threads: 1
{user}
max-connections: {connections}
pid-file: {folder}/h2o.pid
error-log: /dev/stderr
http1-request-timeout: 300
compress: OFF
listen:
  host: 127.0.0.1
  port: {port}
hosts:
  default:
    paths:
      /:
        file.dir: {root}
"""


_APACHE = """\
<IfDefine !MODULES>
    Define MODULES /usr/lib/apache2/modules
</IfDefine>
ServerRoot {folder}
LoadModule mpm_worker_module ${{MODULES}}/mod_mpm_worker.so
LoadModule authz_core_module ${{MODULES}}/mod_authz_core.so
{user}
ServerName localhost
Listen 127.0.0.1:{port}
ListenBacklog 4096
PidFile {folder}/apache2.pid
ErrorLog /dev/stderr
DocumentRoot {root}
KeepAlive On
KeepAliveTimeout 300
MaxKeepAliveRequests 0
StartServers 18
ServerLimit 18
ThreadsPerChild 64
MaxRequestWorkers 1152
MinSpareThreads 1152
MaxSpareThreads 1152
MaxConnectionsPerChild 0
"""


def _written(template: str, name: str, site: Site, user: str) -> tuple[Path, str, int]:
    """Write a configuration for a free port; return its path, its text and the port."""
    port = free_port()
    text = template.format(
        root=site.root,
        folder=site.folder,
        port=port,
        user=user if os.geteuid() == 0 else "",
        open_files=site.open_files,
        connections=site.open_files // 2,
        # When fewer than a sixteenth of these are free, nginx closes idle ones.
        nginx_connections=site.open_files * 9 // 10,
    )
    path = site.folder / f"{name}.conf"
    path.write_text(text)
    return path, text, port


def _nginx(program: Path, site: Site) -> Launch:
    path, text, port = _written(_NGINX, "nginx", site, "user root;")
    argv = (str(program), "-e", "stderr", "-p", str(site.folder), "-c", str(path))
    return Launch(argv, text, f"http://127.0.0.1:{port}")


def _lighttpd(program: Path, site: Site) -> Launch:
    path, text, port = _written(_LIGHTTPD, "lighttpd", site, "")
    return Launch((str(program), "-D", "-f", str(path)), text, f"http://127.0.0.1:{port}")


def _h2o(program: Path, site: Site) -> Launch:
    path, text, port = _written(_H2O, "h2o", site, "user: root")
    return Launch((str(program), "-m", "worker", "-c", str(path)), text, f"http://127.0.0.1:{port}")


def _apache(program: Path, site: Site) -> Launch:
    # It refuses to serve as root.
    for folder in {site.folder, site.root, site.root.parent}:
        folder.chmod(folder.stat().st_mode | 0o001)
    path, text, port = _written(_APACHE, "apache2", site, "User www-data\nGroup www-data")
    argv = (str(program), "-D", "FOREGROUND", "-f", str(path))
    return Launch(argv, text, f"http://127.0.0.1:{port}")


_PEERS: dict[str, tuple[str, Callable[[Path, Site], Launch]]] = {
    "nginx": ("one worker process, open_file_cache on, sendfile off", _nginx),
    "lighttpd": ("one process, epoll, stat cache", _lighttpd),
    "h2o": ("one thread, its cache of open files", _h2o),
    "apache2": ("worker: 18 processes of 64 threads", _apache),
}


def _version(program: Path) -> str:
    """Return the first line that the program says about its version."""
    try:
        said = subprocess.run(
            (str(program), "-v"), check=False, capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown ({error})"
    lines = (said.stdout + said.stderr).strip().splitlines()
    return lines[0].removeprefix("nginx version: ") if lines else "unknown"


def present_peers(names: tuple[str, ...]) -> list[Server]:
    """Return those of the named peers that this machine has."""
    found = []
    for name in names:
        program = paths.peer(name)
        if program:
            summary, configure = _PEERS[name]
            found.append(
                Server(name, False, summary, _version(program), partial(configure, program))
            )
    return found


def absent_peers(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of the named peers that this machine does not have."""
    return tuple(name for name in names if not paths.peer(name))
