// One pass over a strip of scores: softmax row terms, column sums, distance sums and pooled cells, in place.
//
// Plain C++ over pointers, without Python or torch. Sizes are elements, strides too; the last stride is always 1.
// Results keep the same bits for any number of threads: rows are cut into units by the lengths alone, each unit adds in
// its own buffers, and these are added up in the order of the units.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace heedmap {

using Index = std::int64_t;

// The cells of a map: `count` cells, the first `larger` of which hold `size` + 1 positions and the others `size`.
struct Cells {
  Index count = 1;
  Index size = 1;
  Index larger = 0;

  Index start_of(Index cell) const { return cell * size + (cell < larger ? cell : larger); }
  Index cell_of(Index position) const {
    const Index split = larger * (size + 1);
    return position < split ? position / (size + 1) : larger + (position - split) / size;
  }
};

// What stays the same over a sweep. Results are contiguous `[batch, heads, ...]`; a null pointer is a result that nobody
// wants. Row results of rows that do not count are left as they are; sums are added to, largest values raised.
struct Call {
  Index heads = 0;
  Index query_len = 0;
  Index key_len = 0;
  Index query_offset = 0;  // text position of the first query
  Index key_offset = 0;
  float softcap = 0;             // 0: none
  const float* sinks = nullptr;  // [heads]
  Cells row_cells;
  Cells key_cells;

  float* row_max = nullptr;  // [batch, heads, query_len]
  float* row_sum = nullptr;
  float* entropy = nullptr;
  float* max_weight = nullptr;
  float* logsumexp = nullptr;
  float* row_mass = nullptr;
  float* concentration = nullptr;
  float* saturation = nullptr;
  float* mean_distance = nullptr;
  std::int64_t* argmax = nullptr;
  double* received = nullptr;          // [batch, heads, key_len]
  double* distance_profile = nullptr;  // [batch, heads, query_len + key_len - 1], from the furthest key ahead
  double* map_sum = nullptr;           // [batch, heads, row cells, key cells]
  float* map_max = nullptr;

  bool columns() const { return received || distance_profile || map_sum || map_max; }
};

// Keys `[start, stop)` of a strip in which some pairs are hidden: `allowed [heads, rows, stop - start]`, 0 hides.
struct Segment {
  Index start = 0;
  Index stop = 0;
  const std::uint8_t* allowed = nullptr;
  std::ptrdiff_t head_stride = 0;
  std::ptrdiff_t row_stride = 0;
};

// Rows `[row_start, row_start + rows)` of some heads against keys `[key_start, key_start + keys)`.
struct Strip {
  Index batch = 0;
  Index head_start = 0;
  Index heads = 0;
  Index row_start = 0;
  Index rows = 0;
  Index key_start = 0;
  Index keys = 0;
  Index cell_rows = 1;  // rows of one row cell: the strip holds whole cells of this height, or a part of one

  // Scores come in a table, or from query and keys: then no table is needed, and `scores` may be null.
  float* scores = nullptr;  // [heads, rows, keys]; exp(score - top score) afterwards, or score - top score with `weights`
  std::ptrdiff_t head_stride = 0;
  std::ptrdiff_t row_stride = 0;
  float* weights = nullptr;  // [heads, rows, keys], or null: final weights are not wanted
  std::ptrdiff_t weights_head_stride = 0;
  std::ptrdiff_t weights_row_stride = 0;

  const float* query = nullptr;  // [heads, rows, head_dim], times the scale; null: scores are given
  std::ptrdiff_t query_head_stride = 0;
  std::ptrdiff_t query_row_stride = 0;
  Index head_dim = 0;
  Index group = 1;                      // query heads of one key head
  Index key_len = 0;                    // of the call
  Index panels = 0;                     // of one key head: key_len / panel, rounded up
  const float* packed_keys = nullptr;   // [key_heads, panels, head_dim, panel], zeros after the last key
  const float* packed_values = nullptr; // [key_heads, value_dim / panel rounded up, key_len, panel]
  const float* packed_shared = nullptr; // [shares, shared_dim / panel rounded up, key_len, panel]: columns of many heads
  Index shared_group = 1;               // heads of one share
  Index value_dim = 0;
  Index shared_dim = 0;
  float* output = nullptr;  // [heads, rows, value_dim + shared_dim]; null: not wanted
  std::ptrdiff_t output_head_stride = 0;
  std::ptrdiff_t output_row_stride = 0;

