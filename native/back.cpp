#include "back.hpp"

#include <algorithm>
#include <atomic>

namespace heedmap {
namespace {

constexpr Index SMALL = 1 << 12;  // scores that one thread handles sooner than a team would start

struct Job {
  const Level& level;
  const Back& back;
  std::vector<BackUnit> units;
  float* tables;
  int seats;
  std::atomic<Index> next{0};
  std::atomic<int> arrived{0};

  static void work(void* data) {
    Job& job = *static_cast<Job*>(data);
    const int seat = job.arrived.fetch_add(1);
    if (seat >= job.seats) return;
    const Index count = static_cast<Index>(job.units.size());
    for (Index at = job.next.fetch_add(1); at < count; at = job.next.fetch_add(1)) {
      job.level.back(job.back, job.units[static_cast<std::size_t>(at)], job.tables + seat * 2 * BACK_ROWS * BACK_PITCH);
    }
  }
};

// Every key head's spans in turn.
std::vector<BackUnit> units_of(const Back& back) {
  std::vector<BackUnit> units;
  const Index stop = back.key_start + back.keys;
  for (Index head = 0; head < back.heads;) {
    const Index next = std::min(((back.head_start + head) / back.group + 1) * back.group - back.head_start, back.heads);
    for (Index span = back.key_start / BACK_SPAN; span * BACK_SPAN < stop; ++span) {
      const Index first = std::max(span * BACK_SPAN, back.key_start), last = std::min((span + 1) * BACK_SPAN, stop);
      units.push_back({head, next - head, first, last, nullptr});
    }
    head = next;
  }
  return units;
}

}  // namespace

void flow_back(const Level& level, const Back& back, const Team& team, int threads, Workspace& room) {
  if (back.heads == 0 || back.rows == 0) return;
  if (back.heads * back.rows * back.keys <= SMALL) threads = 1;
  threads = std::max(1, threads);
  Job job{level, back, units_of(back), nullptr, threads};
  const Index of_head = back.rows * back.key_width;
  Index size = static_cast<Index>(threads) * 2 * BACK_ROWS * BACK_PITCH;
  const Index tables = size;
  for (const BackUnit& unit : job.units) size += unit.heads * of_head;
  job.tables = room.floats(static_cast<std::size_t>(size));
  float* place = job.tables + tables;
  for (BackUnit& unit : job.units) {
    unit.of_query = place;
    place += unit.heads * of_head;
  }
  team.run(threads, Job::work, &job);
  std::fill_n(back.of_query, back.heads * of_head, 0.0f);
  for (const BackUnit& unit : job.units) {
    float* sums = back.of_query + unit.head * of_head;
    for (Index i = 0; i < unit.heads * of_head; ++i) sums[i] += unit.of_query[i];
  }
}

}  // namespace heedmap
