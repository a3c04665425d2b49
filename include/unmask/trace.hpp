// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Traces: what a decode did, step by step, written as lines of JSON and read again, to look at
/// (examples/viewer), to count, to train with, and to decode again.

#include <unmask/trace/part_texts.hpp>
#include <unmask/trace/replay_text.hpp>
#include <unmask/trace/trace_file.hpp>
#include <unmask/trace/trace_head.hpp>
#include <unmask/trace/trace_writer.hpp>
