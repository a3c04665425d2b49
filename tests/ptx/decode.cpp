// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From the text of PTX to instructions. A device function is decoded once more for each call of it,
// so that registers have fixed places.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "ptx/program.hpp"

namespace unmask::ptx {
namespace {

[[nodiscard]] bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

[[nodiscard]] std::string_view trimmed(std::string_view s) {
  while (!s.empty() && is_space(s.front())) {
    s.remove_prefix(1);
  }
  while (!s.empty() && is_space(s.back())) {
    s.remove_suffix(1);
  }
  return s;
}

/// Splits at `separator` outside of brackets.
[[nodiscard]] std::vector<std::string_view> split(std::string_view s, char separator) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= s.size(); ++i) {
    if (i == s.size() || (s[i] == separator && depth == 0)) {
      parts.push_back(trimmed(s.substr(begin, i - begin)));
      begin = i + 1;
    } else if (s[i] == '{' || s[i] == '[' || s[i] == '(') {
      ++depth;
    } else if (s[i] == '}' || s[i] == ']' || s[i] == ')') {
      --depth;
    }
  }
  return parts;
}

[[nodiscard]] std::vector<std::string_view> words(std::string_view s) {
  std::vector<std::string_view> all;
  while (!(s = trimmed(s)).empty()) {
    const auto end = std::find_if(s.begin(), s.end(), is_space);
    all.push_back(s.substr(0, static_cast<std::size_t>(end - s.begin())));
    s.remove_prefix(all.back().size());
  }
  return all;
}

[[nodiscard]] std::uint32_t number(std::string_view s) {
  std::uint32_t n = 0;
  std::from_chars(s.data(), s.data() + s.size(), n);
  return n;
}

/// Bytes of a type such as u32; a predicate has none.
[[nodiscard]] std::uint32_t bytes_of(std::string_view type) {
  const std::size_t digit = type.find_first_of("0123456789");
  return digit == std::string_view::npos ? 0 : number(type.substr(digit)) / 8;
}

[[nodiscard]] std::uint64_t rounded_up(std::uint64_t n, std::uint64_t align) {
  return (n + align - 1) / align * align;
}

/// A declaration such as `.shared .align 16 .b8 name[64] = {...}`.
struct declaration {
  std::string name;
  std::uint32_t bytes = 0;
  std::uint32_t align = 1;
  bool is_open = false;  ///< name[]
  std::string_view value;

  explicit declaration(std::string_view text) {
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) {
      value = trimmed(text.substr(equals + 1));
      text = text.substr(0, equals);
    }
    const auto all = words(text);
    std::uint32_t element = 1;
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
      if (all[i] == ".align") {
        align = number(all[++i]);
      } else if (all[i].size() > 2 && bytes_of(all[i]) > 0) {
        element = bytes_of(all[i]);
        align = std::max(align, element);
      }
    }
    std::string_view last = all.back();
    const std::size_t bracket = last.find('[');
    name = std::string(last.substr(0, bracket));
    bytes = element;
    if (bracket != std::string_view::npos) {
      const std::uint32_t count = number(last.substr(bracket + 1));
      is_open = last[bracket + 1] == ']';
      bytes = element * count;
    }
  }
};

struct statement {
  std::string_view text;
  std::uint32_t line = 0;
};

/// The statements, labels (with their colon) and braces of a body, one after the other.
class body_reader {
 public:
  body_reader(std::string_view text, std::uint32_t line)
      : text_(text)
      , line_(line) {}

  [[nodiscard]] std::optional<statement> next() {
    skip_space();
    if (at_ == text_.size()) {
      return std::nullopt;
    }
    const std::uint32_t line = line_;
    const std::size_t begin = at_;
    if (text_[at_] == '{' || text_[at_] == '}') {
      ++at_;
      return statement{text_.substr(begin, 1), line};
    }
    const bool is_line = text_.substr(at_).starts_with(".loc");
    for (; at_ < text_.size() && text_[at_] != ';'; ++at_) {
      if (is_line && text_[at_] == '\n') {
        return statement{trimmed(text_.substr(begin, at_ - begin)), line};
      }
      if (text_[at_] == ':' && text_[at_ + 1] != ':' && text_[at_ - 1] != ':') {
        ++at_;
        return statement{text_.substr(begin, at_ - begin), line};
      }
      line_ += text_[at_] == '\n' ? 1 : 0;
    }
    const statement s{trimmed(text_.substr(begin, at_ - begin)), line};
    at_ += at_ < text_.size() ? 1 : 0;
    return s;
  }

