"""Start: the line that reports readiness, the addresses, and errors reported in one line."""

import os
import re
import socket
from pathlib import Path

import pytest
from conftest import Serve
from server import READY, run_serve, unassigned_port, worker_count
from wire import get


def has_ipv6() -> bool:
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return False
    return True


def assert_refused(arguments: list[str], reason: str) -> None:
    done = run_serve(*arguments)
    assert done.returncode == 2, done
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("gossamer serve: ")
    assert re.search(reason, lines[0]), lines[0]


def test_one_line_reports_readiness(
    serve: Serve, root: Path, arch: str, configuration: str
) -> None:
    server = serve(root, "--workers", "2")
    assert len(server.stdout_lines()) == 1
    match = READY.match(server.stdout_lines()[0])
    assert match
    assert match[1] == "127.0.0.1"
    assert int(match[2]) > 0
    assert (match[3], match[4]) == (arch, str(worker_count(configuration, 2)))
    assert get(server.address, "/a.txt").body == b"hello\n"
    assert len(server.stdout_lines()) == 1


def test_one_worker_is_announced_in_the_same_form(
    serve: Serve, root: Path, arch: str, configuration: str
) -> None:
    workers = worker_count(configuration, 1)
    assert serve(root, "--workers", "1").stdout_lines()[0].endswith(f"({arch}, {workers} workers)")


def test_port_0_chooses_a_different_port_each_time(serve: Serve, root: Path) -> None:
    first, second = serve(root), serve(root)
    assert first.address != second.address
    assert get(first.address, "/a.txt").status == get(second.address, "/a.txt").status == 200


def test_a_port_alone_listens_at_every_address(serve: Serve, root: Path) -> None:
    server = serve(root, "--listen", "0")
    assert server.address[0] == "0.0.0.0"
    for host in ("127.0.0.1", "127.0.0.2"):
        assert get((host, server.address[1]), "/a.txt").body == b"hello\n"


def test_the_given_port_is_used(serve: Serve, root: Path) -> None:
    port = unassigned_port()
    server = serve(root, "--listen", f"127.0.0.1:{port}")
    assert server.address == ("127.0.0.1", port)
    assert get(server.address, "/a.txt").status == 200


def test_a_port_is_free_again_right_after_the_server_ended(serve: Serve, root: Path) -> None:
    listen = ("--listen", f"127.0.0.1:{unassigned_port()}")
    first = serve(root, *listen)
    assert get(first.address, "/a.txt", Connection="close").status == 200
    first.stop()
    assert serve(root, *listen).address == first.address


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6 here")
def test_ipv6_is_served(serve: Serve, root: Path) -> None:
    server = serve(root, "--listen", "[::1]:0")
    assert server.stdout_lines()[0].startswith("listening on http://[::1]:")
    assert get(server.address, "/a.txt").body == b"hello\n"


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6 here")
def test_every_address_of_ipv6_leaves_those_of_ipv4_alone(serve: Serve, root: Path) -> None:
    port = unassigned_port()
    six = serve(root, "--listen", f"[::]:{port}")
    four = serve(root, "--listen", f"*:{port}")
    assert get(("::1", port), "/a.txt").status == 200
    assert get(("127.0.0.1", port), "/a.txt").status == 200
    assert six.stop()["requests"] == four.stop()["requests"] == 1


def test_several_addresses_are_served(serve: Serve, root: Path) -> None:
    arguments = ["--listen", "127.0.0.1:0", "--listen", "127.0.0.2:0", "--listen", "127.0.0.1:0"]
    server = serve(root, *arguments, "--workers", "2")
    hosts = [host for host, _ in server.addresses]
    assert hosts == ["127.0.0.1", "127.0.0.2", "127.0.0.1"]
    assert len(set(server.addresses)) == 3
    for address in server.addresses * 4:
        assert get(address, "/a.txt").body == b"hello\n"
    assert server.stop()["requests"] == 12


def test_an_address_may_be_a_host_name(serve: Serve, root: Path) -> None:
    server = serve(root, "--listen", "localhost:0")
    assert get(server.address, "/a.txt").status == 200


def test_the_root_may_be_relative(
    serve: Serve, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root.parent)
    assert get(serve(Path("root")).address, "/a.txt").status == 200


def test_the_list_of_architectures_has_name_summary_and_workers() -> None:
    done = run_serve("--arch", "list")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines][:2] == ["user", "event"]
    for line in lines:
        assert re.fullmatch(r"\w+ +\S.* +\(--workers: \S.*\)", line), line


