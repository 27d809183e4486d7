// Random strips through every instruction set, against the same sums in double, for the sanitizers to watch.
//
//   make sanitize            builds and runs this with AddressSanitizer and UndefinedBehaviorSanitizer
//   fuzz [strips] [seed]     how many strips, from which seed (1000, 1)
#include "fuzzing.hpp"
#include "packing.hpp"
#include "strip_pass.hpp"

#include <cmath>
#include <cstring>

namespace heedmap {
namespace {

Cells cells_of(Index length, Index at_most) {
  const Index count = length < at_most ? length : at_most;
  return {count, length / count, length % count};
}

// Results of one batch item, in memory of exactly their size.
struct Results {
  std::vector<float> row_max, row_sum, entropy, max_weight, logsumexp, row_mass, concentration, saturation, mean_distance;
  std::vector<std::int64_t> argmax;
  std::vector<double> received, distance_profile, map_sum;
  std::vector<float> map_max;

  explicit Results(const Call& call) {
    const auto rows = static_cast<std::size_t>(call.heads * call.query_len);
    for (auto* each : {&row_max, &row_sum, &entropy, &max_weight, &logsumexp, &row_mass, &concentration, &saturation,
                       &mean_distance}) {
      each->assign(rows, -1.0f);
    }
    argmax.assign(rows, -2);
    received.assign(static_cast<std::size_t>(call.heads * call.key_len), 0);
    distance_profile.assign(static_cast<std::size_t>(call.heads * (call.query_len + call.key_len - 1)), 0);
    map_sum.assign(static_cast<std::size_t>(call.heads * call.row_cells.count * call.key_cells.count), 0);
    map_max.assign(map_sum.size(), 0);
  }

