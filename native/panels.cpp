#include "panels.hpp"

#include <algorithm>
#include <atomic>

namespace heedmap {
namespace {

constexpr Index SMALL = 1 << 15;  // numbers that one thread moves sooner than a team would start
constexpr Index TILE = 16;        // columns read at a time: a cache line of each row

struct Job {
  const Panels& panels;
  std::atomic<Index> next{0};

  static void work(void* data) {
    Job& job = *static_cast<Job*>(data);
    const Index all = job.panels.heads * job.panels.count();
    for (Index at = job.next.fetch_add(1); at < all; at = job.next.fetch_add(1)) one(job.panels, at);
  }

  static void one(const Panels& panels, Index at) {
    const Index head = at / panels.count(), first = at % panels.count() * panels.panel;
    const Index here = std::min(panels.panel, panels.rows - first);
    const float* from = panels.from + head * panels.head_stride + first * panels.row_stride;
    float* to = panels.to + at * panels.dim * panels.panel;
    for (Index start = 0; start < panels.dim; start += TILE) {
      const Index stop = std::min(start + TILE, panels.dim);
      for (Index row = 0; row < here; ++row) {
        const float* numbers = from + row * panels.row_stride;
        for (Index column = start; column < stop; ++column) to[column * panels.panel + row] = numbers[column];
      }
      for (Index column = start; column < stop; ++column) {
        std::fill(to + column * panels.panel + here, to + (column + 1) * panels.panel, 0.0f);
      }
    }
  }
};

}  // namespace

void pack_rows(const Panels& panels, const Team& team, int threads) {
  if (panels.heads * panels.rows * panels.dim <= SMALL) threads = 1;
  Job job{panels};
  team.run(std::max(1, threads), Job::work, &job);
}

}  // namespace heedmap
