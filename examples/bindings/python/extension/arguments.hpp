// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor.hpp"

/// Arguments of calls, refused in a sentence: "Session() has no argument 'mask'", "vocab must be
/// int, got str".
namespace unmask_python {

/// Throws TypeError.
[[noreturn]] inline void refuse_type(const std::string& message) {
  throw nb::type_error(message.c_str());
}

[[nodiscard]] inline std::string type_of(nb::handle given) {
  return nb::cast<std::string>(nb::str(given.type().attr("__name__")));
}

/// The value of an argument. Errors: TypeError that names it, its type and the type that it must
/// have, and ValueError for a number that is out of range.
template <class T>
[[nodiscard]] T taken(nb::handle given, const std::string& name, const std::string& type) {
  T value{};
  if (!nb::try_cast(nb::borrow(given), value)) {
    if constexpr (std::integral<T> && !std::same_as<T, bool>) {
      if (PyLong_Check(given.ptr())) {
        refuse(name,
               "be in [" + std::to_string(std::numeric_limits<T>::min()) + ", " +
                   std::to_string(std::numeric_limits<T>::max()) + "]",
               nb::cast<std::string>(nb::str(given)));
      }
    }
    refuse_type(name + " must be " + type + ", got " + type_of(given));
  }
  return value;
}

/// A tensor as a session on `stream` takes it: one of a CUDA device is asked for with that stream,
/// which then waits for what the tensor's framework has queued on another. Without a stream
/// frameworks make the legacy default stream wait, which no CUDA graph can contain.
[[nodiscard]] inline nb::object lent_to(std::optional<std::uintptr_t> stream, nb::handle given) {
  if (!stream || !nb::hasattr(given, "__dlpack_device__")) {
    return nb::borrow(given);
  }
  const auto [type, number] = nb::cast<std::pair<int, int>>(given.attr("__dlpack_device__")());
  if (type != nb::device::cuda::value && type != nb::device::cuda_managed::value) {
    return nb::borrow(given);
  }
  const std::uintptr_t legacy_default = 1;  // as DLPack numbers it, where 0 stands for none
  return given.attr("__dlpack__")(nb::arg("stream") = *stream == 0 ? legacy_default : *stream);
}

/// A tensor that the call reads.
[[nodiscard]] inline tensor tensor_of(nb::handle given, const std::string& name) {
  tensor view;
  if (!nb::try_cast(nb::borrow(given), view, false)) {
    refuse_type(name + " must be an array or a tensor, got " + type_of(given));
  }
  return view;
}

/// A tensor that the session writes.
[[nodiscard]] inline writable_tensor writable_of(nb::handle given, const std::string& name) {
  writable_tensor view;
  if (!nb::try_cast(nb::borrow(given), view, false)) {
    static_cast<void>(tensor_of(given, name));
    refuse(name, "be writable", "a read-only " + type_of(given));
  }
  return view;
}

/// The arguments of a call, by the names and types of its signature as Python writes it, which
/// nanobind shows: "def __init__(self, policy: str, *, vocab: int, layers: int = 0) -> None".
class arguments {
 public:
  /// Errors: TypeError for an argument that the signature does not have, or that is given twice.
  arguments(std::string_view call,
            std::string_view signature,
            const nb::args& by_place,
            const nb::kwargs& by_name)
      : call_(call) {
    const std::size_t places = read(signature);
    const std::size_t count = by_place.size();
    if (count > places) {
      refuse_type(call_ + " takes at most " + std::to_string(places) + " arguments by place, got " +
                  std::to_string(count) + ": give the others by name");
    }
    for (std::size_t i = 0; i < count; ++i) {
      all_[i].given = by_place[i];
    }
    for (const auto& [key, value] : by_name) {
      const auto name = nb::cast<std::string>(key);
      parameter* const to = find(name);
      if (to == nullptr) {
        refuse_type(call_ + " has no argument '" + name + "': it has " + names());
      }
      if (to->given.is_valid()) {
        refuse_type(call_ + " has got '" + name + "' twice");
      }
      to->given = value;
    }
  }

  /// The argument as it was given. Errors: TypeError if it was not.
  [[nodiscard]] nb::handle operator[](const char* name) {
    const parameter& p = *find(name);
    if (!p.given.is_valid()) {
      refuse_type(call_ + " needs the argument '" + name + "'");
    }
    return p.given;
  }
  [[nodiscard]] bool has(const char* name) { return find(name)->given.is_valid(); }

  /// The value of an argument that must be given.
  template <class T>
  [[nodiscard]] T get(const char* name) {
    return taken<T>((*this)[name], name, std::string(find(name)->type));
  }
  /// The value of an argument, or another one if it was not given.
  template <class T>
  [[nodiscard]] T get(const char* name, T otherwise) {
    return has(name) ? get<T>(name) : otherwise;
  }
  /// The value of an argument that may be None, which is its default.
  template <class T>
  [[nodiscard]] std::optional<T> optional(const char* name) {
    return !has(name) || (*this)[name].is_none() ? std::nullopt : std::optional(get<T>(name));
  }

 private:
  struct parameter {
    std::string_view name;
    std::string_view type;
    nb::handle given;
  };

  // Reads the parameters; returns how many may be given by place.
  std::size_t read(std::string_view signature) {
    constexpr std::size_t none = std::string_view::npos;
    std::size_t places = none;
    int depth = 0;
    std::size_t first = signature.find('(') + 1;
    for (std::size_t at = first; depth >= 0; ++at) {
      const char c = signature[at];
      depth += c == '[' || c == '(' ? 1 : c == ']' || c == ')' ? -1 : 0;
      if (depth > 0 || (c != ',' && depth == 0)) {
        continue;
      }
      const std::string_view text = trimmed(signature.substr(first, at - first));
      if (text == "*") {
        places = all_.size();
      } else if (!text.empty() && text != "self") {
        const std::size_t colon = text.find(':');
        const std::size_t equals = text.find(" =");
        all_.push_back({text.substr(0, colon),
                        trimmed(text.substr(colon + 1, equals - colon - 1)),
                        nb::handle()});
      }
      first = at + 1;
    }
    return places == none ? all_.size() : places;
  }
  [[nodiscard]] static std::string_view trimmed(std::string_view text) {
    const std::size_t first = text.find_first_not_of(' ');
    return first == text.npos ? std::string_view()
                              : text.substr(first, text.find_last_not_of(' ') + 1 - first);
  }
  [[nodiscard]] parameter* find(std::string_view name) {
    for (parameter& p : all_) {
      if (p.name == name) {
        return &p;
      }
    }
    return nullptr;
  }
  [[nodiscard]] std::string names() const {
    std::string text;
    for (const parameter& p : all_) {
      text += (text.empty() ? "" : ", ") + std::string(p.name);
    }
    return text;
  }

  std::string call_;
  std::vector<parameter> all_;
};

}  // namespace unmask_python