  const Segment* segments = nullptr;
  int segment_count = 0;
  const std::uint8_t* valid = nullptr;  // [heads, rows], 0: the row does not count; null: all count
  std::ptrdiff_t valid_head_stride = 0;
  bool counts(Index head, Index row) const { return !valid || valid[head * valid_head_stride + row]; }

  // [heads, rows], of every row, whether it counts or not:
  float* top_score = nullptr;   // largest score; -infinity where none is allowed
  float* row_max = nullptr;     // m: the same, or the sink's logit where that is larger
  float* row_sum = nullptr;     // l: sum of exp(score - m), the sink's included
  float* scale = nullptr;       // weights = exp(score - top score) * this
  std::int64_t* top = nullptr;  // lowest key of largest score, counted within the strip; -1 where none is allowed
};

// The rows of a strip that one task handles: some whole row cells, or a part of one.
constexpr Index UNIT_ROWS = 32;

// Rows of a unit that go through together: their scores stay in the second cache from product to sums.
constexpr Index GROUP_ROWS = 16;

// The widest panel: keys, or columns of values, that are packed side by side.
constexpr Index MOST_PANEL = 32;

// Buffers of one unit, added to the results when all units are done.
struct Partial {
  float* columns = nullptr;    // [keys]: sums over the unit's rows
  float* distances = nullptr;  // [keys + rows - 1]: sums of diagonals, key - row ascending
  double* cells = nullptr;     // [key cells]: only where several units share one row cell
  float* largest = nullptr;
};

struct Unit {
  Index head = 0;  // within the strip
  Index row_start = 0;
  Index row_stop = 0;
  bool owns_cells = true;  // no other unit has rows of its row cells
};

// Room of one thread.
struct Scratch {
  float* columns = nullptr;  // [keys]: sums over the rows of one row cell
  float* largest = nullptr;  // [keys]: their largest values
  float* table = nullptr;    // [GROUP_ROWS, pitch]: scores of a group of rows, where the strip brings none
  float* sums = nullptr;     // [GROUP_ROWS, value_dim and shared_dim rounded up to panels]
  Index pitch = 0;
};

struct Back;  // in back.hpp
struct BackUnit;

// One instruction set: the same source, compiled for it.
struct Level {
  const char* name;
  Index panel;  // what its products take side by side; 0: it has none, and scores must be given
  // Rows of a unit, their results, and the unit's partial sums; true when a row that counts had no finite sum.
  bool (*unit)(const Call&, const Strip&, const Unit&, const Partial&, const Scratch&);
  // Add one unit's sums for keys [start, stop) to the results of its head.
  void (*add_columns)(double* received, const float* columns, Index start, Index stop);
  // Add diagonals [start, stop): `distances[i]` goes to `profile[last - i]`.
  void (*add_distances)(double* profile, const float* distances, Index last, Index start, Index stop);
  // A unit of the way back, with room for two tables [BACK_ROWS, BACK_PITCH]; only where there is a panel.
  void (*back)(const Back&, const BackUnit&, float* tables);
  // y[i] = exp(x[i]) for x <= 0, and cap * tanh(x[i] / cap): for tests of their accuracy.
  void (*exponential)(const float* x, float* y, Index count);
  void (*soften)(float* x, Index count, float cap);
};

// Instruction sets that this processor has, best first; the last one is always "scalar".
const std::vector<const Level*>& levels();

// Runs `work(data)` in a team of threads and returns when all have returned.
class Team {
 public:
  // `openmp_parallel`: address of a loaded OpenMP runtime's GOMP_parallel, whose threads are then used, so that no second
  // pool competes with them for the cores; 0: threads of our own.
  explicit Team(std::uintptr_t openmp_parallel) : parallel_(openmp_parallel) {}
  void run(int threads, void (*work)(void*), void* data) const;

 private:
  std::uintptr_t parallel_;
};

// Sums that wait to be added, kept from strip to strip.
class Workspace {
 public:
  float* floats(std::size_t count);
  double* doubles(std::size_t count);

 private:
  std::vector<float> floats_;
  std::vector<double> doubles_;
};

// Where a row that counts had NaN or +infinity among its allowed scores.
struct Spoiled {
  bool found = false;
  Index head = 0;
  Index row = 0;
};

Spoiled pass(const Level& level, const Call& call, const Strip& strip, const Team& team, int threads, Workspace& room);

}  // namespace heedmap
