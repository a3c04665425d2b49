// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/language.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace unmask::testing::grammar_test {
namespace {

using language::compile_grammar;
using language::compiled;
using language::grammar_options;

struct example {
  std::string_view grammar;
  std::vector<std::string_view> in;
  std::vector<std::string_view> out;
};

void check(const example& e, const grammar_options& options = {}) {
  const compiled got = compile_grammar(e.grammar, options);
  ASSERT_TRUE(got) << e.grammar << ": " << got.refused->message;
  for (const std::string_view text : e.in) {
    EXPECT_TRUE(got.bytes.accepts(text)) << e.grammar << " and " << text;
  }
  for (const std::string_view text : e.out) {
    EXPECT_FALSE(got.bytes.accepts(text)) << e.grammar << " and " << text;
  }
}

TEST(grammar, has_the_notation_of_llama_cpp) {
  const example examples[] = {
      {"root ::= \"a\"", {"a"}, {"", "aa"}},
      {"root ::= a b\na ::= \"x\" # of a\nb ::= \"y\"\n", {"xy"}, {"x"}},
      {"root ::= \"a\" |\n  \"b\"\n", {"a", "b"}, {"ab"}},
      {"root ::= (\n  \"a\" # one\n  \"b\"\n)+\n\n", {"ab", "abab"}, {"", "a"}},
      {"root ::= | \"a\"", {"", "a"}, {"b"}},
      {"root ::= [a-c_] [^\\n\\]]", {"ab", "_\xC3\xA4"}, {"a]", "a\n"}},
      {"root ::= [-a-c-] .", {"-x", "b\n"}, {"d", "dx"}},
      {"root ::= \"a\"{2} \"b\"{1,} \"c\" {0,2} \"d\"*", {"aab", "aabbccdd"}, {"ab", "aabccc"}},
      {"root ::= (\"a\" \"b\"?){2,3}", {"aa", "abab", "aaba"}, {"a", "abb"}},
      {"root ::= \"\\x41\\u00e4\\U0001F600\\t\"", {"A\xC3\xA4\xF0\x9F\x98\x80\t"}, {}},
      {"root ::= \"\\\"\\\\\\[\\]\"", {"\"\\[]"}, {}},
      {"root ::= data-Type 1rule\ndata-Type ::= \"a\"\r\n1rule ::= \"b\"", {"ab"}, {}},
      {"root ::= \"a\".\"b\"", {"axb"}, {"ab"}},
      {"root ::= a.b\na ::= \"x\"\nb ::= \"y\"", {"x-y"}, {"xy"}},
      {"root ::= \"a\"+?", {"", "aaa"}, {"b"}},
  };
  for (const example& e : examples) {
    check(e);
  }
}

TEST(grammar, has_the_notation_of_xgrammar) {
  const example examples[] = {
      {"root ::= \"a\"\n  \"b\"\n  | \"c\"", {"ab", "c"}, {"a"}},
      {"root ::= a.b\na.b ::= \"x\"", {"x"}, {"axb"}},
      {"root ::= ( ) \"a\" ()", {"a"}, {""}},
      {"root ::= [^] \"\\e\\0\\a\\'\\?\\/\"", {std::string_view("\n\x1b\0\a'?/", 7)}, {}},
      {"root ::= [\\^\\$\\.\\-a]", {"^", "$", ".", "-", "a"}, {"\\"}},
      {"  root   ::=\n\"a\"\n  b ::= \"c\"", {"a"}, {"ac"}},
  };
  for (const example& e : examples) {
    check(e);
  }
}

TEST(grammar, repeats_without_a_bound_at_one_end) {
  grammar_options once;
  once.recursion = 1;
  const example examples[] = {
      {"root ::= \"a\" root | \"b\"", {"b", "aaaaaaaaab"}, {"a"}},
      {"root ::= root \"a\" | \"b\"", {"b", "baaaaaaaaa"}, {"ab"}},
      {"root ::= root | \"b\"", {"b"}, {}},
      {"root ::= a\na ::= \"x\" a | \"y\" b | \"z\"\nb ::= \"p\" a | \"q\"",
       {"z", "xxxypypyq"},
       {"xp", "y"}},
      {"root ::= a\na ::= a \"x\" | b \"y\" | \"z\"\nb ::= a \"p\" | \"q\"",
       {"z", "qypyxx"},
       {"py"}},
      {"root ::= (root \"+\")? \"1\"", {"1", "1+1+1+1+1+1"}, {"+1", "11"}},
  };
  for (const example& e : examples) {
    check(e, once);
  }
  // Left recursion beside parentheses: sums of any length at every level.
  grammar_options twice;
  twice.recursion = 2;
  check({"root ::= e\ne ::= e \"+\" t | t\nt ::= \"1\" | \"(\" e \")\" | \"-\" t",
         {"1+1+1+1+1+1+1", "(1+1+1+1+1)+-----1", "---(1)"},
         {"((1))", "1+", "()"}},
        twice);
  check({"root ::= e\ne ::= e \"+\" e | \"1\" | \"(\" e \")\"",
         {"1+1+1+1+1+1+1", "(1)+1+1"},
         {"((1))"}},
        twice);
}

TEST(grammar, leaves_out_what_is_deeper_than_the_bound) {
  for (std::uint32_t recursion = 1; recursion < 6; ++recursion) {
    grammar_options options;
    options.recursion = recursion;
    const compiled got = compile_grammar("root ::= \"(\" root \")\" | \"x\"", options);
    ASSERT_TRUE(got);
    for (std::uint32_t deep = 0; deep < 8; ++deep) {
      const std::string text = std::string(deep, '(') + "x" + std::string(deep, ')');
      EXPECT_EQ(got.bytes.accepts(text), deep < recursion) << text;
    }
  }
  // Each level of values costs one, whatever leads from one to the next.
  grammar_options options;
  options.recursion = 3;
  check(
      {"root ::= value\nvalue ::= object | array | \"1\"\nobject ::= \"{\" (value (\",\" value)*)? "
       "\"}\"\narray ::= \"[\" (value (\",\" value)*)? \"]\"",
       {"[{1,1},[1]]", "{{1},{}}"},
       {"[[[1]]]"}},
      options);
}

TEST(grammar, says_where_it_is_wrong) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", "line 1, column 1: there is no rule 'root', the option `root`"},
      {"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: the rule 'root' is defined twice"},
      {"root ::= a\n", "line 1, column 10: there is no rule 'a'"},
      {"root ::= \"a", "line 1, column 10: this text is not closed"},
      {"root ::= [a", "line 1, column 10: this class is not closed"},
      {"root ::= [z-a]", "line 1, column 11: the range is in the wrong order"},
      {"root ::= []", "line 1, column 10: this class has no character"},
      {"root ::=\n  (\"a\"", "line 2, column 3: this group is not closed"},
      {"root ::= \"a\")", "line 1, column 13: ')' closes no group"},
      {"root ::= *", "line 1, column 10: '*' repeats nothing"},
      {"root ::= \"a\"{2,1}", "line 1, column 13: the counts are in the wrong order"},
      {"root ::= \"a\"{,1}", "line 1, column 14: expected a count, got ','"},
      {"root ::= \"\\q\"", "line 1, column 11: unknown escape \\q"},
      {"root ::= \"\\x4\"", "line 1, column 11: expected 2 hexadecimal digits"},
      {"root ::= \"\\x41F\"",
       "line 1, column 11: \\x has two digits, and others read all that follow as one number: "
       "write \\u or \\U"},
      {"root ::= \"\\uD800\"", "line 1, column 11: this is not a character of Unicode"},
      {"root ::= (= \"a\")", "line 1, column 10: look-ahead (= is not supported"},
      {"root ::= <think>", "line 1, column 10: tokens (<...>) are not supported: write their text"},
      {"root ::= Regex(\"a\")", "line 1, column 10: the macro Regex is not supported"},
      {"root[lazy] ::= \"a\"", "line 1, column 5: options of rules are not supported"},
      {"root: \"a\"", "line 1, column 5: expected '::=' behind the name of a rule, got ':'"},
      {"root ::= \"a\" b ::= \"c\"",
       "line 1, column 16: expected a text, a class, a group or the name of a rule, got ':'"},
      {"root ::= root \"a\"",
       "the grammar derives no text in which rules contain themselves at most 3 times: give a "
       "greater `recursion`, or an alternative that ends"},
      {"root ::= \"\xFF\"", "the grammar is not UTF-8 at byte 11"},
  };
  for (const auto& [grammar, message] : cases) {
    const compiled got = compile_grammar(grammar);
    ASSERT_FALSE(got) << grammar;
    EXPECT_EQ(got.refused->message, message);
  }
  const compiled got = compile_grammar("root ::= \"a\"\n\n  b ::= $");
  EXPECT_EQ(got.refused->line, 3U);
  EXPECT_EQ(got.refused->column, 9U);
  grammar_options options;
  options.recursion = 0;
  EXPECT_EQ(compile_grammar("root ::= \"a\"", options).refused->message,
            "the option `recursion` must be at least 1, got 0");
  options.recursion = 1;
  options.root = "start";
  EXPECT_TRUE(compile_grammar("start ::= \"a\"", options));
}