 private:
  void skip_space() {
    while (at_ < text_.size()) {
      if (text_.substr(at_).starts_with("//")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (is_space(text_[at_]) || text_[at_] == ';') {
        line_ += text_[at_] == '\n' ? 1 : 0;
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 0;
};

}  // namespace

module::module(std::string_view text) :text_(text) {
  std::uint32_t line = 1;
  std::size_t at = 0;
  const auto advance = [&](std::size_t to) {
    line += static_cast<std::uint32_t>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at),
                                                  text_.begin() + static_cast<std::ptrdiff_t>(to),
                                                  '\n'));
    at = to;
  };
  while (true) {
    while (at < text_.size() && (is_space(text_[at]) || text_[at] == ';')) {
      line += text_[at] == '\n' ? 1 : 0;
      ++at;
    }
    if (at >= text_.size()) {
      return;
    }
    const std::string_view rest = text_.substr(at);
    const auto starts = [&](std::string_view s) { return rest.starts_with(s); };
    if (starts("//") || starts(".version") || starts(".target") || starts(".address_size") ||
        starts(".file")) {
      const std::size_t end = std::min(text_.find('\n', at), text_.size());
      if (starts(".file")) {
        const std::string_view whole = text_.substr(at, end - at);
        const std::size_t quote = whole.find('"');
        files_[number(words(whole)[1])] =
            std::string(whole.substr(quote + 1, whole.find('"', quote + 1) - quote - 1));
      }
      advance(end);
      continue;
    }
    if (starts(".section")) {  // of a debugger
      advance(std::min(text_.find('}', at), text_.size() - 1) + 1);
      continue;
    }
    const std::size_t end = text_.find_first_of(";{", at);
    if (end == std::string_view::npos) {
      return;
    }
    std::string_view head = text_.substr(at, end - at);
    for (const std::string_view kind : {".entry ", ".func "}) {
      const std::size_t found = head.find(kind);
      if (found == std::string_view::npos || text_[end] == ';') {
        continue;
      }
      std::string_view name = trimmed(head.substr(found + kind.size()));
      if (name.starts_with('(')) {  // the result of a function
        name = trimmed(name.substr(name.find(')') + 1));
      }
      entries_[std::string(trimmed(name.substr(0, name.find_first_of("( \t\n"))))] = {at, line};
    }
    if (text_[end] == '{' && head.find('=') == std::string_view::npos) {
      std::size_t close = end;
      for (int depth = 0; close < text_.size(); ++close) {
        depth += text_[close] == '{' ? 1 : text_[close] == '}' ? -1 : 0;
        if (depth == 0) {
          break;
        }
      }
      advance(std::min(close + 1, text_.size()));
      continue;
    }
    const std::size_t semicolon = std::min(text_.find(';', end), text_.size());
    head = text_.substr(at, semicolon - at);
    if (head.find(".shared") != std::string_view::npos) {
      const declaration d(head);
      shared_[d.name] = {0, d.bytes, d.align, d.is_open};
    } else if (head.find(".global") != std::string_view::npos ||
               head.find(".const") != std::string_view::npos) {
      const declaration d(head);
      memory_.emplace_back(rounded_up(d.bytes, 8) / 8 + 1, 0);
      auto* const bytes = reinterpret_cast<std::uint8_t*>(memory_.back().data());
      if (d.value.starts_with('{')) {
        std::size_t n = 0;
        const std::uint32_t size = [&] {
          for (const std::string_view word : words(head)) {
            if (word.size() > 2 && word[0] == '.' && bytes_of(word) > 0 && word != ".align") {
              return bytes_of(word);
            }
          }
          return 1U;
        }();
        for (const std::string_view one : split(d.value.substr(1, d.value.size() - 2), ',')) {
          std::uint64_t x = 0;
          std::from_chars(one.data(), one.data() + one.size(), x);
          std::memcpy(bytes + n, &x, size);
          n += size;
        }
      }
      globals_[d.name] = {reinterpret_cast<std::uint64_t>(bytes), d.bytes, d.align, false};
    }
    advance(semicolon);
  }
}

const std::string& module::file(std::uint32_t number) const {
  static const std::string unknown;
  const auto found = files_.find(number);
  return found == files_.end() ? unknown : found->second;
}

/// Decodes one kernel.
class decoder {
 public:
  decoder(module& from, kernel& to)
      : module_(from)
      , kernel_(to) {}

  void decode(const module::entry& entry) {
    take_registers(4, specials);
    const auto [head, body, line] = parts_of(entry);
    std::size_t offset = 0;
    scopes_.emplace_back();
    const std::size_t open = head.find('(');
    for (const std::string_view one :
         split(head.substr(open + 1, head.find(')', open) - open - 1), ',')) {
      if (one.empty()) {
        continue;
      }
      const declaration d(one);
      offset = rounded_up(offset, d.align);
      kernel_.parameters.push_back({offset, d.bytes});
      scopes_.back().symbols[d.name] = parameter_window + offset;
      offset += d.bytes;
    }
    const std::size_t most = head.find(".maxntid");
    if (most != std::string_view::npos) {
      unsigned threads = 1;
      for (const std::string_view n :
           split(head.substr(most + 8, head.find('\n', most) - most - 8), ',')) {
        threads *= number(n);
      }
      kernel_.most_threads = threads;
    }
    decode_body(body, line);
    add({.kind = action::leave}, "(end)", line);
    for (const auto& [at, label] : jumps_) {
      const auto found = labels_.find(label);
      if (found == labels_.end()) {
        throw unknown_ptx("label " + label + " in " + kernel_.name);
      }
      kernel_.code[at].target = found->second;
    }
    place_registers();
  }

