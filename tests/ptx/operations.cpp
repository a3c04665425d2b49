// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The arithmetic of PTX: what an opcode does with the registers of a warp. Rounds to nearest; a NaN
// that arithmetic makes is 7fffffff, as on a device.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <limits>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>

#include "ptx/program.hpp"

namespace unmask::ptx {
namespace {

struct half {
  std::uint16_t bits;
};

template <class T>
using slot_of = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <class T>
T from_slot(slot_of<T> x) {
  if constexpr (std::is_same_v<T, half>) {
    return {static_cast<std::uint16_t>(x)};
  } else if constexpr (std::floating_point<T>) {
    return std::bit_cast<T>(x);
  } else {
    return static_cast<T>(x);
  }
}

template <std::floating_point T>
T canonical(T x) {
  if constexpr (sizeof(T) == 4) {
    return std::isnan(x) ? std::bit_cast<T>(0x7fffffffU) : x;
  } else {
    return std::isnan(x) ? std::bit_cast<T>(0x7fffffffffffffffULL) : x;
  }
}

template <class T>
slot_of<T> to_slot(T x) {
  if constexpr (std::floating_point<T>) {
    return std::bit_cast<slot_of<T>>(x);
  } else {
    return static_cast<slot_of<T>>(static_cast<std::make_unsigned_t<T>>(x));
  }
}

// Sources by their types, one destination.
template <class To, class F, class... From>
void compute(const operands& o, const instruction& in) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    auto* const to = o.at<slot_of<To>>(in.to[0]);
    const auto from = std::tuple(o.at<const slot_of<From>>(in.args[I])...);
    for_each_lane(o.lanes, [&](unsigned lane) {
      to[lane] = to_slot<To>(F{}(from_slot<From>(std::get<I>(from)[lane])...));
    });
  }(std::index_sequence_for<From...>{});
}

void write_predicate(const operands& o, place to, lane_mask bits) {
  lane_mask& p = *o.at<lane_mask>(to);
  p = (p & ~o.lanes) | (bits & o.lanes);
}

template <class T, class F>
void compare(const operands& o, const instruction& in) {
  const auto* const a = o.at<const slot_of<T>>(in.args[0]);
  const auto* const b = o.at<const slot_of<T>>(in.args[1]);
  lane_mask bits = 0;
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    const bool is = F{}(from_slot<T>(a[lane]), from_slot<T>(b[lane]));
    bits |= lane_mask{is} << lane;
  }
  write_predicate(o, in.to[0], bits);
}

template <class T>
void select(const operands& o, const instruction& in) {
  auto* const to = o.at<slot_of<T>>(in.to[0]);
  const auto* const a = o.at<const slot_of<T>>(in.args[0]);
  const auto* const b = o.at<const slot_of<T>>(in.args[1]);
  const lane_mask yes = *o.at<const lane_mask>(in.args[2]);
  for_each_lane(o.lanes, [&](unsigned l) { to[l] = (yes >> l & 1U) != 0 ? a[l] : b[l]; });
}

template <class F>
void predicates(const operands& o, const instruction& in) {
  const lane_mask a = *o.at<const lane_mask>(in.args[0]);
  const lane_mask b = in.args[1] == nowhere ? 0 : *o.at<const lane_mask>(in.args[1]);
  write_predicate(o, in.to[0], F{}(a, b));
}

template <class F>
auto predicates_of(F) {
  return predicates<F>;
}

// mov with a list of halves or quarters on one side.
template <class Whole, class Part>
void pack(const operands& o, const instruction& in) {
  for_each_lane(o.lanes, [&](unsigned lane) {
    Whole x = 0;
    for (unsigned n = 0; n < sizeof(Whole) / sizeof(Part); ++n) {
      const auto part = static_cast<Part>(o.at<const std::uint32_t>(in.args[n])[lane]);
      x |= static_cast<Whole>(part) << (8 * sizeof(Part) * n);
    }
    o.at<slot_of<Whole>>(in.to[0])[lane] = x;
  });
}
template <class Whole, class Part>
void unpack(const operands& o, const instruction& in) {
  for_each_lane(o.lanes, [&](unsigned lane) {
    const auto x = static_cast<Whole>(o.at<const slot_of<Whole>>(in.args[0])[lane]);
    for (unsigned n = 0; n < sizeof(Whole) / sizeof(Part); ++n) {
      if (in.to[n] != nowhere) {
        o.at<std::uint32_t>(in.to[n])[lane] = static_cast<Part>(x >> (8 * sizeof(Part) * n));
      }
    }
  });
}