TEST(grammar, counts_states_while_it_expands) {
  grammar_options options;
  options.limits.states = 5'000;
  options.recursion = 1'000'000;
  const std::string_view nested =
      "root ::= \"(\" root \")\" | root \"+\" root | [0-9]+ | \"[\" root \"]\"";
  const compiled got = compile_grammar(nested, options);
  ASSERT_FALSE(got);
  EXPECT_NE(got.refused->message.find("the limit `states`"), std::string::npos)
      << got.refused->message;
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 20'000; ++i) {
    chain += "r" + std::to_string(i) + " ::= \"a\" r" + std::to_string(i + 1) + "?\n";
  }
  chain += "r20000 ::= \"b\"";
  options.limits = {};
  options.limits.milliseconds = 500;
  EXPECT_FALSE(compile_grammar(chain, options)) << "refused in time, without recursion of its own";
  std::string groups = "root ::= ";
  groups.append(300, '(');
  EXPECT_NE(compile_grammar(groups).refused->message.find("groups are nested"), std::string::npos);
}

// A grammar that is drawn, and the texts that it derives by the definition: what a part derives of
// the text between two places, until nothing new is found.
class random_grammar {
 public:
  explicit random_grammar(std::mt19937& random)
      : random_(random)
      , bodies_(1 + random() % 3) {
    for (node& body : bodies_) {
      body = draw(3);
    }
  }
  [[nodiscard]] std::string text() const {
    std::string out;
    for (std::size_t r = 0; r < bodies_.size(); ++r) {
      out += name(r) + " ::= " + text_of(bodies_[r]) + "\n";
    }
    return out;
  }
  [[nodiscard]] bool derives(const std::string& text) const {
    facts known;
    for (std::size_t before = known.size() + 1; before != known.size();) {
      before = known.size();
      for (std::size_t r = 0; r < bodies_.size(); ++r) {
        for (std::size_t i = 0; i <= text.size(); ++i) {
          for (const std::size_t j : ends(bodies_[r], text, i, known)) {
            known.insert({r, i, j});
          }
        }
      }
    }
    return known.count({0, 0, text.size()}) != 0;
  }

