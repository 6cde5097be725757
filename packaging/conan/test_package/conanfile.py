"""Builds an example with the package, and runs it."""

from pathlib import Path

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class ExampleRecipe(ConanFile):
    """A program that uses the package."""

    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps"

    def requirements(self) -> None:
        """Require the package that has been created."""
        self.requires(self.tested_reference_str)

    def layout(self) -> None:
        """Build beside the project."""
        cmake_layout(self)

    def generate(self) -> None:
        """Leave no presets in the checkout."""
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False
        toolchain.generate()

    def build(self) -> None:
        """Build the example."""
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self) -> None:
        """Run it where this machine can."""
        if can_run(self):
            self.run(f'"{Path(self.build_folder, "many")}" 100', env="conanrun")
