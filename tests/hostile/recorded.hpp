// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Decisions as they were: a record has a line for each of the first cases, with its number, a hash
/// of its description and a hash of everything that was decided, or "refused".
///
/// A change that is to change no decision leaves every line as it is; one that is to change some
/// changes the lines of those, and says why. A record does not tell whether a decision is right.
///
/// The cases draw from a list of parts that stays as it is (recorded_parts.hpp), so that a new part
/// changes no line. Cases from first_of_newer on have parts and arguments that the list does not
/// have: a second file records them.

#include <string>
#include <vector>

#include "hostile/decode.hpp"

namespace unmask::hostile {

/// Number of the first case of a record of newer parts.
inline constexpr std::uint64_t first_of_newer = 1'000'000;

/// Case `number` of a record: of seed 1, an odd one of the small cases.
[[nodiscard]] scenario recorded_case(std::uint64_t number);

/// The line of a case, which is decoded once. Throws violation.
[[nodiscard]] std::string recorded_line(std::uint64_t number);

/// The lines of a file that are no comments. Throws std::runtime_error if it cannot be read.
[[nodiscard]] std::vector<std::string> read_record(const std::string& path);

/// Throws violation if the case of a line decides otherwise now, or is another one.
void check_line(const std::string& line);

}  // namespace unmask::hostile