float widened(half h) {
  const std::uint32_t sign = std::uint32_t{h.bits & 0x8000U} << 16U;
  const std::uint32_t exponent = h.bits >> 10U & 31U;
  const std::uint32_t fraction = h.bits & 1023U;
  if (exponent == 31) {
    return fraction == 0 ? std::bit_cast<float>(sign | 0x7f800000U)
                         : std::bit_cast<float>(0x7fffffffU);
  }
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                   : std::ldexp(static_cast<float>(fraction | 1024U),
                                                static_cast<int>(exponent) - 25);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(size) | sign);
}

// The nearest half, ties to the even one.
half narrowed(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>(bits >> 16U & 0x8000U);
  if (std::isnan(x)) {
    return {0x7fff};
  }
  const float size = std::fabs(x);
  if (size >= 65520.0F) {
    return {static_cast<std::uint16_t>(sign | 0x7c00U)};
  }
  const int exponent = std::max(std::ilogb(size), -14);
  const auto units = size == 0 ? 0.0F : std::nearbyint(std::ldexp(size, 10 - exponent));
  // A fraction of 2,048 carries into the exponent.
  const auto whole = static_cast<std::uint32_t>(units);
  const std::uint32_t code =
      size == 0 ? 0 : static_cast<std::uint32_t>(exponent + 14) * 1024U + whole;
  return {static_cast<std::uint16_t>(sign | code)};
}

// As wide as the larger; saturates where PTX does: floating point to integer.
template <class To, class From>
To converted(From x) {
  if constexpr (std::floating_point<From> && std::integral<To>) {
    if (std::isnan(x)) {
      return 0;
    }
    const From t = std::trunc(x);
    const From high = std::ldexp(From{1}, std::numeric_limits<To>::digits);
    if (t >= high) {
      return std::numeric_limits<To>::max();
    }
    return t < static_cast<From>(std::numeric_limits<To>::min()) ? std::numeric_limits<To>::min()
                                                                 : static_cast<To>(t);
  } else if constexpr (std::floating_point<To> && std::floating_point<From>) {
    return canonical(static_cast<To>(x));
  } else {
    return static_cast<To>(x);
  }
}

template <std::floating_point T>
T smaller(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) {
    return canonical(std::isnan(a) ? b : a);
  }
  return a == b ? (std::signbit(a) ? a : b) : std::min(a, b);
}
template <std::floating_point T>
T larger(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) {
    return canonical(std::isnan(a) ? b : a);
  }
  return a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
}
template <std::floating_point T>
T or_nan(T a, T b, T chosen) {
  return std::isnan(a) || std::isnan(b) ? canonical(a + b) : chosen;
}

std::uint32_t permuted_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
  const std::uint64_t all = std::uint64_t{b} << 32U | a;
  std::uint32_t result = 0;
  for (unsigned n = 0; n < 4; ++n) {
    const std::uint32_t how = selector >> (4 * n) & 15U;
    auto byte = static_cast<std::uint32_t>(all >> (8 * (how & 7U)) & 255U);
    if ((how & 8U) != 0) {
      byte = (byte & 128U) != 0 ? 255U : 0U;
    }
    result |= byte << (8 * n);
  }
  return result;
}

template <class T>
T inserted(T from, T into, std::uint32_t at, std::uint32_t count) {
  constexpr std::uint32_t width = 8 * sizeof(T);
  at &= 255U;
  count &= 255U;
  if (at >= width || count == 0) {
    return into;
  }
  const T ones = count >= width ? ~T{0} : static_cast<T>((T{1} << count) - 1);
  const T mask = ones << at;
  return (into & ~mask) | (from << at & mask);
}

