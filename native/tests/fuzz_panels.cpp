// Random rows packed in panels, against the plain loops of packing.hpp, for the sanitizers to watch.
//
//   fuzz_panels [problems] [seed]     how many, from which seed (1000, 1)
#include "fuzzing.hpp"
#include "packing.hpp"
#include "panels.hpp"

namespace heedmap {
namespace {

void run_one(unsigned seed) {
  Random random(seed);
  Panels panels;
  panels.heads = pick(random, 1, 5);
  panels.rows = coin(random, 4) ? pick(random, 1, 3) : pick(random, 1, 300);
  panels.dim = coin(random, 4) ? pick(random, 1, 3) : pick(random, 1, 140);
  panels.panel = coin(random) ? 32 : pick(random, 1, 40);
  panels.row_stride = panels.dim + (coin(random) ? 0 : pick(random, 0, 20));
  panels.head_stride = panels.rows * panels.row_stride + pick(random, 0, 20);
  if (coin(random, 8)) panels.head_stride = 0;  // one head's rows for all
  // the table ends with its last number: a read behind it is found
  const Index length = (panels.heads - 1) * panels.head_stride + (panels.rows - 1) * panels.row_stride + panels.dim;
  std::vector<float> table(static_cast<std::size_t>(length));
  for (float& number : table) number = std::normal_distribution<float>()(random);
  panels.from = table.data();
  const std::vector<float> expected =
      pack(panels.heads, panels.rows, panels.dim, panels.panel, [&](Index head, Index row, Index column) {
        return table[static_cast<std::size_t>(head * panels.head_stride + row * panels.row_stride + column)];
      });
  std::vector<float> found(expected.size(), -1.0f);
  panels.to = found.data();
  pack_rows(panels, Team(0), static_cast<int>(pick(random, 1, 4)));
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] != expected[i]) fail("a packed number", found[i], expected[i], "plain", seed);
  }
}

}  // namespace
}  // namespace heedmap

int main(int count, char** arguments) {
  std::printf("%u tables are packed as by plain loops\n", heedmap::run_all(count, arguments, heedmap::run_one));
}
