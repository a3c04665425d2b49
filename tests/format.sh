#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The format of the C, C++ and CUDA files, by .clang-format and one version of clang-format:
#
#   bash tests/format.sh [--check]    lists the files that are not formatted; status 1 if there are any
#   bash tests/format.sh --fix        formats them, and brings the code that pages show up to date
#
# --install beside either installs that version from PyPI into build/clang-format if it is not
# found; UNMASK_CLANG_FORMAT names the program itself.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

fix=0 install=0
for option in "$@"; do
  case $option in
    --check) fix=0 ;;
    --fix) fix=1 ;;
    --install) install=1 ;;
    *)
      sed -n '4,/^set/p' "${BASH_SOURCE[0]}" | grep '^#' >&2
      exit 2
      ;;
  esac
done

unmask_wheel clang-format 21.1.8 "$install"

mapfile -t files < <(git ls-files --cached --others --exclude-standard -- \
  '*.c' '*.h' '*.cpp' '*.hpp' '*.inl' '*.cu' '*.cuh' | while read -r file; do
  [[ ! -e $file ]] || echo "$file"
done)
((${#files[@]})) || { echo "tests/format.sh: git lists no files here" >&2; exit 2; }

# each <option>...: the program on all files, a processor each.
each() {
  printf '%s\0' "${files[@]}" | xargs -0 -n 32 -P "${UNMASK_JOBS:-$(nproc)}" "$program" "$@"
}

if ((fix)); then
  each -i
  python3 tests/readme.py --write
  exit
fi
said=$(each --dry-run --Werror 2>&1) && exit
bad=$(sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: .*\[-Wclang-format-violations\]$/\1/p' <<<"$said" | sort | uniq -c)
if [[ -z $bad ]]; then # something else went wrong
  echo "$said" >&2
  exit 2
fi
echo "not formatted, with the number of places (bash tests/format.sh --fix mends them):"
echo "$bad"
exit 1
