"""The page of --metrics, parsed as strictly as by Prometheus."""

import re

from server import Server
from wire import get

PATH = "/metrics"
SAMPLE = re.compile(r"(gossamer_\w+)\{(.*)\} (\d+(?:\.\d+)?)")
LABEL = re.compile(r'(\w+)="([^"]*)"')

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse(text: str) -> Samples:
    """Return all samples; each must belong to a declared family and occur once."""
    types: dict[str, str] = {}
    samples: Samples = {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            assert line.split(maxsplit=3)[3], line
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name not in types, line
            types[name] = kind
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            family = re.sub(r"_(bucket|sum|count)$", "", match[1])
            assert types.get(match[1]) in ("counter", "gauge") or types[family] == "histogram"
            key = (match[1], frozenset(LABEL.findall(match[2])))
            assert key not in samples, line
            samples[key] = float(match[3])
    return samples


def value(samples: Samples, name: str, **labels: str) -> float:
    """Return the only sample with this name and these labels."""
    wanted = set(labels.items())
    (found,) = (
        number for (n, has), number in samples.items() if n == f"gossamer_{name}" and wanted <= has
    )
    return found


def read(server: Server) -> Samples:
    """Request the page over a new connection."""
    response = get(server.address, PATH, Connection="close")
    assert response.status == 200
    assert response.fields["content-type"].startswith("text/plain; version=0.0.4")
    samples = parse(response.body.decode())
    assert {dict(labels)["arch"] for _, labels in samples} == {server.arch}
    return samples