using table = std::unordered_map<std::string, operation>;

template <class T>
constexpr std::uint8_t slot_size = sizeof(T) == 8 ? 8 : 4;

template <class To, class... From, class F>
operation of_types(F) {
  operation op{compute<To, F, From...>, slot_size<To>, {}};
  std::size_t n = 0;
  ((op.args[n++] = slot_size<From>), ...);
  return op;
}

template <class T>
void add_integer_operations(table& t, const std::string& type) {
  using U = std::make_unsigned_t<T>;
  using word = std::uint32_t;
  constexpr unsigned width = 8 * sizeof(T);
  const auto name = [&](const char* op) { return std::string(op) + "." + type; };
  const auto two = [&](const char* op, auto f) { t[name(op)] = of_types<T, T, T>(f); };
  two("add", [](T a, T b) { return static_cast<T>(U(a) + U(b)); });
  two("sub", [](T a, T b) { return static_cast<T>(U(a) - U(b)); });
  two("mul.lo", [](T a, T b) { return static_cast<T>(std::uint64_t(a) * std::uint64_t(b)); });
  // A division by zero has all bits, as on a device.
  two("div", [](T a, T b) {
    return b == 0 ? static_cast<T>(~U{0})
                  : (std::is_signed_v<T> && b == T(-1) ? static_cast<T>(U{0} - U(a))
                                                       : static_cast<T>(a / b));
  });
  two("rem", [](T a, T b) {
    return b == 0 ? a : (std::is_signed_v<T> && b == T(-1) ? T{0} : static_cast<T>(a % b));
  });
  two("min", [](T a, T b) { return std::min(a, b); });
  two("max", [](T a, T b) { return std::max(a, b); });
  two("and", [](T a, T b) { return static_cast<T>(a & b); });
  two("or", [](T a, T b) { return static_cast<T>(a | b); });
  two("xor", [](T a, T b) { return static_cast<T>(a ^ b); });
  t[name("mad.lo")] = of_types<T, T, T, T>([](T a, T b, T c) {
    return static_cast<T>(std::uint64_t(a) * std::uint64_t(b) + std::uint64_t(c));
  });
  t[name("not")] = of_types<T, T>([](T a) { return static_cast<T>(~a); });
  t[name("neg")] = of_types<T, T>([](T a) { return static_cast<T>(U{0} - U(a)); });
  t[name("abs")] = of_types<T, T>([](T a) { return a < 0 ? static_cast<T>(U{0} - U(a)) : a; });
  t[name("mov")] = of_types<T, T>([](T a) { return a; });
  t[name("shl")] = of_types<T, T, word>(
      [](T a, word by) { return static_cast<T>(by >= width ? 0 : std::uint64_t(a) << by); });
  t[name("shr")] = of_types<T, T, word>([](T a, word by) {
    return static_cast<T>(by < width ? a >> by : (std::is_signed_v<T> && a < 0 ? -1 : 0));
  });
  t[name("selp")] = {select<T>, slot_size<T>, {slot_size<T>, slot_size<T>, 1}};
  t[name("popc")] = of_types<word, T>([](T a) { return word(std::popcount(U(a))); });
  t[name("clz")] = of_types<word, T>([](T a) { return word(std::countl_zero(U(a))); });
  if constexpr (sizeof(T) >= 4) {
    t[name("bfi")] = of_types<T, T, T, word, word>(
        [](T a, T b, word c, word d) { return T(inserted(U(a), U(b), c, d)); });
  }
  const auto set = [&](const char* op, auto f) {
    t["setp." + std::string(op) + "." + type] = {
        compare<T, decltype(f)>, 1, {slot_size<T>, slot_size<T>}};
  };
  set("eq", [](T a, T b) { return a == b; });
  set("ne", [](T a, T b) { return a != b; });
  for (const char* op : {"lt", "lo"}) {
    set(op, [](T a, T b) { return a < b; });
  }
  for (const char* op : {"le", "ls"}) {
    set(op, [](T a, T b) { return a <= b; });
  }
  for (const char* op : {"gt", "hi"}) {
    set(op, [](T a, T b) { return a > b; });
  }
  for (const char* op : {"ge", "hs"}) {
    set(op, [](T a, T b) { return a >= b; });
  }
}