 private:
  struct node {
    char is = 'c';  // c a character, r a rule, s a sequence, | a choice, * + ? repetitions
    std::size_t value = 0;
    std::vector<node> parts;
  };
  using facts = std::set<std::tuple<std::size_t, std::size_t, std::size_t>>;

  static std::string name(std::size_t r) { return r == 0 ? "root" : "r" + std::to_string(r); }
  node draw(int depth) {
    const auto pick = random_() % 10;
    if (depth == 0 || pick < 2) {
      return {'c', random_() % 2, {}};
    }
    if (pick < 5) {
      return {'r', random_() % bodies_.size(), {}};
    }
    if (pick < 9) {
      node out{pick < 7 ? 's' : '|', 0, {}};
      for (std::size_t i = 0; i < 2 + random_() % 2; ++i) {
        out.parts.push_back(draw(depth - 1));
      }
      return out;
    }
    return {"*+?" [random_() % 3], 0, { draw(depth - 1) }};
  }
  static std::string text_of(const node& n) {
    if (n.is == 'c') {
      return n.value == 0 ? "\"a\"" : "[b]";
    }
    if (n.is == 'r') {
      return name(n.value);
    }
    std::string out = "(";
    for (std::size_t i = 0; i < n.parts.size(); ++i) {
      out += (i == 0 ? "" : n.is == '|' ? " | " : " ") + text_of(n.parts[i]);
    }
    return out + ")" + (n.is == 's' || n.is == '|' ? "" : std::string(1, n.is));
  }
  static std::set<std::size_t>
  ends(const node& n, const std::string& text, std::size_t from, const facts& known) {
    std::set<std::size_t> out;
    switch (n.is) {
    case 'c':
      if (from < text.size() && text[from] == static_cast<char>('a' + n.value)) {
        out.insert(from + 1);
      }
      break;
    case 'r':
      for (auto at = known.lower_bound({n.value, from, 0});
           at != known.end() && std::get<0>(*at) == n.value && std::get<1>(*at) == from;
           ++at) {
        out.insert(std::get<2>(*at));
      }
      break;
    case 's':
      out = {from};
      for (const node& part : n.parts) {
        std::set<std::size_t> next;
        for (const std::size_t i : out) {
          next.merge(ends(part, text, i, known));
        }
        out = std::move(next);
      }
      break;
    case '|':
      for (const node& part : n.parts) {
        out.merge(ends(part, text, from, known));
      }
      break;
    default:
      out = ends(n.parts[0], text, from, known);
      for (std::size_t before = 0; n.is != '?' && before != out.size();) {
        before = out.size();
        for (const std::size_t i : std::set<std::size_t>(out)) {
          out.merge(ends(n.parts[0], text, i, known));
        }
      }
      if (n.is != '+') {
        out.insert(from);
      }
    }
    return out;
  }

