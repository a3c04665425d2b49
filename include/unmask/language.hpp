// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// Compilers of regular expressions, JSON Schemas, grammars and structural tags: a text becomes the
/// smallest deterministic automaton over bytes, which unmask::constraint takes, or is refused with
/// a reason. They know nothing of policies, and need no other part of the library.

#include <unmask/language/automaton.hpp>
#include <unmask/language/expression.hpp>
#include <unmask/language/grammar.hpp>
#include <unmask/language/schema.hpp>
#include <unmask/language/structural_tag.hpp>