 private:
  struct family {
    place first = 0;
    std::uint32_t count = 0;
    std::uint8_t slot = 0;
  };
  struct scope {
    /// `name<count>`, and single ones.
    std::map<std::string_view, family> families;
    std::map<std::string_view, family> singles;
    std::map<std::string, std::uint64_t, std::less<>> symbols;
    std::array<std::size_t, 3> registers_before{};
    std::size_t locals_before = 0;
  };
  struct function_text {
    std::string_view head;
    std::string_view body;
    std::uint32_t line = 0;
  };
  struct found_register {
    place at = 0;
    std::uint8_t slot = 0;
  };

  [[nodiscard]] function_text parts_of(const module::entry& entry) const {
    const std::string_view text = module_.text_;
    const std::size_t open = text.find('{', entry.begin);
    std::size_t close = open;
    for (int depth = 0; close < text.size(); ++close) {
      depth += text[close] == '{' ? 1 : text[close] == '}' ? -1 : 0;
      if (depth == 0) {
        break;
      }
    }
    const std::string_view head = text.substr(entry.begin, open - entry.begin);
    return {head,
            text.substr(open + 1, close - open - 1),
            entry.line + static_cast<std::uint32_t>(std::count(head.begin(), head.end(), '\n'))};
  }

  [[noreturn]] void fail(const std::string& what, std::string_view text) const {
    throw unknown_ptx(what + ": `" + std::string(text) + "` in " + kernel_.name);
  }

  instruction& add(instruction in, std::string_view text, std::uint32_t line) {
    in.line = line;
    in.call = call_;
    in.source = source_;
    kernel_.code.push_back(in);
    kernel_.texts.emplace_back(text);
    return kernel_.code.back();
  }

  void declare_registers(std::string_view text) {
    const auto all = words(text);
    const std::uint32_t bytes = bytes_of(all[1]);
    const auto slot = static_cast<std::uint8_t>(all[1] == ".pred" ? 1 : bytes <= 4 ? 4 : 8);
    if (bytes > 8) {
      fail("registers", text);
    }
    const std::size_t names = static_cast<std::size_t>(all[2].data() - text.data());
    for (const std::string_view one : split(text.substr(names), ',')) {
      const std::size_t angle = one.find('<');
      const std::uint32_t count =
          angle == std::string_view::npos ? 1 : number(one.substr(angle + 1));
      scope& to = scopes_.back();
      (angle == std::string_view::npos ? to.singles : to.families)[one.substr(0, angle)] = {
          take_registers(slot, count), count, slot};
    }
  }

  [[nodiscard]] std::optional<found_register> find_register(std::string_view name) const {
    static const std::map<std::string_view, special> known = {{"%tid.x", tid_x},
                                                              {"%tid.y", tid_y},
                                                              {"%tid.z", tid_z},
                                                              {"%ctaid.x", ctaid_x},
                                                              {"%ctaid.y", ctaid_y},
                                                              {"%ctaid.z", ctaid_z},
                                                              {"%ntid.x", ntid_x},
                                                              {"%ntid.y", ntid_y},
                                                              {"%ntid.z", ntid_z},
                                                              {"%nctaid.x", nctaid_x},
                                                              {"%nctaid.y", nctaid_y},
                                                              {"%nctaid.z", nctaid_z},
                                                              {"%laneid", laneid}};
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    for (auto at = scopes_.rbegin(); at != scopes_.rend(); ++at) {
      if (const auto one = at->singles.find(name); one != at->singles.end()) {
        return found_register{one->second.first, one->second.slot};
      }
      const auto many = at->families.find(name.substr(0, digits));
      if (digits < name.size() && many != at->families.end()) {
        const family& f = many->second;
        const std::size_t size = f.slot == 1 ? sizeof(lane_mask) : f.slot * warp_size;
        return found_register{f.first + static_cast<place>(number(name.substr(digits)) * size),
                              f.slot};
      }
    }
    if (const auto s = known.find(name); s != known.end()) {
      return found_register{static_cast<place>(s->second * slot_bytes), 4};
    }
    return std::nullopt;
  }

  [[nodiscard]] place constant(std::uint64_t value, std::uint8_t slot) {
    if (slot == 4) {
      value &= 0xffffffffU;
    }
    const auto [at, is_new] = constants_.try_emplace({value, slot}, 0);
    if (is_new) {
      at->second = ~static_cast<place>(kernel_.constants.size());
      const std::uint64_t predicate = value == 0 ? 0 : every_lane;
      const auto* const bytes = reinterpret_cast<const std::byte*>(slot == 1 ? &predicate : &value);
      for (unsigned lane = 0; lane < (slot == 1 ? 1 : warp_size); ++lane) {
        kernel_.constants.insert(kernel_.constants.end(), bytes, bytes + std::max<int>(slot, 4));
      }
    }
    return at->second;
  }

