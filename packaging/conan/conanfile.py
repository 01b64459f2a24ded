# SPDX-License-Identifier: Apache-2.0
"""plait for Conan 2: conan create packaging/conan

The package has the headers and plait's own CMake package, which finds what a component needs. An option asks for the
system packages of its component; Conan checks that they are there, or installs them where
tools.system.package_manager:mode=install says so."""
import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, cmake_layout
from conan.tools.files import copy, load
from conan.tools.system.package_manager import Apt

APT = {
    "blas": ["libopenblas-dev"],
    "safetensors": ["nlohmann-json3-dev"],
    "checkpoint": ["nlohmann-json3-dev", "libisal-dev"],
    "images": ["libjpeg-dev", "libpng-dev"],
    "tensorboard": ["libprotobuf-dev", "libisal-dev"],
    "machine": ["nlohmann-json3-dev"],
    "mpi": ["libopenmpi-dev", "openmpi-bin"],
    "gloo": ["libgloo-dev", "libssl-dev"],
    "elastic": ["libgloo-dev", "libssl-dev", "libcurl4-openssl-dev", "nlohmann-json3-dev"],
}


class Plait(ConanFile):
    name = "plait"
    description = "Train and run layered models of your own types on many devices"
    license = "Apache-2.0"
    topics = ("machine-learning", "distributed-training", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {component: [True, False] for component in APT}
    default_options = {component: False for component in APT}
    generators = "CMakeToolchain"

    @property
    def _root(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        text = load(self, os.path.join(self._root, "include", "plait", "version.hpp"))
        self.version = ".".join(re.findall(r"#define PLAIT_VERSION_[A-Z]+ (\d+)$", text, re.MULTILINE))

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "include/*", "cmake/*", "scripts/*"):
            copy(self, pattern, self._root, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def system_requirements(self):
        packages = {name for component, names in APT.items() if self.options.get_safe(component) for name in names}
        if packages:
            Apt(self).install(sorted(packages), check=True)

    def build(self):
        cmake = CMake(self)
        cmake.configure(variables={"PLAIT_BUILD_TESTS": False, "PLAIT_BUILD_EXAMPLES": False,
                                   "PLAIT_BUILD_BENCHMARKS": False})

    def package(self):
        CMake(self).install()

    def package_id(self):
        self.info.clear()

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_find_mode", "none")  # plait has a CMake package of its own
        self.cpp_info.builddirs = [os.path.join("share", "cmake", "plait")]
