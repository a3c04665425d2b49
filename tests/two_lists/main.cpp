// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Three libraries of one process, without parts of their own and with different ones.
// With an argument it loads one more, which has a tag that is taken.
#include <cstdio>
#include <dlfcn.h>

extern "C" int read_without(const char* text);
extern "C" int read_wide(const char* text);
extern "C" int read_narrow(const char* text);

int main(int count, char** arguments) {
  if (count > 1 && dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::puts(dlerror());
  }
  using reader = int (*)(const char*);
  const reader all[] = {&read_without, &read_wide, &read_narrow};
  for (const reader read : all) {
    std::printf("%d%d%d ", read("threshold(0.9)"), read("any_of(wide, factor)"), read("narrow"));
  }
  std::puts("");
}