  // The address of a variable; shared ones get theirs when they are used first.
  [[nodiscard]] std::optional<std::uint64_t> find_symbol(std::string_view name) {
    for (auto at = scopes_.rbegin(); at != scopes_.rend(); ++at) {
      if (const auto s = at->symbols.find(name); s != at->symbols.end()) {
        return s->second;
      }
    }
    if (const auto s = module_.shared_.find(name); s != module_.shared_.end()) {
      const module::variable& v = s->second;
      std::uint64_t address = 0;
      if (v.is_extern) {
        kernel_.takes_dynamic_shared = true;
        address = dynamic_shared_address;
      } else {
        address = shared_window + add_shared(v.bytes, v.align);
      }
      scopes_.front().symbols[std::string(name)] = address;
      return address;
    }
    if (const auto g = module_.globals_.find(name); g != module_.globals_.end()) {
      return g->second.address;
    }
    return std::nullopt;
  }

  // With a gap behind it in which every access is outside.
  std::uint64_t add_shared(std::uint32_t bytes, std::uint32_t align) {
    const std::uint64_t offset = rounded_up(kernel_.shared_bytes, std::max(align, 16U));
    kernel_.shared.push_back({static_cast<std::uint32_t>(offset), bytes});
    kernel_.shared_bytes = rounded_up(offset + bytes, 16) + 16;
    return offset;
  }

  [[nodiscard]] std::optional<std::uint64_t> value_of(std::string_view text) {
    if (text.starts_with("0f") || text.starts_with("0F") || text.starts_with("0d") ||
        text.starts_with("0D")) {
      return std::stoull(std::string(text.substr(2)), nullptr, 16);
    }
    if (text == "WARP_SZ") {
      return warp_size;
    }
    if (text == "%globaltimer") {
      return 0;  // no time passes
    }
    const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
    if (digits.empty() || digits[0] < '0' || digits[0] > '9') {
      const std::size_t plus = text.find('+');
      const auto symbol = find_symbol(trimmed(text.substr(0, plus)));
      if (!symbol) {
        return std::nullopt;
      }
      return plus == std::string_view::npos
                 ? *symbol
                 : *symbol + std::stoull(std::string(text.substr(plus + 1)), nullptr, 0);
    }
    const std::uint64_t n = std::stoull(std::string(digits), nullptr, 0);
    return digits.size() < text.size() ? std::uint64_t{0} - n : n;
  }

  [[nodiscard]] place source(std::string_view text, std::uint8_t slot, std::string_view whole) {
    if (const auto r = find_register(text)) {
      if (r->slot != slot) {
        fail("operand of another size", whole);
      }
      return r->at;
    }
    const auto value = value_of(text);
    if (!value) {
      fail("operand", whole);
    }
    return constant(slot == 4 && (*value & window_mask) == shared_window ? *value & ~window_mask
                                                                         : *value,
                    slot);
  }

  [[nodiscard]] place
  destination(std::string_view text, std::uint8_t slot, std::string_view whole) {
    if (text == "_") {
      return nowhere;
    }
    const auto r = find_register(text);
    if (!r || r->slot != slot) {
      fail("destination", whole);
    }
    return r->at;
  }

  void decode_body(std::string_view body, std::uint32_t line) {
    body_reader reader(body, line);
    enter_scope();
    const std::string outer = prefix_;
    while (const auto s = reader.next()) {
      const std::string_view text = s->text;
      if (text == "{") {
        enter_scope();
      } else if (text == "}") {
        leave_scope();
      } else if (text.ends_with(':')) {
        labels_[prefix_ + std::string(text.substr(0, text.size() - 1))] =
            static_cast<std::uint32_t>(kernel_.code.size());
      } else if (text.starts_with('.')) {
        directive(text);
      } else if (!text.empty()) {
        decode_instruction(text, s->line);
      }
    }
    leave_scope();
    prefix_ = outer;
  }