template <class T>
void add_floating_operations(table& t, const std::string& type) {
  const auto name = [&](const char* op) { return std::string(op) + "." + type; };
  for (const char* rounding : {"", ".rn"}) {
    const auto rounded = [&](const char* op) { return std::string(op) + rounding + "." + type; };
    t[rounded("add")] = of_types<T, T, T>([](T a, T b) { return canonical(a + b); });
    t[rounded("sub")] = of_types<T, T, T>([](T a, T b) { return canonical(a - b); });
    t[rounded("mul")] = of_types<T, T, T>([](T a, T b) { return canonical(a * b); });
  }
  t[name("div.rn")] = of_types<T, T, T>([](T a, T b) { return canonical(a / b); });
  t[name("sqrt.rn")] = of_types<T, T>([](T a) { return canonical(std::sqrt(a)); });
  t[name("fma.rn")] =
      of_types<T, T, T, T>([](T a, T b, T c) { return canonical(std::fma(a, b, c)); });
  t[name("min")] = of_types<T, T, T>([](T a, T b) { return smaller(a, b); });
  t[name("max")] = of_types<T, T, T>([](T a, T b) { return larger(a, b); });
  t[name("min.NaN")] = of_types<T, T, T>([](T a, T b) { return or_nan(a, b, smaller(a, b)); });
  t[name("max.NaN")] = of_types<T, T, T>([](T a, T b) { return or_nan(a, b, larger(a, b)); });
  t[name("neg")] = of_types<T, T>([](T a) { return -a; });
  t[name("abs")] = of_types<T, T>([](T a) { return std::fabs(a); });
  using bits = slot_of<T>;
  t[name("mov")] = of_types<bits, bits>([](bits a) { return a; });
  t[name("selp")] = {select<T>, slot_size<T>, {slot_size<T>, slot_size<T>, 1}};
  const auto set = [&](const char* op, auto f) {
    t["setp." + std::string(op) + "." + type] = {
        compare<T, decltype(f)>, 1, {slot_size<T>, slot_size<T>}};
  };
  set("eq", [](T a, T b) { return a == b; });
  set("ne", [](T a, T b) { return a < b || a > b; });
  set("lt", [](T a, T b) { return a < b; });
  set("le", [](T a, T b) { return a <= b; });
  set("gt", [](T a, T b) { return a > b; });
  set("ge", [](T a, T b) { return a >= b; });
  set("equ", [](T a, T b) { return !(a < b || a > b); });
  set("neu", [](T a, T b) { return a != b; });
  set("ltu", [](T a, T b) { return !(a >= b); });
  set("leu", [](T a, T b) { return !(a > b); });
  set("gtu", [](T a, T b) { return !(a <= b); });
  set("geu", [](T a, T b) { return !(a < b); });
  set("num", [](T a, T b) { return !std::isnan(a) && !std::isnan(b); });
  set("nan", [](T a, T b) { return std::isnan(a) || std::isnan(b); });
}

template <class To, class From>
void add_conversion(table& t, const std::string& to, const std::string& from) {
  constexpr bool integral = std::integral<To> && std::integral<From>;
  const char* rounding = std::floating_point<To> ? ".rn" : ".rzi";
  if constexpr (std::floating_point<To> && std::floating_point<From>) {
    rounding = sizeof(To) < sizeof(From) ? ".rn" : "";
  }
  t["cvt" + std::string(integral ? "" : rounding) + "." + to + "." + from] =
      of_types<To, From>([](From a) { return converted<To>(a); });
}

