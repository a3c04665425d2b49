# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# CMake 3.25 does not know that nvcc 12 and later accept C++20: it refuses CUDA_STANDARD 20 and
# compiles silently as C++17 if a target only requires cxx_std_20. This file tells it. To be
# included after enable_language(CUDA); newer versions of CMake know, and then nothing happens here.
if(CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA"
   AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12
   AND NOT "cuda_std_20" IN_LIST CMAKE_CUDA_COMPILE_FEATURES)
  list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
  set(CMAKE_CUDA20_COMPILE_FEATURES cuda_std_20)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