  // Registers and local memory of a scope are used again behind it.
  void enter_scope() { scopes_.push_back({{}, {}, {}, registers_, locals_}); }
  void leave_scope() {
    registers_ = scopes_.back().registers_before;
    locals_ = scopes_.back().locals_before;
    scopes_.pop_back();
  }
  // Registers of one size lie together, so that those of a thread are its own in every scope:
  // threads that have diverged may be in two scopes that use the same registers.
  place take_registers(std::uint8_t slot, std::size_t count) {
    const std::size_t pool = slot == 4 ? 0 : slot == 8 ? 1 : 2;
    const std::size_t first = registers_[pool];
    registers_[pool] += count * register_size(slot);
    most_registers_[pool] = std::max(most_registers_[pool], registers_[pool]);
    return static_cast<place>(pool << pool_shift | first);
  }
  [[nodiscard]] static std::size_t register_size(std::uint8_t slot) {
    return slot == 1 ? sizeof(lane_mask) : std::size_t{slot} * warp_size;
  }
  // Puts the pools one behind the other.
  void place_registers() {
    const std::array<std::size_t, 3> begin = {
        0, most_registers_[0], most_registers_[0] + most_registers_[1]};
    const auto move = [&](place& p) {
      if (p >= 0) {
        const auto at = static_cast<std::uint32_t>(p);
        p = static_cast<place>(begin[at >> pool_shift] + (at & ((1U << pool_shift) - 1)));
      }
    };
    for (instruction& in : kernel_.code) {
      move(in.guard);
      std::for_each(std::begin(in.to), std::end(in.to), move);
      std::for_each(std::begin(in.args), std::end(in.args), move);
    }
    kernel_.register_bytes = begin[2] + most_registers_[2];
  }
  static constexpr unsigned pool_shift = 29;

  void directive(std::string_view text) {
    if (text.starts_with(".reg")) {
      declare_registers(text);
    } else if (text.starts_with(".local") || text.starts_with(".param")) {
      const declaration d(text);
      locals_ = rounded_up(locals_, std::max(d.align, 16U));
      scopes_.back().symbols[d.name] = local_window + locals_;
      locals_ += d.bytes;
      kernel_.local_bytes = std::max(kernel_.local_bytes, locals_);
    } else if (text.starts_with(".shared")) {
      const declaration d(text);
      scopes_.back().symbols[d.name] = shared_window + add_shared(d.bytes, d.align);
    } else if (text.starts_with(".loc")) {
      take_source(words(text));
    } else if (text.starts_with(".pragma")) {
      const std::size_t used = text.find("used_bytes_mask");
      if (used != std::string_view::npos) {
        used_bytes_ = number(trimmed(text.substr(used + 15)));
      }
    } else {
      fail("directive", text);
    }
  }

  // `.loc file line column`, with `, function_name name, inlined_at file line column` if the place
  // is in an inlined function; the place of that call was the one before.
  void take_source(const std::vector<std::string_view>& all) {
    const auto at = [&](std::size_t n) {
      return std::array{number(all[n]), number(all[n + 1]), number(all[n + 2])};
    };
    std::vector<source_line> lines = {{at(1)[0], at(1)[1]}};
    if (all.size() > 9) {
      const auto call = last_source_at_.find(at(7));
      if (call == last_source_at_.end()) {
        lines.push_back({at(7)[0], at(7)[1]});
      } else {
        const auto& outer = kernel_.sources[call->second];
        lines.insert(lines.end(), outer.begin(), outer.end());
      }
    }
    source_ = static_cast<std::uint32_t>(kernel_.sources.size());
    kernel_.sources.push_back(std::move(lines));
    last_source_at_[at(1)] = source_;
  }

  void decode_instruction(std::string_view text, std::uint32_t line) {
    instruction in;
    std::string_view rest = text;
    if (rest.starts_with('@')) {
      in.guard_is_negated = rest[1] == '!';
      rest.remove_prefix(in.guard_is_negated ? 2 : 1);
      const std::string_view name = words(rest)[0];
      in.guard = source(name, 1, text);
      rest = trimmed(rest.substr(name.size()));
    }
    const auto end = std::find_if(rest.begin(), rest.end(), is_space);
    const std::string_view opcode = rest.substr(0, static_cast<std::size_t>(end - rest.begin()));
    const std::string_view arguments = trimmed(rest.substr(opcode.size()));
    const std::vector<std::string_view> args =
        arguments.empty() ? std::vector<std::string_view>{} : split(arguments, ',');
    const std::vector<std::string_view> names = split(opcode, '.');
    const auto is = [&](std::string_view s) { return names[0] == s; };
    const auto has = [&](std::string_view s) {
      return std::find(names.begin(), names.end(), s) != names.end();
    };
    if (is("call")) {
      decode_call(arguments, text, line);
      return;
    }
    if (is("mbarrier")) {
      decode_mbarrier(in, names, args, text, line);
      return;
    }
    if (is("bra")) {
      in.kind = action::branch;
      jumps_.emplace_back(kernel_.code.size(), prefix_ + std::string(args[0]));
    } else if ((is("ret") || is("exit")) && prefix_.empty()) {
      in.kind = action::leave;
    } else if (is("trap")) {
      in.kind = action::leave;
      in.variant = 1;
    } else if (is("ret")) {
      in.kind = action::branch;
      jumps_.emplace_back(kernel_.code.size(), prefix_ + "return");
    } else if (is("ld") || is("st") || is("atom") || is("red")) {
      decode_access(in, names, args, text);
    } else if (is("bar") || is("barrier")) {
      if (has("warp")) {
        in.kind = action::warp_barrier;
        in.args[3] = source(args[0], 4, text);
      } else if (has("sync") && args.size() == 1 && value_of(args[0])) {
        in.kind = action::block_barrier;
        in.variant = static_cast<std::uint8_t>(*value_of(args[0]));
      } else {
        fail("instruction", text);
      }
    } else if (is("shfl")) {
      in.kind = action::shuffle;
      in.variant = has("bfly") ? 0 : has("idx") ? 1 : has("up") ? 2 : has("down") ? 3 : 255;
      const auto to = split(args[0], '|');
      in.to[0] = destination(to[0], 4, text);
      in.to[1] = to.size() > 1 ? destination(to[1], 1, text) : nowhere;
      for (std::size_t n = 0; n < 4; ++n) {
        in.args[n] = source(args[n + 1], 4, text);
      }
      if (in.variant == 255 || !has("sync")) {
        fail("instruction", text);
      }
    } else if (is("vote")) {
      in.kind = action::vote;
      in.variant = has("ballot") ? 0 : has("any") ? 1 : has("all") ? 2 : 255;
      in.to[0] = destination(args[0], in.variant == 0 ? 4 : 1, text);
      const bool is_negated = args[1].starts_with('!');
      in.is_signed = is_negated;
      in.args[0] = source(args[1].substr(is_negated ? 1 : 0), 1, text);
      in.args[3] = source(args[2], 4, text);
      if (in.variant == 255 || !has("sync")) {
        fail("instruction", text);
      }
    } else if (opcode == "redux.sync.or.b32") {
      in.kind = action::reduction;
      in.to[0] = destination(args[0], 4, text);
      in.args[0] = source(args[1], 4, text);
      in.args[3] = source(args[2], 4, text);
    } else if (is("membar") || is("fence")) {
      in.kind = action::fence;
    } else if (is("nanosleep")) {
      in.kind = action::pause;
    } else {
      decode_computation(in, opcode, args, text);
    }
    add(in, text, line);
  }