template <class To>
void add_conversions(table& t, const std::string& to) {
  add_conversion<To, std::uint8_t>(t, to, "u8");
  add_conversion<To, std::int8_t>(t, to, "s8");
  add_conversion<To, std::uint16_t>(t, to, "u16");
  add_conversion<To, std::int16_t>(t, to, "s16");
  add_conversion<To, std::uint32_t>(t, to, "u32");
  add_conversion<To, std::int32_t>(t, to, "s32");
  add_conversion<To, std::uint64_t>(t, to, "u64");
  add_conversion<To, std::int64_t>(t, to, "s64");
  add_conversion<To, float>(t, to, "f32");
  add_conversion<To, double>(t, to, "f64");
}

template <class To, class From>
operation widening_product() {
  return of_types<To, From, From>([](From a, From b) { return static_cast<To>(To{a} * To{b}); });
}
table all_operations() {
  table t;
  using u16 = std::uint16_t;
  using s16 = std::int16_t;
  using u32 = std::uint32_t;
  using s32 = std::int32_t;
  using u64 = std::uint64_t;
  using s64 = std::int64_t;
  add_integer_operations<u16>(t, "u16");
  add_integer_operations<u16>(t, "b16");
  add_integer_operations<s16>(t, "s16");
  add_integer_operations<u32>(t, "u32");
  add_integer_operations<u32>(t, "b32");
  add_integer_operations<s32>(t, "s32");
  add_integer_operations<u64>(t, "u64");
  add_integer_operations<u64>(t, "b64");
  add_integer_operations<s64>(t, "s64");
  add_floating_operations<float>(t, "f32");
  add_floating_operations<double>(t, "f64");
  add_conversions<std::uint8_t>(t, "u8");
  add_conversions<std::int8_t>(t, "s8");
  add_conversions<u16>(t, "u16");
  add_conversions<s16>(t, "s16");
  add_conversions<u32>(t, "u32");
  add_conversions<s32>(t, "s32");
  add_conversions<u64>(t, "u64");
  add_conversions<s64>(t, "s64");
  add_conversions<float>(t, "f32");
  add_conversions<double>(t, "f64");
  t["cvt.f32.f16"] = of_types<float, u16>([](u16 a) { return widened({a}); });
  t["cvt.rn.f16.f32"] = of_types<u16, float>([](float a) { return narrowed(a).bits; });
  for (const auto& [rounding, f] : {std::pair{"rni", 0}, {"rmi", 1}, {"rpi", 2}, {"rzi", 3}}) {
    const std::string op = "cvt." + std::string(rounding) + ".f32.f32";
    t[op] = f == 0   ? of_types<float, float>([](float a) { return canonical(std::nearbyint(a)); })
            : f == 1 ? of_types<float, float>([](float a) { return canonical(std::floor(a)); })
            : f == 2 ? of_types<float, float>([](float a) { return canonical(std::ceil(a)); })
                     : of_types<float, float>([](float a) { return canonical(std::trunc(a)); });
  }
  // The instructions of expf() of the toolkit; the last bits of ex2.approx are the device's own.
  t["cvt.sat.f32.f32"] =
      of_types<float, float>([](float a) { return a > 0.0F ? std::min(a, 1.0F) : 0.0F; });
  t["ex2.approx.ftz.f32"] = of_types<float, float>([](float a) {
    const float x = std::exp2(a);
    return x < 0x1p-126F ? 0.0F : canonical(x);
  });
  t["fma.rm.f32"] = of_types<float, float, float, float>([](float a, float b, float c) {
    const double exact = static_cast<double>(a) * static_cast<double>(b) + static_cast<double>(c);
    const auto x = static_cast<float>(exact);
    return canonical(static_cast<double>(x) > exact
                         ? std::nextafter(x, -std::numeric_limits<float>::infinity())
                         : x);
  });
  t["mul.hi.u64"] = of_types<u64, u64, u64>([](u64 a, u64 b) {
    __extension__ using wide = unsigned __int128;
    return static_cast<u64>(wide{a} * b >> 64U);
  });
  t["cvt.rni.s32.f32"] =
      of_types<s32, float>([](float a) { return converted<s32>(std::nearbyint(a)); });
  t["mul.wide.u16"] = widening_product<u32, u16>();
  t["mul.wide.s16"] = widening_product<s32, s16>();
  t["mul.wide.u32"] = widening_product<u64, u32>();
  t["mul.wide.s32"] = widening_product<s64, s32>();
  t["mul.hi.u32"] = of_types<u32, u32, u32>([](u32 a, u32 b) { return u32(u64(a) * b >> 32U); });
  t["mul.hi.s32"] =
      of_types<s32, s32, s32>([](s32 a, s32 b) { return static_cast<s32>(s64(a) * b >> 32); });
  t["prmt.b32"] =
      of_types<u32, u32, u32, u32>([](u32 a, u32 b, u32 c) { return permuted_bytes(a, b, c); });
  // The upper word of {b, a} shifted to the left, the lower one of {b, a} shifted to the right.
  t["shf.l.wrap.b32"] = of_types<u32, u32, u32, u32>(
      [](u32 a, u32 b, u32 c) { return u32(((u64(b) << 32U | a) << (c & 31U)) >> 32U); });
  t["shf.r.wrap.b32"] = of_types<u32, u32, u32, u32>(
      [](u32 a, u32 b, u32 c) { return u32((u64(b) << 32U | a) >> (c & 31U)); });
  t["cvta.global.u64"] = t["cvta.to.global.u64"] = t["cvta.const.u64"] = t["mov.u64"];
  t["cvta.shared.u64"] = of_types<u64, u64>([](u64 a) { return a | shared_window; });
  t["cvta.local.u64"] = of_types<u64, u64>([](u64 a) { return a | local_window; });
  t["cvta.param.u64"] = of_types<u64, u64>([](u64 a) { return a | parameter_window; });
  t["cvta.to.shared.u64"] = t["cvta.to.local.u64"] = t["cvta.to.param.u64"] =
      of_types<u64, u64>([](u64 a) { return a & ~window_mask; });
  // decode_mbarrier(): the word of a barrier, and whether it is in another phase than in a state.
  t["mbarrier.init"] =
      of_types<u64, u32>([](u32 count) { return u64{count} << 20U | (count & 0xfffffU); });
  const auto has_passed = [](u64 now, u64 state) { return ((now ^ state) >> 63U) != 0; };
  t["mbarrier.has_passed"] = {compare<u64, decltype(has_passed)>, 1, {8, 8}};
  using m = lane_mask;
  t["and.pred"] = {predicates_of([](m a, m b) { return a & b; }), 1, {1, 1}};
  t["or.pred"] = {predicates_of([](m a, m b) { return a | b; }), 1, {1, 1}};
  t["xor.pred"] = {predicates_of([](m a, m b) { return a ^ b; }), 1, {1, 1}};
  t["not.pred"] = {predicates_of([](m a, m) { return ~a; }), 1, {1}};
  t["mov.pred"] = {predicates_of([](m a, m) { return a; }), 1, {1}};
  t["pack.b64.2"] = {pack<u64, u32>, 8, {4, 4}};
  t["pack.b64.4"] = {pack<u64, u16>, 8, {4, 4, 4, 4}};
  t["pack.b32.2"] = {pack<u32, u16>, 4, {4, 4}};
  t["pack.b16.2"] = {pack<u16, std::uint8_t>, 4, {4, 4}};
  t["pack.b32.4"] = {pack<u32, std::uint8_t>, 4, {4, 4, 4, 4}};
  t["unpack.b64.2"] = {unpack<u64, u32>, 4, {8}};
  t["unpack.b64.4"] = {unpack<u64, u16>, 4, {8}};
  t["unpack.b32.2"] = {unpack<u32, u16>, 4, {4}};
  t["unpack.b32.4"] = {unpack<u32, std::uint8_t>, 4, {4}};
  t["unpack.b16.2"] = {unpack<u16, std::uint8_t>, 4, {4}};
  return t;
}

}  // namespace

const operation* find_operation(std::string_view opcode) {
  static const table all = all_operations();
  const auto found = all.find(std::string(opcode));
  return found == all.end() ? nullptr : &found->second;
}

}  // namespace unmask::ptx