  void give(Call& call) {
    call.row_max = row_max.data();
    call.row_sum = row_sum.data();
    call.entropy = entropy.data();
    call.max_weight = max_weight.data();
    call.logsumexp = logsumexp.data();
    call.row_mass = row_mass.data();
    call.concentration = concentration.data();
    call.saturation = saturation.data();
    call.mean_distance = mean_distance.data();
    call.argmax = argmax.data();
    call.received = received.data();
    call.distance_profile = distance_profile.data();
    call.map_sum = map_sum.data();
    call.map_max = map_max.data();
  }
};

struct Problem {
  Call call;
  Strip strip;
  std::vector<float> sinks, scores, query, keys, values, shared;  // from query on empty where scores are given
  Index head_dim = 0, key_heads = 1, value_dim = 0, shared_dim = 0, shares = 1;
  Index columns() const { return value_dim + shared_dim; }
  std::vector<std::vector<std::uint8_t>> masks;
  std::vector<Segment> segments;
  std::vector<std::uint8_t> valid;
  std::ptrdiff_t offset = 0;  // misaligns the table
};

// Rows of a strip as the plan cuts them: whole cells of one height, or a part of one.
void cut_rows(Random& random, Problem& problem) {
  const Cells& cells = problem.call.row_cells;
  Strip& strip = problem.strip;
  const Index cell = pick(random, 0, cells.count - 1);
  strip.cell_rows = cells.start_of(cell + 1) - cells.start_of(cell);
  if (coin(random)) {
    const Index last = cell < cells.larger ? cells.larger : cells.count;
    strip.row_start = cells.start_of(cell);
    strip.rows = pick(random, 1, last - cell) * strip.cell_rows;
  } else {
    const Index start = pick(random, 0, strip.cell_rows - 1);
    strip.row_start = cells.start_of(cell) + start;
    strip.rows = pick(random, 1, strip.cell_rows - start);
  }
  if (strip.rows > 150) strip.rows = strip.cell_rows <= 150 ? 150 / strip.cell_rows * strip.cell_rows : 150;
}

Problem make_problem(Random& random) {
  Problem problem;
  Call& call = problem.call;
  Strip& strip = problem.strip;
  call.heads = pick(random, 1, 4);
  call.query_len = coin(random, 5) ? 1 : pick(random, 1, 400);
  call.key_len = coin(random, 5) ? pick(random, 1, 20) : pick(random, 1, 700);
  if (coin(random, 20)) call.key_len = pick(random, 2000, 5000);
  call.query_offset = pick(random, 0, 50);
  call.key_offset = pick(random, 0, 50);
  const Index map_size = coin(random, 3) ? pick(random, 1, 9) : 256;
  call.row_cells = cells_of(call.query_len, map_size);
  call.key_cells = cells_of(call.key_len, map_size);
  if (coin(random, 4)) call.softcap = 3.0f;
  if (coin(random, 4)) {
    for (Index h = 0; h < call.heads; ++h) problem.sinks.push_back(coin(random, 4) ? -INFINITY : 5.0f * static_cast<float>(h));
    call.sinks = problem.sinks.data();
  }
  cut_rows(random, problem);
  strip.head_start = pick(random, 0, call.heads - 1);
  strip.heads = pick(random, 1, call.heads - strip.head_start);
  strip.key_start = coin(random) ? 0 : pick(random, 0, call.key_len - 1);
  strip.keys = pick(random, coin(random, 20) ? 0 : 1, call.key_len - strip.key_start);
  const Index gap = coin(random, 10) ? 5000 : pick(random, 0, 40);
  strip.row_stride = strip.keys + gap;
  strip.head_stride = strip.rows * strip.row_stride + pick(random, 0, 30);
  problem.offset = pick(random, 0, 3);
  // the table ends with its last key: a read behind it is found
  const Index length = (strip.heads - 1) * strip.head_stride + (strip.rows - 1) * strip.row_stride + strip.keys;
  problem.scores.resize(static_cast<std::size_t>(problem.offset + length));
  std::normal_distribution<float> normal(coin(random, 5) ? 1000.0f : 0.0f, coin(random) ? 2.0f : 30.0f);
  for (float& score : problem.scores) score = normal(random);
  if (coin(random, 6)) {
    for (float& score : problem.scores) score = std::round(score / 8);  // ties
  }
  if (coin(random) && strip.keys > 0) {
    Index start = 0;
    for (int i = 0; i < 2 && start < strip.keys; ++i) {
      const Index stop = pick(random, start, strip.keys);
      const bool shared = coin(random);
      const int one_in = coin(random, 4) ? 1 : 2;  // some rows see nothing
      std::vector<std::uint8_t> mask(static_cast<std::size_t>((shared ? 1 : strip.heads) * strip.rows * (stop - start)));
      for (auto& bit : mask) bit = one_in == 1 ? 0 : coin(random);
      problem.masks.push_back(mask);
      problem.segments.push_back({start, stop, nullptr, shared ? 0 : strip.rows * (stop - start), stop - start});
      start = stop;
    }
  }
  if (coin(random, 3)) {
    strip.valid_head_stride = coin(random) ? 0 : strip.rows;
    const Index lines = strip.valid_head_stride ? strip.heads * strip.rows : strip.rows;
    for (Index r = 0; r < lines; ++r) problem.valid.push_back(coin(random, 4) ? 0 : 1);
  }
  return problem;
}

// Scores from random queries and keys instead.
void make_product(Random& random, Problem& problem) {
  const Call& call = problem.call;
  const Strip& strip = problem.strip;
  problem.head_dim = pick(random, 1, 70);
  problem.key_heads = call.heads % 2 == 0 && coin(random) ? call.heads / 2 : call.heads;
  problem.shared_dim = coin(random) ? pick(random, 1, 70) : 0;
  problem.value_dim = pick(random, problem.shared_dim ? 0 : 1, 70);
  problem.shares = coin(random) ? 1 : call.heads;
  std::normal_distribution<float> normal(0, 1);
  problem.query.resize(static_cast<std::size_t>(strip.heads * strip.rows * problem.head_dim));
  problem.keys.resize(static_cast<std::size_t>(problem.key_heads * call.key_len * problem.head_dim));
  problem.values.resize(static_cast<std::size_t>(problem.key_heads * call.key_len * problem.value_dim));
  problem.shared.resize(static_cast<std::size_t>(problem.shares * call.key_len * problem.shared_dim));
  for (float& x : problem.shared) x = normal(random);
  for (float& x : problem.query) x = normal(random) / std::sqrt(static_cast<float>(problem.head_dim));
  for (float& x : problem.keys) x = normal(random);
  for (float& x : problem.values) x = normal(random);
  const Index group = call.heads / problem.key_heads;
  for (Index h = 0; h < strip.heads; ++h) {
    for (Index r = 0; r < strip.rows; ++r) {
      for (Index k = 0; k < strip.keys; ++k) {
        const Index key = (strip.head_start + h) / group * call.key_len + strip.key_start + k;
        double sum = 0;
        for (Index p = 0; p < problem.head_dim; ++p) {
          sum += static_cast<double>(problem.query[static_cast<std::size_t>((h * strip.rows + r) * problem.head_dim + p)]) *
                 static_cast<double>(problem.keys[static_cast<std::size_t>(key * problem.head_dim + p)]);
        }
        problem.scores[static_cast<std::size_t>(problem.offset + h * strip.head_stride + r * strip.row_stride + k)] =
            static_cast<float>(sum);
      }
    }
  }
}

std::vector<float> pack_keys(const Problem& problem, Index panel) {
  const Index keys = problem.call.key_len, dim = problem.head_dim;
  return pack(problem.key_heads, keys, dim, panel, [&](Index h, Index k, Index p) {
    return problem.keys[static_cast<std::size_t>((h * keys + k) * dim + p)];
  });
}

std::vector<float> pack_columns(const std::vector<float>& columns, Index heads, Index keys, Index dim, Index panel) {
  return pack(heads, dim, keys, panel, [&](Index h, Index c, Index k) {
    return columns[static_cast<std::size_t>((h * keys + k) * dim + c)];
  });
}

double column_of(const Problem& problem, Index head, Index key, Index c) {
  const Index own = problem.value_dim, other = problem.shared_dim;
  const Index keys = problem.call.key_len, place = head * problem.shares / problem.call.heads * keys + key;
  if (c >= own) return static_cast<double>(problem.shared[static_cast<std::size_t>(place * other + c - own)]);
  const Index key_head = head / (problem.call.heads / problem.key_heads);
  return static_cast<double>(problem.values[static_cast<std::size_t>((key_head * keys + key) * own + c)]);
}

struct Near {
  const char* level;
  unsigned seed;
  void check(const char* what, double found, double expected, double size, double tolerance = 1e-5) const {
    if (found == expected) return;
    if (!(std::fabs(found - expected) <= tolerance * (size > 1 ? size : 1))) fail(what, found, expected, level, seed);
  }
};

double score_of(const Problem& problem, Index head, Index row, Index key) {
  const Strip& strip = problem.strip;
  for (std::size_t i = 0; i < problem.segments.size(); ++i) {
    const Segment& part = problem.segments[i];
    if (key < part.start || key >= part.stop) continue;
    const auto at = static_cast<std::size_t>(head * part.head_stride + row * part.row_stride + key - part.start);
    if (!problem.masks[i][at]) return -INFINITY;
  }
  const auto at = static_cast<std::size_t>(problem.offset + head * strip.head_stride + row * strip.row_stride + key);
  const double score = problem.scores[at];
  const double cap = problem.call.softcap;
  return cap != 0 ? cap * std::tanh(score / cap) : score;
}

void compare(const Problem& problem, const Results& found, const std::vector<float>& weights,
             const std::vector<float>& output, const Near& near) {
  const Call& call = problem.call;
  const Strip& strip = problem.strip;
  Results expected(call);
  const auto keys = static_cast<std::size_t>(strip.keys);
  const Index span = call.query_len + call.key_len - 1;
  for (Index head = 0; head < strip.heads; ++head) {
    for (Index row = 0; row < strip.rows; ++row) {
      const auto at = static_cast<std::size_t>((strip.head_start + head) * call.query_len + strip.row_start + row);
      std::vector<double> s(keys), w(keys);
      double m = call.sinks ? call.sinks[strip.head_start + head] : -INFINITY;
      const double sink = m;
      for (std::size_t k = 0; k < keys; ++k) {
        s[k] = score_of(problem, head, row, static_cast<Index>(k));
        m = std::fmax(m, s[k]);
      }
      double l = sink > -INFINITY ? std::exp(sink - m) : 0;
      for (std::size_t k = 0; k < keys; ++k) l += w[k] = s[k] > -INFINITY ? std::exp(s[k] - m) : 0;
      double entropy = 0, mass = 0, squares = 0, distance = 0, largest = 0;
      if (sink > -INFINITY && sink > m - 700) entropy -= std::exp(sink - m) / l * (sink - m - std::log(l));
      for (std::size_t k = 0; k < keys; ++k) {
        w[k] = l > 0 ? w[k] / l : 0;
        const auto weight_at = static_cast<std::size_t>((head * strip.rows + row)) * keys + k;
        if (!weights.empty()) near.check("weight", weights[weight_at], w[k], 1);
      }
      for (Index c = 0; !output.empty() && c < problem.columns(); ++c) {
        double sum = 0;
        for (std::size_t k = 0; k < keys; ++k) {
          sum += w[k] * column_of(problem, strip.head_start + head, strip.key_start + static_cast<Index>(k), c);
        }
        const auto place = static_cast<std::size_t>((head * strip.rows + row) * problem.columns() + c);
        near.check("output", output[place], sum, 1, 2e-5);
      }
      if (!problem.valid.empty() && !problem.valid[static_cast<std::size_t>(head * strip.valid_head_stride + row)]) {
        if (found.entropy[at] != -1.0f) fail("a row that does not count", found.entropy[at], -1, near.level, near.seed);
        continue;
      }
      for (std::size_t k = 0; k < keys; ++k) {
        const Index key = strip.key_start + static_cast<Index>(k);
        const Index d = strip.row_start + row + call.query_offset - key - call.key_offset;
        if (w[k] > 0) entropy -= w[k] * std::log(w[k]);
        mass += w[k];
        squares += w[k] * w[k];
        distance += w[k] * static_cast<double>(d);
        largest = std::fmax(largest, w[k]);
        const Index line = strip.head_start + head;
        expected.received[static_cast<std::size_t>(line * call.key_len + key)] += w[k];
        const Index place = strip.row_start + row - key + call.key_len - 1;
        expected.distance_profile[static_cast<std::size_t>(line * span + place)] += w[k];
        const Index cell = (line * call.row_cells.count + call.row_cells.cell_of(strip.row_start + row)) *
                               call.key_cells.count + call.key_cells.cell_of(key);
        expected.map_sum[static_cast<std::size_t>(cell)] += w[k];
        float& high = expected.map_max[static_cast<std::size_t>(cell)];
        high = std::fmax(high, static_cast<float>(w[k]));
      }
      near.check("row max", found.row_max[at], m, std::fabs(m));
      near.check("row sum", found.row_sum[at], l, l);
      near.check("entropy", found.entropy[at], entropy, entropy, 2e-5);
      near.check("row mass", found.row_mass[at], mass, 1);
      near.check("largest weight", found.max_weight[at], largest, 1);
      near.check("concentration", found.concentration[at], squares, 1);
      near.check("mean distance", found.mean_distance[at], distance, static_cast<double>(span));
      const Index top = found.argmax[at] - strip.key_start - call.key_offset;
      if (mass == 0 && sink == -INFINITY) {
        if (found.argmax[at] != -1) fail("top key of nothing", static_cast<double>(found.argmax[at]), -1, near.level, near.seed);
      } else if (found.argmax[at] >= 0) {
        near.check("top key's weight", w[static_cast<std::size_t>(top)], largest, 1);
      }
    }
  }
  const auto rows = static_cast<double>(strip.rows);
  for (std::size_t i = 0; i < expected.received.size(); ++i) near.check("received", found.received[i], expected.received[i], rows);
  for (std::size_t i = 0; i < expected.distance_profile.size(); ++i) {
    near.check("distance profile", found.distance_profile[i], expected.distance_profile[i], rows);
  }
  for (std::size_t i = 0; i < expected.map_sum.size(); ++i) {
    near.check("map", found.map_sum[i], expected.map_sum[i], rows);
    near.check("largest of map", found.map_max[i], expected.map_max[i], 1);
  }
}

template <typename T>
void check_same(const std::vector<T>& left, const std::vector<T>& right, const char* level, unsigned seed) {
  const bool same = left.empty() || std::memcmp(left.data(), right.data(), left.size() * sizeof(T)) == 0;
  if (!same) fail("one thread and three differ", 0, 0, level, seed);
}

void run_one(unsigned seed) {
  Random random(seed);
  Problem problem = make_problem(random);
  if (coin(random, 4)) make_product(random, problem);
  const bool keep = coin(random, 3), odd_team = coin(random, 8);
  for (const Level* level : levels()) {
    std::vector<Results> both;
    for (const int threads : {1, odd_team ? 3 : 1}) {
      Call call = problem.call;
      both.emplace_back(call);
      both.back().give(call);
      Strip strip = problem.strip;
      std::vector<float> scores = problem.scores;
      std::vector<Segment> segments = problem.segments;
      for (std::size_t i = 0; i < segments.size(); ++i) segments[i].allowed = problem.masks[i].data();
      strip.scores = scores.data() + problem.offset;
      strip.segments = segments.data();
      strip.segment_count = static_cast<int>(segments.size());
      strip.valid = problem.valid.empty() ? nullptr : problem.valid.data();
      const auto lines = static_cast<std::size_t>(strip.heads * strip.rows);
      std::vector<float> terms(4 * lines), weights;
      std::vector<std::int64_t> top(lines);
      strip.top_score = terms.data();
      strip.row_max = terms.data() + lines;
      strip.row_sum = terms.data() + 2 * lines;
      strip.scale = terms.data() + 3 * lines;
      strip.top = top.data();
      std::vector<float> packed_keys, packed_values, packed_shared, output;
      if (level->panel > 0 && !problem.query.empty()) {
        packed_keys = pack_keys(problem, level->panel);
        packed_values = pack_columns(problem.values, problem.key_heads, call.key_len, problem.value_dim, level->panel);
        packed_shared = pack_columns(problem.shared, problem.shares, call.key_len, problem.shared_dim, level->panel);
        output.resize(lines * static_cast<std::size_t>(problem.columns()));
        if (!keep) strip.scores = nullptr;
        strip.query = problem.query.data();
        strip.query_row_stride = problem.head_dim;
        strip.query_head_stride = strip.rows * problem.head_dim;
        strip.head_dim = problem.head_dim;
        strip.group = call.heads / problem.key_heads;
        strip.key_len = call.key_len;
        strip.panels = (call.key_len + level->panel - 1) / level->panel;
        strip.packed_keys = packed_keys.data();
        strip.packed_values = packed_values.data();
        strip.packed_shared = packed_shared.data();
        strip.shared_group = call.heads / problem.shares;
        strip.value_dim = problem.value_dim;
        strip.shared_dim = problem.shared_dim;
        strip.output = output.data();
        strip.output_row_stride = problem.columns();
        strip.output_head_stride = strip.rows * problem.columns();
      }
      if (keep) {
        weights.resize(lines * static_cast<std::size_t>(strip.keys));
        strip.weights = weights.data();
        strip.weights_row_stride = strip.keys;
        strip.weights_head_stride = strip.rows * strip.keys;
      }
      Workspace room;
      const Spoiled spoiled = pass(*level, call, strip, Team(0), threads, room);
      if (spoiled.found) fail("finite scores refused", 0, 0, level->name, seed);
      compare(problem, both.back(), weights, output, {level->name, seed});
    }
    check_same(both[0].received, both[1].received, level->name, seed);
    check_same(both[0].distance_profile, both[1].distance_profile, level->name, seed);
    check_same(both[0].map_sum, both[1].map_sum, level->name, seed);
    check_same(both[0].entropy, both[1].entropy, level->name, seed);
  }
}

}  // namespace
}  // namespace heedmap

int main(int count, char** arguments) { return heedmap::fuzz(count, arguments, heedmap::run_one, "", false); }
