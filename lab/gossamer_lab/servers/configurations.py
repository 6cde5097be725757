"""Configurations of the peers: no access log, small files cached, many connections allowed."""

import os
from dataclasses import dataclass
from pathlib import Path

from gossamer_lab.servers.ports import free_port
from gossamer_lab.servers.server import Site

NGINX = """\
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
        listen {address}:{port} {nginx_tls} backlog=4096;
        root {root};
    }}
    {tls}
}}
"""

NGINX_TLS = """\
ssl_certificate {certificate};
    ssl_certificate_key {certificate};
    ssl_protocols TLSv1.3;\
"""

LIGHTTPD = """\
server.bind = "{address}"
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
{tls}
"""

LIGHTTPD_TLS = """\
server.modules += ( "mod_openssl" )
ssl.engine = "enable"
ssl.pemfile = "{certificate}"
ssl.openssl.ssl-conf-cmd = ( "MinProtocol" => "TLSv1.3" )\
"""

H2O = """\
num-threads: 1
{user}
max-connections: {connections}
pid-file: {folder}/h2o.pid
error-log: /dev/stderr
http1-request-timeout: 300
compress: OFF
listen:
  host: {address}
  port: {port}
{tls}
hosts:
  default:
    paths:
      /:
        file.dir: {root}
"""

H2O_TLS = """\
  ssl:
    certificate-file: {certificate}
    key-file: {certificate}
    minimum-version: TLSv1.3\
"""

STUNNEL = """\
foreground = yes
pid =
syslog = no
debug = err
cert = {certificate}
[server]
accept = {address}:{port}
connect = {address}:{upstream}
TIMEOUTidle = 600
"""

STUNNEL_CLIENT = """\
foreground = yes
pid =
syslog = no
debug = err
client = yes
[client]
accept = {address}:{plain}
connect = {address}:{port}
TIMEOUTidle = 600
"""

TINYPROXY = """\
Listen {address}
Port {port}
Timeout 600
MaxClients 10000
LogLevel Critical
DisableViaHeader Yes
ReverseOnly Yes
ReversePath "/" "http://{address}:{upstream}/"
"""

_APACHE = """\
<IfDefine !MODULES>
    Define MODULES /usr/lib/apache2/modules
</IfDefine>
ServerRoot {folder}
LoadModule mpm_MODEL_module ${{MODULES}}/mod_mpm_MODEL.so
LoadModule authz_core_module ${{MODULES}}/mod_authz_core.so
{user}
ServerName localhost
Listen {address}:{port}
PidFile {folder}/apache2.pid
ErrorLog /dev/stderr
DocumentRoot {root}
"""

_APACHE_RAISED = """\
ListenBacklog 4096
KeepAlive On
KeepAliveTimeout 300
MaxKeepAliveRequests 0
MaxConnectionsPerChild 0
"""

_APACHE_PROCESSES = """\
StartServers 256
ServerLimit 256
MaxRequestWorkers 256
MinSpareServers 1
MaxSpareServers 256
"""

_APACHE_THREADS = """\
StartServers 18
ServerLimit 18
ThreadsPerChild 64
MaxRequestWorkers 1152
MinSpareThreads 1152
MaxSpareThreads 1152
"""


@dataclass(frozen=True)
class WrittenConfig:
    """A configuration, as a file and as text, and the URL of its server."""

    path: Path
    text: str
    url: str


def apache(model: str, *, is_stock: bool = False) -> str:
    """Return the template of Apache's configuration with one of its MPMs.

    With `is_stock` its limits are those that are compiled into it.
    """
    sizes = _APACHE_PROCESSES if model == "prefork" else _APACHE_THREADS
    raised = "" if is_stock else _APACHE_RAISED + sizes
    return _APACHE.replace("MODEL", model) + raised


def write_config(
    template: str, name: str, site: Site, user: str = "", tls: str = ""
) -> WrittenConfig:
    """Write a configuration for a free port; with the user directive only if run by root.

    `tls` is its part for TLS, which is used if the site has a certificate.
    """
    port = free_port(site.address)
    text = template.format(
        root=site.root,
        folder=site.folder,
        address=site.address,
        port=port,
        user=user if os.geteuid() == 0 else "",
        tls=tls.format(certificate=site.certificate) if site.certificate else "",
        nginx_tls="ssl http2" if site.certificate else "",
        open_files=site.open_files,
        connections=site.open_files // 2,
        # nginx closes idle connections when fewer than a sixteenth are free.
        nginx_connections=site.open_files * 9 // 10,
    )
    path = site.folder / f"{name}.conf"
    path.write_text(text)
    return WrittenConfig(path, text, f"{site.scheme}://{site.address}:{port}")
