# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A llama.cpp of another version than the tested one.