  void decode_computation(instruction& in,
                          std::string_view opcode,
                          const std::vector<std::string_view>& args,
                          std::string_view text) {
    if (args.size() < 2) {
      fail("instruction", text);
    }
    std::string key(opcode);
    std::vector<std::string_view> to = {args[0]};
    std::vector<std::string_view> from(args.begin() + 1, args.end());
    if (key.starts_with("mov.") && args[0].starts_with('{')) {
      to = split(args[0].substr(1, args[0].size() - 2), ',');
      key = "unpack" + key.substr(3) + "." + std::to_string(to.size());
    } else if (key.starts_with("mov.") && args[1].starts_with('{')) {
      from = split(args[1].substr(1, args[1].size() - 2), ',');
      key = "pack" + key.substr(3) + "." + std::to_string(from.size());
    }
    const operation* const op = find_operation(key);
    if (op == nullptr) {
      fail("instruction", text);
    }
    in.compute = op->compute;
    if (to.size() > 4 || from.size() > 4) {
      fail("operands", text);
    }
    for (std::size_t n = 0; n < to.size(); ++n) {
      in.to[n] = destination(to[n], op->to, text);
    }
    for (std::size_t n = 0; n < from.size(); ++n) {
      if (op->args[n] == 0) {
        fail("operands", text);
      }
      const auto r = find_register(from[n]);
      in.args[n] = key.starts_with("cvt.") && r && r->slot == 8 && op->args[n] == 4
                       ? lower_half(r->at, text)
                       : source(from[n], op->args[n], text);
    }
  }

  // A register with the lower half of one of 64 bits, for a conversion of a smaller type.
  [[nodiscard]] place lower_half(place from, std::string_view text) {
    instruction in;
    in.compute = find_operation("cvt.u32.u64")->compute;
    in.to[0] = take_registers(4, 1);
    in.args[0] = from;
    return add(in, text, 0).to[0];
  }

  // A barrier in shared memory is a word of 64 bits: how many arrivals are missing and how many a
  // phase has, 20 bits each, and the phase in the highest one.
  void decode_mbarrier(const instruction& guarded,
                       const std::vector<std::string_view>& names,
                       const std::vector<std::string_view>& args,
                       std::string_view text,
                       std::uint32_t line) {
    const auto computed = [&](std::string_view opcode, place from) {
      instruction in = guarded;
      in.compute = find_operation(opcode)->compute;
      in.args[0] = from;
      return in;
    };
    const auto word = [&](action kind, memory_order order, std::string_view address) {
      instruction in = guarded;
      in.kind = kind;
      in.order = order;
      in.space = state_space::shared;
      in.bytes = 8;
      in.wide = 1;
      decode_address(in, address.substr(1, address.size() - 2), text);
      return in;
    };
    const std::string_view what = names[1];
    if (names.back() != "b64" || names.size() > 4 || args.size() != (what == "init" ? 2 : 3)) {
      fail("instruction", text);
    }
    const place value = take_registers(8, 1);
    if (what == "init") {
      instruction whole = computed("mbarrier.init", source(args[1], 4, text));
      whole.to[0] = value;
      add(whole, text, line);
      instruction in = word(action::store, memory_order::weak, args[0]);
      in.to[0] = value;
      add(in, text, line);
    } else if (what == "arrive") {
      instruction count = computed("cvt.u64.u32", source(args[2], 4, text));
      count.to[0] = value;
      add(count, text, line);
      instruction in = word(action::atomic, memory_order::release, args[1]);
      in.to[0] = destination(args[0], 8, text);
      in.args[1] = in.args[2] = value;
      in.combine = [](std::uint64_t old, std::uint64_t arrived, std::uint64_t) -> std::uint64_t {
        const std::uint64_t expected = old >> 20U & 0xfffffU;
        return (old & 0xfffffU) == arrived ? ((old ^ 1ULL << 63U) & ~0xfffffULL) | expected
                                           : old - arrived;
      };
      add(in, text, line);
    } else if (what == "try_wait" || what == "test_wait") {
      add({.kind = action::pause}, text, line);
      instruction in = word(action::load, memory_order::acquire, args[1]);
      in.to[0] = value;
      add(in, text, line);
      instruction has_passed = computed("mbarrier.has_passed", value);
      has_passed.args[1] = source(args[2], 8, text);
      has_passed.to[0] = destination(args[0], 1, text);
      add(has_passed, text, line);
    } else {
      fail("instruction", text);
    }
  }

