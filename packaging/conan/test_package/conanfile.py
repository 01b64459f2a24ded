# SPDX-License-Identifier: Apache-2.0
"""The project that README.md shows, with plait from Conan, and one that is header-only."""
import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class PlaitTest(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeToolchain"
    test_type = "explicit"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure(build_script_folder=os.path.join(self.source_folder, "../../../examples/as_package"))
        cmake.build()
        source = os.path.join(self.source_folder, "../../../tests/package/consumer")
        toolchain = os.path.join(self.generators_folder, "conan_toolchain.cmake")
        self.run(f'cmake -S "{source}" -B header_only -G Ninja -D CMAKE_TOOLCHAIN_FILE="{toolchain}" '
                 f"-D CMAKE_BUILD_TYPE={self.settings.build_type}")
        self.run("cmake --build header_only --target by_hand")

    def test(self):
        if can_run(self):
            self.run(os.path.join(self.cpp.build.bindir, "my_program"), env="conanrun")
            self.run(os.path.join("header_only", "by_hand"), env="conanrun")
