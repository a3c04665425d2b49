#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Judges the compilers of languages by other people's suites:
#
#   bash tests/languages.sh [FOLDER]...
#
# JSON-Schema-Test-Suite, from the source archive of the package jsonschema, which is fetched once
# into build/languages; random grammars beside a naive recogniser, and structural tags beside
# xgrammar where it is installed; then each FOLDER of schemas, or of cases {"schema": ...,
# "tests": [...]}. Needs python3 with jsonschema and pip, and g++ or CXX.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=build/languages
mkdir -p "$folder"
if [[ ! -d $folder/suite ]]; then
  # pip's last step, which builds the package, may fail: the archive is what is wanted.
  (cd "$folder" && { python3 -m pip download -q --no-binary :all: --no-deps jsonschema || :; })
  tar -xzf "$folder"/jsonschema-*.tar.gz -C "$folder"
  cp -r "$folder"/jsonschema-*/json/tests "$folder/suite"
fi
"${CXX:-g++}" -std=c++20 -O2 -Iinclude tests/languages/judged.cpp -o "$folder/judged"
status=0
python3 tests/languages/judge.py "$folder/judged" suite "$folder/suite" || status=1
python3 tests/languages/grammars.py "$folder/judged" grammars 1 300 || status=1
if python3 -c "import xgrammar" 2> /dev/null; then
  python3 tests/languages/grammars.py "$folder/judged" tags 1 300 || status=1
fi
for corpus in "$@"; do
  python3 tests/languages/judge.py "$folder/judged" corpus "$corpus" || status=1
done
exit "$status"