  // ld, st, atom and red.
  void decode_access(instruction& in,
                     const std::vector<std::string_view>& names,
                     const std::vector<std::string_view>& args,
                     std::string_view text) {
    const bool is_store = names[0] == "st";
    const bool is_atomic = names[0] == "atom" || names[0] == "red";
    in.kind = is_atomic ? action::atomic : is_store ? action::store : action::load;
    in.order = is_atomic ? memory_order::relaxed : memory_order::weak;
    std::string_view combine;
    for (std::size_t n = 1; n + 1 < names.size(); ++n) {
      const std::string_view name = names[n].substr(0, names[n].find("::"));
      const std::map<std::string_view, state_space> spaces = {{"global", state_space::global},
                                                              {"shared", state_space::shared},
                                                              {"local", state_space::local},
                                                              {"param", state_space::parameters},
                                                              {"const", state_space::global}};
      const std::map<std::string_view, memory_order> orders = {{"volatile", memory_order::relaxed},
                                                               {"relaxed", memory_order::relaxed},
                                                               {"acquire", memory_order::acquire},
                                                               {"release", memory_order::release},
                                                               {"acq_rel", memory_order::acq_rel},
                                                               {"weak", memory_order::weak}};
      static const std::set<std::string_view> hints = {
          "cs", "cg", "ca", "cv", "lu", "wb", "wt", "nc", "gpu", "sys", "cta", "L1", "L2"};
      if (const auto s = spaces.find(name); s != spaces.end()) {
        in.space = s->second;
      } else if (const auto o = orders.find(name); o != orders.end()) {
        in.order = o->second;
      } else if (name == "v2" || name == "v4") {
        in.count = name == "v2" ? 2 : 4;
      } else if (is_atomic && !hints.contains(name)) {
        combine = name;
      } else if (!hints.contains(name)) {
        fail("instruction", text);
      }
    }
    const std::string_view type = names.back();
    in.bytes = static_cast<std::uint8_t>(bytes_of(type));
    in.is_signed = type[0] == 's';
    if (in.bytes == 0 || in.bytes > 8) {
      fail("instruction", text);
    }
    const auto slot = static_cast<std::uint8_t>(in.bytes == 8 ? 8 : 4);
    const bool has_result = in.kind == action::load || names[0] == "atom";
    const std::string_view address = args[has_result ? 1 : 0];
    if (!address.starts_with('[')) {
      fail("address", text);
    }
    decode_address(in, address.substr(1, address.size() - 2), text);
    if (is_atomic) {
      in.combine = combination(combine, type);
      if (in.combine == nullptr) {
        fail("instruction", text);
      }
      in.wide = slot == 8 ? 1 : 0;
      in.to[0] = has_result ? destination(args[0], slot, text) : nowhere;
      in.args[1] = source(args[has_result ? 2 : 1], slot, text);
      in.args[2] = combine == "cas" ? source(args[3], slot, text) : in.args[1];
      return;
    }
    const std::string_view list = args[is_store ? 1 : 0];
    const std::vector<std::string_view> elements =
        list.starts_with('{') ? split(list.substr(1, list.size() - 2), ',') : std::vector{list};
    if (elements.size() != in.count) {
      fail("elements", text);
    }
    for (std::size_t n = 0; n < elements.size(); ++n) {
      const auto r = find_register(elements[n]);
      const std::uint8_t in_slot = r && r->slot == 8 ? 8 : slot;  // may be wider than the element
      in.wide |= static_cast<std::uint8_t>((in_slot == 8 ? 1U : 0U) << n);
      in.to[n] = is_store ? source(elements[n], in_slot, text)  // of a store: the sources
                          : destination(elements[n], in_slot, text);
    }
    if (!is_store) {
      in.used = std::exchange(used_bytes_, 0xffffffffU);
    }
  }

