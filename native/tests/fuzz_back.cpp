// Random strips on the way back, through every instruction set that has products, against the same sums in double.
//
//   make sanitize                 builds and runs this with AddressSanitizer and UndefinedBehaviorSanitizer
//   fuzz_back [strips] [seed]     how many strips, from which seed (1000, 1)
#include "back.hpp"
#include "fuzzing.hpp"
#include "packing.hpp"

#include <cmath>

namespace heedmap {
namespace {

using Floats = std::vector<float>;

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

Floats normal(Random& random, Index count, float spread) {
  std::normal_distribution<float> draw(0, spread);
  Floats numbers(at(count));
  for (float& x : numbers) x = draw(random);
  return numbers;
}

struct Problem {
  Index key_len = 0, query_heads = 0, key_heads = 0;
  Back back;  // its sizes
  Floats query, key, value, flowing, top_score, scale, spread;
  std::vector<std::vector<std::uint8_t>> masks;
  std::vector<Segment> segments;
};

Problem make_problem(Random& random) {
  Problem problem;
  Back& back = problem.back;
  problem.key_len = coin(random, 10) ? pick(random, 1000, 2500) : pick(random, 1, 400);
  problem.key_heads = pick(random, 1, 3);
  back.group = pick(random, 1, 3);
  problem.query_heads = problem.key_heads * back.group;
  back.head_start = pick(random, 0, problem.query_heads - 1);
  back.heads = pick(random, 1, problem.query_heads - back.head_start);
  back.rows = coin(random, 10) ? 0 : pick(random, 1, 150);
  back.key_start = coin(random) ? 0 : pick(random, 0, problem.key_len - 1);
  back.keys = pick(random, coin(random, 20) ? 0 : 1, problem.key_len - back.key_start);
  back.head_dim = pick(random, 1, 70);
  back.value_dim = pick(random, 1, 70);
  if (coin(random, 4)) back.softcap = 3.0f;
  const Index lines = back.heads * back.rows;
  problem.query = normal(random, lines * back.head_dim, 1 / std::sqrt(static_cast<float>(back.head_dim)));
  problem.key = normal(random, problem.key_heads * problem.key_len * back.head_dim, 1);
  problem.value = normal(random, problem.key_heads * problem.key_len * back.value_dim, 1);
  problem.flowing = normal(random, lines * back.value_dim, 1);
  problem.spread = normal(random, lines, 1);
  problem.scale = normal(random, lines, 0.1f);
  problem.top_score = normal(random, lines, 1);
  for (float& top : problem.top_score) top = coin(random, 20) ? -INFINITY : 8 + top;  // above the scores, as a sink may be
  if (coin(random)) {
    const Index start = pick(random, 0, back.keys), stop = pick(random, start, back.keys);
    const bool shared = coin(random);
    std::vector<std::uint8_t> mask(at((shared ? 1 : back.heads) * back.rows * (stop - start)));
    for (auto& bit : mask) bit = coin(random);
    problem.masks.push_back(mask);
    problem.segments.push_back({start, stop, nullptr, shared ? 0 : back.rows * (stop - start), stop - start});
  }
  return problem;
}

// Rows `[lines, dim]` as `[lines, width]`, zeros behind.
Floats widened(const Floats& rows, Index lines, Index dim, Index width) {
  Floats wide(at(lines * width));
  for (Index line = 0; line < lines; ++line) {
    for (Index c = 0; c < dim; ++c) wide[at(line * width + c)] = rows[at(line * dim + c)];
  }
  return wide;
}

bool allowed(const Problem& problem, Index head, Index row, Index key) {
  for (std::size_t i = 0; i < problem.segments.size(); ++i) {
    const Segment& part = problem.segments[i];
    if (key < part.start || key >= part.stop) continue;
    return problem.masks[i][at(head * part.head_stride + row * part.row_stride + key - part.start)] != 0;
  }
  return true;
}

double dot(const Floats& a, Index a_line, const Floats& b, Index b_line, Index dim) {
  double sum = 0;
  for (Index c = 0; c < dim; ++c) {
    sum += static_cast<double>(a[at(a_line * dim + c)]) * static_cast<double>(b[at(b_line * dim + c)]);
  }
  return sum;
}

struct Sums {
  std::vector<double> of_query, of_key, of_value;
};

Sums expected(const Problem& problem) {
  const Back& back = problem.back;
  const Index lines = back.heads * back.rows, places = problem.key_heads * problem.key_len;
  Sums sums{std::vector<double>(at(lines * back.head_dim)), std::vector<double>(at(places * back.head_dim)),
            std::vector<double>(at(places * back.value_dim))};
  for (Index head = 0; head < back.heads; ++head) {
    for (Index row = 0; row < back.rows; ++row) {
      const Index line = head * back.rows + row;
      const double top = problem.top_score[at(line)] > -INFINITY ? problem.top_score[at(line)] : 0;
      for (Index k = 0; k < back.keys; ++k) {
        if (!allowed(problem, head, row, k)) continue;
        const Index place = (back.head_start + head) / back.group * problem.key_len + back.key_start + k;
        double score = dot(problem.query, line, problem.key, place, back.head_dim), slope = 1;
        if (back.softcap != 0) {
          const double bent = std::tanh(score / back.softcap);
          score = back.softcap * bent;
          slope = 1 - bent * bent;
        }
        const double w = std::exp(score - top) * problem.scale[at(line)];
        const double arriving = dot(problem.flowing, line, problem.value, place, back.value_dim);
        const double g = w * (arriving - problem.spread[at(line)]) * slope;
        for (Index c = 0; c < back.head_dim; ++c) {
          sums.of_query[at(line * back.head_dim + c)] += g * problem.key[at(place * back.head_dim + c)];
          sums.of_key[at(place * back.head_dim + c)] += g * problem.query[at(line * back.head_dim + c)];
        }
        for (Index c = 0; c < back.value_dim; ++c) {
          sums.of_value[at(place * back.value_dim + c)] += w * problem.flowing[at(line * back.value_dim + c)];
        }
      }
    }
  }
  return sums;
}

// `found [blocks, places, width]` against `expected [blocks, lines, dim]`; nothing may stand behind the last of either.
void compare(const char* what, const Floats& found, const std::vector<double>& expected, Index blocks, Index places,
             Index lines, Index width, Index dim, const char* level, unsigned seed) {
  double largest = 1;
  for (const double x : expected) largest = std::fmax(largest, std::fabs(x));
  for (Index block = 0; block < blocks; ++block) {
    for (Index line = 0; line < places; ++line) {
      for (Index c = 0; c < width; ++c) {
        const double wanted = line < lines && c < dim ? expected[at((block * lines + line) * dim + c)] : 0;
        const double got = found[at((block * places + line) * width + c)];
        if (!(std::fabs(got - wanted) <= 2e-5 * largest)) fail(what, got, wanted, level, seed);
      }
    }
  }
}

void run_one(unsigned seed) {
  Random random(seed);
  const Problem problem = make_problem(random);
  const Sums sums = expected(problem);
  const bool odd_team = coin(random, 8);
  for (const Level* level : levels()) {
    if (level->panel == 0) continue;
    const Index panel = level->panel;
    Back back = problem.back;
    back.panels = (problem.key_len + panel - 1) / panel;
    back.key_width = (back.head_dim + panel - 1) / panel * panel;
    back.value_width = (back.value_dim + panel - 1) / panel * panel;
    const Index lines = back.heads * back.rows, places = back.panels * panel;
    const auto rows_of = [&](const Floats& rows, Index dim) {
      return pack(problem.key_heads, problem.key_len, dim, panel, [&](Index h, Index k, Index p) {
        return rows[at((h * problem.key_len + k) * dim + p)];
      });
    };
    const Floats packed_keys = rows_of(problem.key, back.head_dim), packed_values = rows_of(problem.value, back.value_dim);
    const Floats query = widened(problem.query, lines, back.head_dim, back.key_width);
    const Floats flowing = widened(problem.flowing, lines, back.value_dim, back.value_width);
    Floats key_rows(at(problem.key_heads * places * back.key_width));
    for (Index head = 0; head < problem.key_heads; ++head) {
      for (Index k = 0; k < problem.key_len; ++k) {
        for (Index c = 0; c < back.head_dim; ++c) {
          key_rows[at((head * places + k) * back.key_width + c)] =
              problem.key[at((head * problem.key_len + k) * back.head_dim + c)];
        }
      }
    }
    std::vector<Segment> segments = problem.segments;
    for (std::size_t i = 0; i < segments.size(); ++i) segments[i].allowed = problem.masks[i].data();
    back.query = query.data();
    back.flowing = flowing.data();
    back.top_score = problem.top_score.data();
    back.scale = problem.scale.data();
    back.spread = problem.spread.data();
    back.packed_keys = packed_keys.data();
    back.packed_values = packed_values.data();
    back.key_rows = key_rows.data();
    back.segments = segments.data();
    back.segment_count = static_cast<int>(segments.size());
    std::vector<Floats> before;
    for (const int threads : {1, odd_team ? 3 : 1}) {
      Floats of_query(at(lines * back.key_width), -1.0f), of_key(key_rows.size());
      Floats of_value(at(problem.key_heads * places * back.value_width));
      back.of_query = of_query.data();
      back.of_key = of_key.data();
      back.of_value = of_value.data();
      Workspace room;
      flow_back(*level, back, Team(0), threads, room);
      compare("of query", of_query, sums.of_query, 1, lines, lines, back.key_width, back.head_dim, level->name, seed);
      compare("of key", of_key, sums.of_key, problem.key_heads, places, problem.key_len, back.key_width, back.head_dim,
              level->name, seed);
      compare("of value", of_value, sums.of_value, problem.key_heads, places, problem.key_len, back.value_width,
              back.value_dim, level->name, seed);
      std::vector<Floats> now = {of_query, of_key, of_value};
      if (!before.empty() && now != before) fail("one thread and three differ", 0, 0, level->name, seed);
      before = std::move(now);
    }
  }
}

}  // namespace
}  // namespace heedmap

int main(int count, char** arguments) { return heedmap::fuzz(count, arguments, heedmap::run_one, " with products, on the way back", true); }