  std::mt19937& random_;
  std::vector<node> bodies_;
};

// A text of n characters needs no rule in itself more than n + 1 times without a repetition of the
// same place, and there are at most as many heads as rules.
TEST(grammar, derives_what_the_definition_derives) {
  std::vector<std::string> texts{""};
  for (std::size_t i = 0; texts[i].size() < 4; ++i) {
    texts.push_back(texts[i] + "a");
    texts.push_back(texts[i] + "b");
  }
  std::mt19937 random(20261129);
  int compiled_ones = 0;
  int strings = 0;
  int shallow = 0;
  for (int i = 0; i < 600; ++i) {
    const random_grammar drawn(random);
    grammar_options options;
    options.recursion = 16;
    options.limits.states = 20'000;
    const compiled deep = compile_grammar(drawn.text(), options);
    options.recursion = 1 + static_cast<std::uint32_t>(random() % 3);
    const compiled flat = compile_grammar(drawn.text(), options);
    if (!deep && deep.refused->message.find("derives no text") == std::string::npos) {
      continue;
    }
    ++compiled_ones;
    for (const std::string& text : texts) {
      const bool is_in = drawn.derives(text);
      ++strings;
      ASSERT_EQ(deep && deep.bytes.accepts(text), is_in) << drawn.text() << text;
      if (flat && flat.bytes.accepts(text)) {
        ++shallow;
        ASSERT_TRUE(is_in) << drawn.text() << text;
      }
    }
  }
  EXPECT_GT(compiled_ones, 400);
  EXPECT_GT(strings, 10'000);
  EXPECT_GT(shallow, 500);
}

}  // namespace
}  // namespace unmask::testing::grammar_test
