"""An example is built with each recipe of packaging/, from the checkout, without a network."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from installation import ROOT, SANITIZERS, output

SAID = f"all threads have resumed: the sum of their numbers is {99 * 50}"
SOURCES = ("CMakeLists.txt", "LICENSE", "cmake", "compat", "include", "src")
RECIPES = ROOT / "packaging"

pytestmark = pytest.mark.skipif(bool(SANITIZERS), reason="it is compiled again, as users do")


def tool(name: str) -> Path:
    """Return a program of the Python packages that the tests need."""
    return Path(sys.executable).with_name(name)


def version() -> str:
    """Return the version of the checkout."""
    header = (ROOT / "include/gossamer/version.h").read_text()
    return ".".join(re.findall(r"^#define GOSSAMER_VERSION_[MP]\w+ (\d+)$", header, re.MULTILINE))


def test_recipes_have_the_version_of_the_library() -> None:
    assert json.loads((RECIPES / "vcpkg/gossamer/vcpkg.json").read_text())["version"] == version()
    wrap = (RECIPES / "meson/gossamer.wrap").read_text()
    assert f"\ndirectory = gossamer-{version()}\n" in wrap
    assert f"\nsource_filename = gossamer-{version()}.tar.gz\n" in wrap


# ---- Conan ----

CREATE = ("create", "--no-remote", "--build=missing", "--settings=build_type=Debug")
# Of each option: the packages that it needs, and what pkg-config calls them.
FEATURES = {
    "tls": {"openssl": "openssl"},
    "http2": {"libnghttp2": "libnghttp2"},
    "dns": {"c-ares": "libcares"},
    "codings": {"zlib": "zlib", "brotli": "libbrotlidec", "zstd": "libzstd"},
}


def of_the_system(packages: dict[str, str]) -> list[str]:
    """Return references of libraries that are not downloaded; of none, if one is missing."""
    references = []
    for package, name in packages.items():
        command = ("pkg-config", "--modversion", name)
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
        if asked.returncode:
            return []
        references.append(f"{package}/{asked.stdout.strip()}")
    return references


def test_conan_creates_a_package_with_which_an_example_runs(tmp_path: Path) -> None:
    conan, variables = tool("conan"), {"CONAN_HOME": str(tmp_path / "home")}
    output(conan, "profile", "detect", **variables)
    found = {name: of_the_system(packages) for name, packages in FEATURES.items()}
    references = [reference for each in found.values() for reference in each]
    with (tmp_path / "home/profiles/default").open("a") as profile:
        profile.write("\n".join(["[platform_requires]", *references, ""]))
    words = [f"--options=&:{name}={bool(each)}" for name, each in found.items()]
    words.append(f"--conf=tools.cmake.cmake_layout:test_folder={tmp_path / 'test'}")
    said = output(conan, *CREATE, *words, RECIPES / "conan", "--format=json", **variables)
    graph = json.loads(said)["graph"]["nodes"]
    (package,) = (node for node in graph.values() if node["ref"].startswith("gossamer/"))
    assert package["ref"].startswith(f"gossamer/{version()}#")
    libraries = Path(package["package_folder"]) / "lib"
    assert (libraries / "libgossamer.a").is_file()
    assert (libraries / "libgossamer-tls.a").is_file() == bool(found["tls"])
    assert not (RECIPES / "conan/test_package/build").exists()


# ---- Meson ----

MESON = """
project('user', 'c')
executable('many', 'many.c', dependencies: dependency('gossamer', version: '>=0.1'))
"""


def test_meson_builds_an_example_with_the_wrap(tmp_path: Path) -> None:
    subprojects = shutil.copytree(RECIPES / "meson", tmp_path / "subprojects")
    archive = subprojects / f"packagefiles/gossamer-{version()}.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for name in SOURCES:
            tar.add(ROOT / name, f"gossamer-{version()}/{name}")
    shutil.copy(ROOT / "examples/many.c", tmp_path)
    (tmp_path / "meson.build").write_text(MESON)
    build = tmp_path / "build"
    output(tool("meson"), "setup", build, tmp_path)
    output(tool("meson"), "compile", "-C", build)
    assert output(build / "many", "100").splitlines()[-1] == SAID


# ---- vcpkg ----

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
find_package(gossamer 0.1 CONFIG REQUIRED{components})
add_executable(many many.c)
target_link_libraries(many PRIVATE gossamer::gossamer{target})
"""


def test_example_is_built_with_what_the_port_of_vcpkg_installs(tmp_path: Path) -> None:
    manifest = json.loads((RECIPES / "vcpkg/gossamer/vcpkg.json").read_text())
    assert set(manifest["default-features"]) == set(manifest["features"])
    installed, port = tmp_path / "installed", RECIPES / "vcpkg/gossamer"
    words = [f"-DPORT_DIR={port}", f"-DFEATURES={';'.join(manifest['default-features'])}"]
    words += [f"-DBUILD={tmp_path / 'port'}", f"-DINSTALLED={installed}"]
    output("cmake", *words, "-P", Path(__file__).with_name("vcpkg_stand_in.cmake"))
    assert (installed / "share/gossamer/copyright").read_text() == (ROOT / "LICENSE").read_text()
    assert not (installed / "lib/cmake").exists()

    project = tmp_path / "project"
    project.mkdir()
    shutil.copy(ROOT / "examples/many.c", project)
    has_tls = (installed / "lib/libgossamer-tls.a").is_file()
    found = {"components": " COMPONENTS tls", "target": " gossamer::tls"} if has_tls else {}
    text = PROJECT.format(**{"components": "", "target": "", **found})
    (project / "CMakeLists.txt").write_text(text)
    environment = {**os.environ, "CMAKE_PREFIX_PATH": str(installed)}
    output("cmake", "-S", project, "-B", project / "build", "-G", "Ninja", **environment)
    output("cmake", "--build", project / "build", **environment)
    assert output(project / "build/many", "100").splitlines()[-1] == SAID