def test_help_names_every_option_of_the_brief_and_exits_well() -> None:
    done = run_serve("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for option in ("--arch", "--listen", "--workers", "--access-log", "--user"):
        assert option in done.stdout


@pytest.mark.parametrize("favoured", ["connections", "accept"])
def test_all_clients_are_served_with_every_priority(
    serve: Serve, root: Path, arch: str, favoured: str
) -> None:
    arguments = ["--favor", favoured, "--workers", "2"]
    if arch != "user":
        assert_refused(["--arch", arch, *arguments, str(root)], "no threads")
        return
    server = serve(root, *arguments)
    for _ in range(20):
        assert get(server.address, "/a.txt", Connection="close").status == 200
    assert server.stop()["requests"] == 20


WRONG_OPTIONS = {
    "unknown option": (["--frobnicate"], "frobnicate"),
    "unknown letter": (["-Z"], "Z"),
    "no argument": (["--listen"], "argument"),
    "no such architecture": (["--arch", "nonesuch"], "nonesuch"),
    "empty architecture": (["--arch", ""], "architecture"),
    "no workers": (["--workers", "0"], "workers"),
    "negative workers": (["--workers", "-1"], "workers"),
    "too many workers": (["--workers", "1025"], "workers"),
    "workers in words": (["--workers", "two"], "two"),
    "number too large": (["--workers", "99999999999999999999"], "workers"),
    "size without number": (["--body-size", "k"], "body-size"),
    "size with a bad unit": (["--body-size", "1x"], "body-size"),
    "duration with a bad unit": (["--idle-timeout", "1y"], "idle-timeout"),
    "no time for the header": (["--header-timeout", "0"], "header-timeout"),
    "no backlog": (["--backlog", "0"], "backlog"),
    "flag with an argument": (["--dotfiles=yes"], "argument"),
    "connections beyond the limit": (["--max-connections", "1000000000"], "open files"),
    "no connections": (["--max-connections", "0"], "max-connections"),
    "no such user": (["--user", "no-such-user-here"], "no-such-user-here"),
    "log in no directory": (["--access-log", "/no/such/folder/log"], "No such file"),
    "log that is a directory": (["--access-log", "/"], "directory"),
}


@pytest.mark.parametrize("name", WRONG_OPTIONS)
def test_a_wrong_option_is_one_line_and_exit_status_2(name: str, root: Path) -> None:
    arguments, reason = WRONG_OPTIONS[name]
    listen = [] if "--listen" in arguments else ["--listen", "127.0.0.1:0"]
    if arguments == ["--listen"]:
        assert_refused([str(root), "--listen"], reason)
    else:
        assert_refused([*listen, *arguments, str(root)], reason)


# What a lookup says depends on whether there is a name server, and it answers.
NOT_FOUND = "names no address|the name server does not answer"

WRONG_ADDRESSES = {
    "no port": ("127.0.0.1", "has no port"),
    "empty port": ("127.0.0.1:", "has no port"),
    "empty": ("", "has no port"),
    "no address": (":80", "has no address"),
    "port in words": ("127.0.0.1:http", "not a number"),
    "negative port": ("127.0.0.1:-1", "not a number"),
    "port too large": ("127.0.0.1:65536", "above 65535"),
    "port far too large": ("127.0.0.1:99999999999999999999", "above 65535"),
    "no brackets": ("::1:80", "brackets"),
    "no such name": ("name.invalid:80", NOT_FOUND),
    "number too large": ("1.2.3.256:80", NOT_FOUND),
    "another's address": ("192.0.2.1:0", "assign"),
}


@pytest.mark.parametrize("name", WRONG_ADDRESSES)
def test_a_wrong_address_is_one_line_and_exit_status_2(
    name: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RES_OPTIONS", "timeout:3 attempts:2")  # so that lookups end in time
    address, reason = WRONG_ADDRESSES[name]
    assert_refused(["--listen", address, str(root)], reason)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_address_where_another_server_listens_is_refused(
    serve: Serve, root: Path, workers: str
) -> None:
    first = serve(root, "--workers", "2")
    address = f"127.0.0.1:{first.address[1]}"
    assert_refused(["--listen", address, "--workers", workers, str(root)], "in use")
    assert get(first.address, "/a.txt").status == 200


def test_the_same_address_twice_is_refused(root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    assert_refused(["--listen", address, "--listen", address, str(root)], "in use")


def test_a_missing_root_is_refused() -> None:
    assert_refused(["--listen", "127.0.0.1:0"], "directory to serve is missing")


def test_two_roots_are_refused(root: Path) -> None:
    assert_refused(["--listen", "127.0.0.1:0", str(root), "/other"], "/other")


@pytest.mark.parametrize("end", ["nonesuch", "a.txt", "a.txt/below", "x" * 300, ""])
def test_a_wrong_root_is_refused(end: str, root: Path) -> None:
    assert_refused(["--listen", "127.0.0.1:0", str(root / end) if end else ""], "can't serve")


def test_a_root_that_may_not_be_entered_is_refused(root: Path) -> None:
    (root / "sub").chmod(0)
    user = ["--user", "nobody"] if os.geteuid() == 0 else []
    assert_refused(["--listen", "127.0.0.1:0", *user, str(root / "sub")], "Permission denied")
