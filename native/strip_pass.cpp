#include "strip_pass.hpp"

#include <algorithm>
#include <atomic>
#include <limits>

namespace heedmap {
namespace {

constexpr Index SMALL = 1 << 14;       // scores that one thread handles sooner than a team would start
constexpr Index SPAN = 1 << 13;        // keys of one task of the second step
constexpr std::size_t LINE = 16;       // floats of a cache line

std::size_t padded(Index count) { return (static_cast<std::size_t>(count) + 2 * LINE - 1) / LINE * LINE; }

std::vector<Unit> units_of(const Strip& strip) {
  const Index height = std::min(strip.cell_rows, strip.rows);
  const bool whole = strip.rows % height == 0;
  // several small cells, or a part of a cell that is large
  const Index step = height >= UNIT_ROWS || !whole ? UNIT_ROWS : UNIT_ROWS / height * height;
  std::vector<Unit> units;
  for (Index head = 0; head < strip.heads; ++head) {
    for (Index cell = 0; cell < strip.rows; cell += height > UNIT_ROWS ? height : strip.rows) {
      const Index end = height > UNIT_ROWS ? std::min(cell + height, strip.rows) : strip.rows;
      const bool owns = height <= UNIT_ROWS || end - cell <= UNIT_ROWS;
      for (Index row = cell; row < end; row += step) units.push_back({head, row, std::min(row + step, end), owns});
    }
  }
  return units;
}

// A strip's two steps, which a team works through together.
struct Job {
  const Level& level;
  const Call& call;
  const Strip& strip;
  std::vector<Unit> units;
  std::vector<Partial> partials;
  std::vector<Scratch> scratches;
  std::vector<std::uint8_t> spoiled;
  std::atomic<Index> next{0};
  std::atomic<int> arrived{0};

  static void first(void* data) {
    Job& job = *static_cast<Job*>(data);
    const int seat = job.arrived.fetch_add(1);
    if (seat >= static_cast<int>(job.scratches.size())) return;
    const Scratch scratch = job.scratches[static_cast<std::size_t>(seat)];
    const Index count = static_cast<Index>(job.units.size());
    for (Index at = job.next.fetch_add(1); at < count; at = job.next.fetch_add(1)) {
      const auto i = static_cast<std::size_t>(at);
      job.spoiled[i] = job.level.unit(job.call, job.strip, job.units[i], job.partials[i], scratch);
    }
  }

  Index spans() const { return (strip.keys + UNIT_ROWS + SPAN - 1) / SPAN; }

  static void second(void* data) {
    Job& job = *static_cast<Job*>(data);
    const Index tasks = job.strip.heads * job.spans() * 3;
    for (Index at = job.next.fetch_add(1); at < tasks; at = job.next.fetch_add(1)) {
      const Index part = at / 3 % job.spans();
      job.gather(at / 3 / job.spans(), at % 3, part * SPAN, part * SPAN + SPAN);
    }
  }

  // Add the sums of all units of a head, in their order: kind 0 by key, 1 by distance, 2 by cell.
  void gather(Index head, Index kind, Index start, Index stop) {
    const Index line = strip.batch * call.heads + strip.head_start + head;
    const std::size_t per_head = units.size() / static_cast<std::size_t>(strip.heads);
    for (std::size_t i = per_head * static_cast<std::size_t>(head); i < per_head * static_cast<std::size_t>(head + 1); ++i) {
      const Unit& unit = units[i];
      const Partial& partial = partials[i];
      if (kind == 0 && call.received) {
        double* received = call.received + line * call.key_len + strip.key_start;
        level.add_columns(received, partial.columns, start, std::min(stop, strip.keys));
      } else if (kind == 1 && call.distance_profile) {
        const Index places = strip.keys + unit.row_stop - unit.row_start - 1;
        const Index last = strip.row_start + unit.row_stop - 1 - strip.key_start + call.key_len - 1;
        double* profile = call.distance_profile + line * (call.query_len + call.key_len - 1);
        level.add_distances(profile, partial.distances, last, start, std::min(stop, places));
      } else if (kind == 2 && start == 0 && !unit.owns_cells) {
        const Index row_cell = call.row_cells.cell_of(strip.row_start + unit.row_start);
        const Index at = (line * call.row_cells.count + row_cell) * call.key_cells.count;
        for (Index cell = 0; cell < call.key_cells.count; ++cell) {
          if (call.map_sum) call.map_sum[at + cell] += partial.cells[cell];
          if (call.map_max) call.map_max[at + cell] = std::max(call.map_max[at + cell], partial.largest[cell]);
        }
      }
    }
  }

