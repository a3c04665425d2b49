# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Targets for developers of unmask. Not included by projects that use unmask.

# ISO C++, so that an extension of GCC does not slip into a header.
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CUDA_EXTENSIONS OFF)

# Warnings are a target, linked privately by our own executables: projects that link unmask::unmask
# do not inherit them. They are errors if tests are built; a build of the demo alone with a newer
# compiler is not stopped by a newer warning.
add_library(unmask_warnings INTERFACE)
target_compile_options(
  unmask_warnings
  INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion>"
            # g++ 12 warns of overlapping copies in its own std::string at -O3 (GCC bug 105651).
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

# Without a device, kernels are compiled to PTX. Those that the tests execute (unmask_execute_ptx) are
# optimised as far as pays; the others are not: that they compile and link is known in an eighth of
# the time. All the way go those of packaging.cuda here, every one under tests/kernels.py, and what
# tests/gpu.sh builds for a device.
if(UNMASK_CUDA)
  set(unmask_device OFF)
  file(GLOB files /dev/nvidia[0-9]* /dev/nvhost-gpu /dev/dxg)
  if(files)
    set(unmask_device ON)
  endif()
  option(UNMASK_KERNELS_RUN "Compile kernels of tests and examples for a device" ${unmask_device})
  if(NOT UNMASK_KERNELS_RUN AND CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA")
    set(CMAKE_CUDA_FLAGS_RELEASE "-O0 -DNDEBUG")
    set(UNMASK_PTX_LEVEL 2 CACHE STRING "Optimisation of the kernels that tests execute")
    set(level "$<IF:$<BOOL:$<TARGET_PROPERTY:unmask_executes_ptx>>,${UNMASK_PTX_LEVEL},0>")
    add_compile_options("$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CUDA>>:SHELL:-Xcicc -O${level}>")
    list(TRANSFORM CMAKE_CUDA_ARCHITECTURES REPLACE "^([0-9]+[a-z]?)$" "\\1-virtual")
  endif()
endif()

target_link_libraries(unmask_compiled PRIVATE $<BUILD_INTERFACE:unmask_warnings>)
if(TARGET unmask_c)
  target_link_libraries(unmask_c PRIVATE $<BUILD_INTERFACE:unmask_warnings>)
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
