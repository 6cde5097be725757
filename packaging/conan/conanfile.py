"""Conan 2 recipe: `conan create packaging/conan` packages the checkout that it is in."""

import re
from pathlib import Path
from typing import ClassVar

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy

SOURCES = (
    "CMakeLists.txt",
    "LICENSE",
    "cmake/*",
    "compat/*",
    "docs/man/*",
    "examples/*",
    "include/*",
    "src/*",
    "tools/*",
)

# What each option needs.
NEEDS = {
    "tls": ("openssl/[>=3.0 <4]",),
    "http2": ("libnghttp2/[>=1.52 <2]",),
    "dns": ("c-ares/[>=1.18 <2]",),
    "codings": ("zlib/[>=1.2.11 <2]", "brotli/[>=1.0.9 <2]", "zstd/[>=1.5 <2]"),
}


class GossamerRecipe(ConanFile):
    """The library, with the CMake and pkg-config files that it installs itself."""

    name = "gossamer"
    license = "MIT"
    description = "Event loop, user-level threads and HTTP for servers with very many connections"
    topics = ("event-loop", "coroutines", "http-server", "networking")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options: ClassVar = {"shared": [True, False], **{part: [True, False] for part in NEEDS}}
    default_options: ClassVar = {"shared": False, **dict.fromkeys(NEEDS, True)}

    def set_version(self) -> None:
        """Take the version of the header."""
        root = Path(self.recipe_folder).parents[1]
        header = (root / "include/gossamer/version.h").read_text()
        self.version = ".".join(
            re.findall(r"^#define GOSSAMER_VERSION_[MP]\w+ (\d+)$", header, re.MULTILINE)
        )

    def export_sources(self) -> None:
        """Take the files of the checkout that the library is built from."""
        root = str(Path(self.recipe_folder).parents[1])
        for pattern in SOURCES:
            copy(self, pattern, root, self.export_sources_folder)

    def configure(self) -> None:
        """C++ settings do not matter to a library in C."""
        self.settings.rm_safe("compiler.cppstd")
        self.settings.rm_safe("compiler.libcxx")

    def validate(self) -> None:
        """Refuse where the library cannot be built."""
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("Gossamer is for Linux on x86-64 and aarch64")

    def requirements(self) -> None:
        """Require what the options need."""
        for part, references in NEEDS.items():
            for reference in references if getattr(self.options, part) else ():
                self.requires(reference)

    def layout(self) -> None:
        """Build beside the sources."""
        cmake_layout(self)

    def generate(self) -> None:
        """Choose what is built: the library alone."""
        toolchain = CMakeToolchain(self)
        for part in ("PROGRAM", "COMPAT", "CC", "EXAMPLES", "BENCH", "TESTS"):
            toolchain.cache_variables[f"GOSSAMER_BUILD_{part}"] = False
        toolchain.cache_variables["GOSSAMER_SPLIT_DEBUG"] = False
        for part in NEEDS:
            toolchain.cache_variables[f"GOSSAMER_BUILD_{part.upper()}"] = bool(
                getattr(self.options, part)
            )
        toolchain.cache_variables["CMAKE_DISABLE_FIND_PACKAGE_Python3"] = True  # the reference
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self) -> None:
        """Build the library."""
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self) -> None:
        """Install the library, with its license."""
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, str(Path(self.package_folder, "licenses")))

    def package_info(self) -> None:
        """Tell of the libraries; CMake finds the files that are installed with them."""
        self.cpp_info.set_property("cmake_find_mode", "none")
        library = self.cpp_info.components["gossamer"]
        library.set_property("pkg_config_name", "gossamer")
        library.builddirs = ["lib/cmake/gossamer"]
        library.libs = ["gossamer"]
        library.cflags = library.cxxflags = ["-fstack-clash-protection"]
        library.system_libs = ["pthread", "m"]
        library.requires = [
            f"{package}::{package}"
            for part, references in NEEDS.items()
            if part != "tls" and getattr(self.options, part)
            for package in (reference.split("/")[0] for reference in references)
        ]
        if self.options.tls:
            tls = self.cpp_info.components["tls"]
            tls.set_property("pkg_config_name", "gossamer-tls")
            tls.libs = ["gossamer-tls"]
            tls.requires = ["gossamer", "openssl::openssl"]
