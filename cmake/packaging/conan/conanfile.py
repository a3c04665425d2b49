# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Conan 2: `conan create cmake/packaging/conan` in a checkout."""
import pathlib
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain
from conan.tools.files import copy, load
from conan.tools.layout import basic_layout


class UnmaskConan(ConanFile):
    name = "unmask"
    license = "Apache-2.0 WITH LLVM-exception"
    description = "Decoding policies for masked diffusion language models"
    topics = ("diffusion", "language-model", "sampling", "header-only")
    package_type = "header-library"
    settings = "os", "compiler", "build_type", "arch"
    no_copy_source = True

    def _root(self):
        return pathlib.Path(self.recipe_folder).parents[2]

    def set_version(self):
        text = load(self, self._root() / "include" / "unmask" / "version.hpp")
        self.version = ".".join(
            re.search(rf"^#define UNMASK_VERSION_{part} +(\d+)$", text, re.M)[1]
            for part in ("MAJOR", "MINOR", "PATCH"))

    def export_sources(self):
        for pattern in ("include/*", "cmake/*", ".github/CHANGELOG.md", "CMakeLists.txt", "LICENSE"):
            copy(self, pattern, src=self._root(), dst=self.export_sources_folder)

    def layout(self):
        basic_layout(self, src_folder=".")

    def validate(self):
        if self.settings.compiler.get_safe("cppstd"):
            check_min_cppstd(self, 20)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for what in ("CUDA", "BUILD_COMPILED", "BUILD_TESTS", "BUILD_BENCH", "BUILD_EXAMPLES", "BUILD_C"):
            toolchain.cache_variables[f"UNMASK_{what}"] = False
        toolchain.generate()

    def build(self):
        CMake(self).configure()

    def package(self):
        CMake(self).install()

    def package_id(self):
        self.info.clear()

    def package_info(self):
        # The installed CMake files have more than Conan could generate.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["share/cmake/unmask"]
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        if self.settings.os in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["pthread"]