  void decode_address(instruction& in, std::string_view address, std::string_view text) {
    std::string_view base = address;
    const std::size_t plus = address.find('+');
    if (plus != std::string_view::npos) {
      base = trimmed(address.substr(0, plus));
      in.offset = std::stoll(std::string(address.substr(plus + 1)), nullptr, 0);
    }
    if (const auto r = find_register(base)) {
      if (r->slot == 1) {
        fail("address", text);
      }
      in.args[0] = r->at;
      in.variant = r->slot;
      return;
    }
    const auto value = value_of(base);
    if (!value) {
      fail("address", text);
    }
    if ((*value & window_mask) == local_window && in.space == state_space::parameters) {
      in.space = state_space::local;  // an argument of a call
    }
    in.args[0] = constant(*value, 8);
    in.variant = 8;
  }

  [[nodiscard]] static decltype(instruction::combine) combination(std::string_view name,
                                                                  std::string_view type) {
    using word = std::uint64_t;
    const bool is_signed = type == "s32";
    if (name == "add") {
      return [](word a, word b, word) { return a + b; };
    }
    if (name == "and") {
      return [](word a, word b, word) { return a & b; };
    }
    if (name == "or") {
      return [](word a, word b, word) { return a | b; };
    }
    if (name == "exch") {
      return [](word, word b, word) { return b; };
    }
    if (name == "cas") {
      return [](word a, word b, word c) { return a == b ? c : a; };
    }
    if (name == "max" && !is_signed) {
      return [](word a, word b, word) { return std::max(a, b); };
    }
    if (name == "min" && !is_signed) {
      return [](word a, word b, word) { return std::min(a, b); };
    }
    return nullptr;
  }

  // call.uni (result), function, (arguments): the function's text in this place.
  void decode_call(std::string_view arguments, std::string_view text, std::uint32_t at) {
    std::vector<std::string_view> parts = split(arguments, ',');
    std::vector<std::string_view> actual;
    const auto append = [&](std::string_view list) {
      for (const std::string_view one : split(list.substr(1, list.size() - 2), ',')) {
        if (!one.empty()) {
          actual.push_back(one);
        }
      }
    };
    if (parts[0].starts_with('(')) {
      append(parts[0]);
      parts.erase(parts.begin());
    }
    const auto function = module_.entries_.find(parts[0]);
    if (function == module_.entries_.end() || depth_ > 64) {
      fail("call", text);
    }
    if (parts.size() > 1) {
      append(parts[1]);
    }
    const auto [head, body, line] = parts_of(function->second);
    std::map<std::string, std::uint64_t, std::less<>> bound;
    std::size_t n = 0;
    for (std::size_t open = head.find('('); open != std::string_view::npos;
         open = head.find('(', open + 1)) {
      for (const std::string_view one :
           split(head.substr(open + 1, head.find(')', open) - open - 1), ',')) {
        if (one.empty()) {
          continue;
        }
        const auto address = n < actual.size() ? find_symbol(actual[n++]) : std::nullopt;
        if (!address) {
          fail("call", text);
        }
        bound[declaration(one).name] = *address;
      }
    }
    const std::string outer = prefix_;
    prefix_ = "call" + std::to_string(kernel_.calls.size()) + ":";
    kernel_.calls.push_back({at, call_});
    const std::uint32_t caller =
        std::exchange(call_, static_cast<std::uint32_t>(kernel_.calls.size() - 1));
    const std::string inner = prefix_;
    enter_scope();
    scopes_.back().symbols = std::move(bound);
    ++depth_;
    decode_body(body, line);
    --depth_;
    leave_scope();
    labels_[inner + "return"] = static_cast<std::uint32_t>(kernel_.code.size());
    prefix_ = outer;
    call_ = caller;
  }

  module& module_;
  kernel& kernel_;
  std::vector<scope> scopes_;
  std::map<std::pair<std::uint64_t, std::uint8_t>, place> constants_;
  std::map<std::string, std::uint32_t> labels_;
  std::vector<std::pair<std::size_t, std::string>> jumps_;
  std::string prefix_;
  std::array<std::size_t, 3> registers_{};
  std::array<std::size_t, 3> most_registers_{};
  std::size_t locals_ = 0;
  std::uint32_t used_bytes_ = 0xffffffffU;
  std::uint32_t source_ = 0;
  std::map<std::array<std::uint32_t, 3>, std::uint32_t> last_source_at_;
  std::uint32_t call_ = 0;
  unsigned depth_ = 0;
};

const kernel* module::find(const std::string& name) {
  if (const auto done = kernels_.find(name); done != kernels_.end()) {
    return &done->second;
  }
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    return nullptr;
  }
  kernel k;
  k.name = name;
  decoder(*this, k).decode(found->second);
  return &kernels_.emplace(name, std::move(k)).first->second;
}

}  // namespace unmask::ptx
