# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What only the developers of unmask build. A project that uses unmask never gets here.

# ISO C++, so that an extension of GCC does not slip into a header.
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CUDA_EXTENSIONS OFF)

# Warnings are a target, linked privately by our own executables: nobody who links unmask::unmask
# inherits them. They are errors where tests are built; somebody who only builds the demo with a
# newer compiler is not stopped by a newer warning.
add_library(unmask_warnings INTERFACE)
target_compile_options(
  unmask_warnings
  INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion>"
            # g++ 12 sees overlapping copies in its own std::string at -O3 (GCC bug 105651).
            "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>"
            # -Wpedantic would reject the code that nvcc generates.
            "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>"
            # To call a function without __device__ from a kernel is a mere warning of nvcc, after
            # which the body of the kernel is compiled away. Never let that pass.
            "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-Werror=cross-execution-space-call>")
if(UNMASK_WARNINGS_AS_ERRORS)
  target_compile_options(
    unmask_warnings INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Werror>"
                              "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-Werror=all-warnings>")
endif()

if(UNMASK_BUILD_TESTS)
  enable_testing() # before the examples: they register themselves
endif()
if(UNMASK_LLAMA_CPP)
  enable_language(C) # what links the imported target of llama.cpp has to know features of C
endif()
if(UNMASK_BUILD_EXAMPLES)
  add_subdirectory(examples)
endif()
if(UNMASK_BUILD_TESTS)
  include(cmake/HeaderTests.cmake)
  include(cmake/FailTests.cmake)
  add_subdirectory(tests)
endif()
if(UNMASK_BUILD_BENCH)
  add_subdirectory(bench)
endif()
