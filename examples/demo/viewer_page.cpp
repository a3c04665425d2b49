// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/viewer_page.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

#include "demo/measure.hpp"

namespace demo {

void write_viewer_page(std::span<const chosen_policy> policies,
                       engine& model,
                       std::span<const problem> problems,
                       const options& o) {
  const std::filesystem::path viewer =
      std::filesystem::path(UNMASK_EXAMPLES_DIR) / "viewer" / "viewer.html";
  std::ifstream in(viewer, std::ios::binary);
  std::string page{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  constexpr std::string_view place = "<!-- traces -->";
  const std::size_t at = page.find(place);
  if (!in || at == std::string::npos) {
    throw std::runtime_error(viewer.string() + ": no viewer");
  }
  std::ofstream out(o.html, std::ios::binary);  // before the decode: a name may be wrong
  std::string elements;
  for (const chosen_policy& policy : policies) {
    elements += "<script type=\"text/plain\" class=\"trace\">\n";
    // A line of a trace has no `<`: nothing of it ends the element.
    record(policy, model, problems, o, [&elements](std::string_view line) {
      elements += line;
      return true;
    });
    elements += "</script>\n";
  }
  page.replace(at, place.size(), elements);
  if (!out.write(page.data(), static_cast<std::streamsize>(page.size())).flush()) {
    throw std::runtime_error("--html " + o.html.string() + ": cannot be written");
  }
}

}  // namespace demo