  void give_room(Workspace& room, int threads) {
    const bool columns = call.columns();
    const std::size_t keys = columns ? padded(strip.keys) : 0;
    const std::size_t places = columns && call.distance_profile ? padded(strip.keys + UNIT_ROWS) : 0;
    bool shared = false;
    for (const Unit& unit : units) shared |= columns && !unit.owns_cells;
    const std::size_t cells = shared ? static_cast<std::size_t>(call.key_cells.count) : 0;
    const std::size_t seats = static_cast<std::size_t>(threads);
    const std::size_t pitch = strip.query ? padded(strip.keys + 2 * MOST_PANEL) : 0;
    const Index panel = std::max<Index>(level.panel, 1);
    const auto whole = [panel](Index columns) { return (columns + panel - 1) / panel * panel; };
    const std::size_t width =
        strip.output ? static_cast<std::size_t>(whole(strip.value_dim) + whole(strip.shared_dim)) : 0;
    const std::size_t per_seat = 2 * keys + static_cast<std::size_t>(GROUP_ROWS) * (pitch + width);
    float* floats = room.floats(units.size() * (keys + places + cells) + seats * per_seat);
    double* doubles = room.doubles(units.size() * cells);
    partials.resize(units.size());
    for (Partial& partial : partials) {
      partial.columns = keys ? floats : nullptr;
      partial.distances = places ? floats + keys : nullptr;
      partial.largest = cells ? floats + keys + places : nullptr;
      partial.cells = cells ? doubles : nullptr;
      if (cells) std::fill_n(partial.largest, cells, 0.0f);
      if (cells) std::fill_n(partial.cells, cells, 0.0);
      floats += keys + places + cells;
      doubles += cells;
    }
    scratches.resize(seats);
    for (Scratch& scratch : scratches) {
      scratch.columns = keys ? floats : nullptr;
      scratch.largest = keys ? floats + keys : nullptr;
      scratch.table = pitch ? floats + 2 * keys : nullptr;
      scratch.sums = width ? floats + 2 * keys + static_cast<std::size_t>(GROUP_ROWS) * pitch : nullptr;
      scratch.pitch = static_cast<Index>(pitch);
      floats += per_seat;
    }
  }
};

}  // namespace

float* Workspace::floats(std::size_t count) {
  if (floats_.size() < count + LINE) floats_.resize(count + LINE);
  const auto address = reinterpret_cast<std::uintptr_t>(floats_.data());
  return floats_.data() + (address % 64 == 0 ? 0 : (64 - address % 64) / sizeof(float));
}

double* Workspace::doubles(std::size_t count) {
  if (doubles_.size() < count) doubles_.resize(count);
  return doubles_.data();
}

Spoiled pass(const Level& level, const Call& call, const Strip& strip, const Team& team, int threads, Workspace& room) {
  if (strip.rows == 0 || strip.heads == 0) return {};
  if (strip.heads * strip.rows * strip.keys <= SMALL) threads = 1;
  Job job{level, call, strip, units_of(strip), {}, {}, {}};
  job.spoiled.assign(job.units.size(), 0);
  job.give_room(room, std::max(1, threads));
  team.run(threads, Job::first, &job);
  job.next = 0;
  if (call.columns() && strip.keys > 0) team.run(threads, Job::second, &job);
  for (std::size_t i = 0; i < job.units.size(); ++i) {
    if (!job.spoiled[i]) continue;
    const Unit& unit = job.units[i];
    for (Index row = unit.row_start; row < unit.row_stop; ++row) {
      const float sum = strip.row_sum[unit.head * strip.rows + row];
      if (strip.counts(unit.head, row) && !(sum < std::numeric_limits<float>::infinity())) {
        return {true, strip.head_start + unit.head, strip.row_start + row};
      }
    }
  }
  return {};
}

}  // namespace heedmap
