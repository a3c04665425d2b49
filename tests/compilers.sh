#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What each compiler makes of the library: bash tests/compilers.sh [--install] [--write] [COMPILER]...
#
# Each compiles all headers of the CPU side with warnings as errors, and at -O1 the program of
# README.md and tests/compiled/decode.cpp, which prints the decisions of policies by name bit for bit;
# those must be the same with every compiler. Without names: every g++-N and clang++-N on PATH, and
# the clang++ of ziglang in build/compilers, which comes with libc++.
#
# --install gets what Debian and PyPI offer; --write puts the table into bench/results/compilers.md.
# Takes about a minute for each compiler.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

build=build/compilers
mkdir -p "$build"
wheels=(0.12.1 0.13.0 0.14.1 0.15.2) # clang 17, 18, 19, 20
install=0 write=0 compilers=()
for argument in "$@"; do
  case $argument in
    --install) install=1 ;;
    --write) write=1 ;;
    -*)
      sed -n '4,/^set/p' "${BASH_SOURCE[0]}" | grep '^#' >&2
      exit 2
      ;;
    *) compilers+=("$argument") ;;
  esac
done

if ((install)); then
  # shellcheck source=cmake/packages.sh
  source cmake/packages.sh
  mapfile -t offered < <(apt-cache pkgnames 2>/dev/null | grep -E '^(g\+\+|clang)-[0-9]+$' | sort -V)
  unmask_packages python3 python3-venv "${offered[@]}"
  for wheel in "${wheels[@]}"; do
    unmask_quietly python3 -m venv "$build/$wheel"
    unmask_quietly "$build/$wheel/bin/python" -m pip --disable-pip-version-check install \
      "ziglang==$wheel"
  done
fi
if ((!${#compilers[@]})); then
  mapfile -t compilers < <(compgen -c | grep -xE '(g|clang)\+\+-[0-9]+' | sort -uV)
  for wheel in "${wheels[@]}"; do
    [[ ! -x $build/$wheel/bin/python ]] || compilers+=("$build/$wheel/bin/python -m ziglang c++")
  done
fi

find include -name '*.hpp' ! -path '*/cuda*' \
  ! -path '*/interop/*' -printf '#include <%P>\n' | sort >"$build/headers.cpp"
echo '#include <unmask/c_layers.h>' >>"$build/headers.cpp"

warnings=(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)
# shellcheck disable=SC2016
first_output=$(sed -n '/region examples\/first.cpp/,$p' examples/README.md | sed -n '/^```text$/,/^```$/p' | sed '1d;/^```$/,$d')
expected="" status=0 rows=()
# checked <log> <command>...: "yes", or "no" with what was said in the log and on the terminal.
checked() {
  local log=$1
  shift
  if "$@" >"$log" 2>&1; then
    echo yes
  else
    { echo "$*"; head -n 20 "$log"; } >&2
    echo no
  fi
}
for name in "${compilers[@]}"; do
  read -ra compiler <<<"$name"
  flags=(-std=c++20 -Iinclude -Itests -pthread)
  library=libstdc++
  if [[ $name == *ziglang* ]]; then
    library=libc++
    # What __builtin_cpu_supports() looks at is in libgcc.
    flags+=(-Wno-unused-command-line-argument "$(g++ -print-libgcc-file-name)")
  fi
  about=$("${compiler[@]}" --version 2>/dev/null | head -n 1)
  [[ $about =~ ^.*[[:space:]]([0-9]+\.[0-9.]+) ]] || { echo "tests/compilers.sh: no compiler $name" >&2; exit 2; }
  title=${BASH_REMATCH[1]}
  [[ $about == *clang* ]] && title="clang $title" || title="g++ $title"
  # ziglang's clang 18 switches registers of 512 bits off.
  [[ $title != "clang 18."* || $library != libc++ ]] || flags+=(-mevex512)
  echo "$title, $library"
  headers=$(checked "$build/log" "${compiler[@]}" "${flags[@]}" "${warnings[@]}" -c \
    "$build/headers.cpp" -o "$build/headers.o")
  first=$(checked "$build/log" "${compiler[@]}" "${flags[@]}" "${warnings[@]}" -O1 \
    examples/first.cpp -o "$build/first")
  [[ $first == no || $("$build/first") == "$first_output" ]] || first="other output"
  decisions=$(checked "$build/log" "${compiler[@]}" "${flags[@]}" -O1 tests/compiled/decode.cpp \
    -o "$build/decode")
  if [[ $decisions == yes ]]; then
    bits=$("$build/decode" | sha256sum)
    [[ $bits == "${expected:=$bits}" ]] && decisions="the same" || decisions="OTHERS"
  fi
  [[ "$headers $first $decisions" == "yes yes the same" ]] || status=1
  echo "  headers: $headers; first program: $first; decisions: $decisions"
  rows+=("| $title | $library | $headers | $first | $decisions |")
done

if ((write)); then
  {
    echo '<!-- SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception -->'
    echo '# Compilers'
    echo
    echo "Run on $(date -u +%F), $(uname -m), with \`bash tests/compilers.sh --write\`: each compiles all headers of the"
    # shellcheck disable=SC2016
    echo 'CPU side with `-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror`, and at `-O1` the first program of'
    echo "\`examples/README.md\` and [a program](../../tests/compiled/decode.cpp) that prints decisions bit for bit."
    echo
    echo '| compiler | library | headers without warnings | first program runs | decisions |'
    echo '| --- | --- | --- | --- | --- |'
    printf '%s\n' "${rows[@]}"
  } >bench/results/compilers.md
fi
exit "$status"
