// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/language/automaton.hpp>
#include <unmask/language/schema.hpp>

#include <string_view>

namespace UNMASK_NAMESPACE::language {

/// Compiles a structural tag, which SGLang, vLLM and xgrammar take: texts between tags that obey
/// schemas, with free text around them.
///
///     const auto calls = unmask::language::compile_structural_tag(R"({
///         "type": "structural_tag",
///         "triggers": ["<call="],
///         "structures": [{"begin": "<call=f>", "schema": {"type": "integer"}, "end": "</call>"}]
///     })");
///     calls.bytes.accepts("I look: <call=f>7</call> done");  // true
///
/// Takes the older form, {"structures", "triggers"}, and the newer one, {"format": {...}}, with the
/// formats const_string, json_schema, grammar, regex, any_text, sequence, or, optional, plus, star,
/// repeat, tag, triggered_tags, tags_with_separator and dispatch. Free text ends at the first
/// trigger in it, and has neither `excludes` nor the end of the tag around it. A member
/// that is null is not there.
///
/// `options` are the options of schemas; `recursion` also holds for grammars.
///
/// Cost: that of the automaton.
/// Errors: by value, with the place as a JSON pointer: formats and bounds of tokens, which are no
/// texts; other styles than JSON; a tag that begins with no trigger, or with several; unknown
/// members; all that the compilers of schemas, grammars and expressions refuse; limits.
[[nodiscard]] UNMASK_LIBRARY compiled compile_structural_tag(std::string_view tag,
                                                             const schema_options& options = {});

}  // namespace UNMASK_NAMESPACE::language

#if UNMASK_DEFINES
#  include <unmask/language/structural_tag_compiler.hpp>
#endif
