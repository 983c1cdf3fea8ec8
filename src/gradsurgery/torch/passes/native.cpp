// The two passes over memory on the CPU, compiled once for each kind of step:
//
//   GRADIENTS, AVERAGES   the number of each; the vectors of a step are its gradients, main first, then its averages
//   COUNT, PAIRS          the inner products: their number, and the two vectors of each as "{a, b}, {c, d}"
//   NUMBER, WIDE          the type of the gradients; the type to compute in
//   AVERAGE               the type of the averages: WIDE, or bfloat16, to which they are rounded stochastically
//
// PyTorch's headers for types of 16 bits take three times as long to compile as all the rest. The command includes those
// that it needs.
//
// Each vector is split into blocks, one for each parameter.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_num_threads() { return 1; }
static int omp_get_thread_num() { return 0; }
#endif

namespace {

using std::int64_t;
using std::size_t;
using std::uint32_t;

constexpr std::array<std::array<size_t, 2>, COUNT> FACTORS{{PAIRS}};
constexpr size_t VECTORS = GRADIENTS + AVERAGES;
constexpr int64_t LANES = 16;             // partial sums side by side
constexpr int64_t CHUNK = 1 << 14;        // elements summed before the lanes are added to a total in double
constexpr int64_t PER_THREAD = 1 << 16;   // fewer elements than this are not worth another thread

// The hash of gradsurgery/rounding.py: stochastic rounding has the same bits everywhere.
uint32_t mix(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
  x = (x ^ (x >> 13)) * 0xC2B2AE35u;
  return x ^ (x >> 16);
}

uint32_t stream_key(const uint32_t step, const uint32_t level, const uint32_t position) {
  uint32_t key = 0;
  for (const uint32_t word : {step, level, position}) key = mix(key + word + 0x9E3779B9u);
  return key;
}

// Store an average in its type.
template <class Average>
void store(Average& target, const WIDE value, [[maybe_unused]] const uint32_t counter) {
  if constexpr (std::is_same_v<Average, WIDE>) {
    target = value;
  } else {
    const float narrow = static_cast<float>(value);
    uint32_t bits;
    std::memcpy(&bits, &narrow, sizeof bits);
    target.x = static_cast<uint16_t>((bits + (narrow == narrow ? mix(counter) >> 16 : 0)) >> 16);
  }
}

// The vectors of one parameter.
struct Block {
  std::array<NUMBER*, GRADIENTS> gradients;
  std::array<AVERAGE*, AVERAGES> averages;

  template <size_t K>
  WIDE at(const int64_t i) const {
    if constexpr (K < GRADIENTS) {
      return static_cast<WIDE>(gradients[K][i]);
    } else {
      return static_cast<WIDE>(averages[K - GRADIENTS][i]);
    }
  }
};

// All blocks. `pointers` holds VECTORS pointers for each block: gradients, then averages.
struct Blocks {
  int64_t count;
  const int64_t* sizes;
  void* const* pointers;

  Block operator[](const int64_t index) const {
    Block block;
    void* const* pointer = pointers + index * VECTORS;
    for (NUMBER*& gradient : block.gradients) gradient = static_cast<NUMBER*>(*pointer++);
    for (AVERAGE*& average : block.averages) average = static_cast<AVERAGE*>(*pointer++);
    return block;
  }
};

// Call work(thread, index of a block, begin, end) over all elements, an equal and contiguous share for each thread. The second pass
// runs backwards, to begin with the blocks that the first pass has left in the cache.
template <class Work>
void parallel_for(const Blocks& blocks, const int max_threads, const bool backwards, const Work work) {
  const int64_t total = std::accumulate(blocks.sizes, blocks.sizes + blocks.count, int64_t{0});
  const int threads = static_cast<int>(std::clamp<int64_t>(total / PER_THREAD, 1, max_threads));
#pragma omp parallel num_threads(threads)
  {
    const int64_t thread = omp_get_thread_num(), count = omp_get_num_threads();
    const int64_t from = total * thread / count, to = total * (thread + 1) / count;
    int64_t visited = 0;
    for (int64_t k = 0; k < blocks.count; ++k) {
      const int64_t index = backwards ? blocks.count - 1 - k : k, size = blocks.sizes[index];
      const int64_t start = backwards ? total - visited - size : visited;
      const int64_t begin = std::max<int64_t>(from - start, 0), end = std::min(to - start, size);
      if (begin < end) work(thread, index, begin, end);
      visited += size;
    }
  }
}

template <size_t A, size_t B>
void multiply(const Block& block, const int64_t i, std::array<WIDE, LANES>& sums) {
#pragma omp simd
  for (int64_t lane = 0; lane < LANES; ++lane) {
    sums[lane] += block.at<A>(i + lane) * block.at<B>(i + lane);
  }
}

template <size_t... P>
void add_products(const Block& block, const int64_t begin, const int64_t end, std::array<double, COUNT>& totals,
                  std::index_sequence<P...>) {
  for (int64_t i = begin; i < end;) {
    const int64_t stop = std::min(i + CHUNK, end);
    std::array<std::array<WIDE, LANES>, COUNT> sums{};
    for (; i + LANES <= stop; i += LANES) (multiply<FACTORS[P][0], FACTORS[P][1]>(block, i, sums[P]), ...);
    for (; i < stop; ++i) ((sums[P][0] += block.at<FACTORS[P][0]>(i) * block.at<FACTORS[P][1]>(i)), ...);
    ((totals[P] = std::accumulate(sums[P].begin(), sums[P].end(), totals[P])), ...);
  }
}

// average <- keep * average + take * gradient
struct Averaging {
  WIDE keep, take;
  std::array<uint32_t, AVERAGES> keys;  // for the rounding of each average
};

template <bool UPDATE_AVERAGES, size_t... V, size_t... A>
void combine_elements(const Block& block, const int64_t begin, const int64_t end,
                      const std::array<WIDE, VECTORS> weights, const Averaging averaging, std::index_sequence<V...>,
                      std::index_sequence<A...>) {
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) {
    const WIDE direction = ((weights[V] * block.at<V>(i)) + ...);
    if constexpr (UPDATE_AVERAGES) {
      (store(block.averages[A][i], averaging.keep * block.at<GRADIENTS + A>(i) + averaging.take * block.at<A>(i),
             averaging.keys[A] + static_cast<uint32_t>(i)),
       ...);
    }
    block.gradients[GRADIENTS - 1][i] = static_cast<NUMBER>(direction);
  }
}

}  // namespace

// The inner products of the vectors, in the order of PAIRS.
extern "C" void products(const int64_t count, const int64_t* sizes, void* const* pointers, const int threads,
                         double* results) {
  const Blocks blocks{count, sizes, pointers};
  std::vector<std::array<double, COUNT>> totals(threads);  // summed in the order of the threads: reproducible
  parallel_for(blocks, threads, false, [&](int64_t thread, int64_t index, int64_t begin, int64_t end) {
    add_products(blocks[index], begin, end, totals[thread], std::make_index_sequence<COUNT>{});
  });
  for (size_t p = 0; p < COUNT; ++p) {
    results[p] = 0;
    for (const auto& total : totals) results[p] += total[p];
  }
}

// Write the direction over the last gradient and update the averages. Each block belongs to a cohort, whose `keep` and
// `take` stand next to each other in `averaging`. With take = 0 its averages are not touched, as 0 times NaN is NaN.
extern "C" void combine(const int64_t count, const int64_t* sizes, void* const* pointers, const int threads,
                        const double* weights, const int64_t* cohorts, const double* averaging,
                        const int64_t* positions, const int64_t step) {
  const Blocks blocks{count, sizes, pointers};
  std::array<WIDE, VECTORS> narrowed;
  std::copy_n(weights, VECTORS, narrowed.begin());
  parallel_for(blocks, threads, true, [&](int64_t, int64_t index, int64_t begin, int64_t end) {
    constexpr std::make_index_sequence<VECTORS> vectors{};
    constexpr std::make_index_sequence<AVERAGES> averages{};
    Averaging rule{};
    if constexpr (AVERAGES > 0) {
      rule.keep = static_cast<WIDE>(averaging[2 * cohorts[index]]);
      rule.take = static_cast<WIDE>(averaging[2 * cohorts[index] + 1]);
      for (size_t level = 0; level < AVERAGES; ++level) rule.keys[level] = stream_key(step, level, positions[index]);
    }
    if (rule.take > 0) {
      combine_elements<true>(blocks[index], begin, end, narrowed, rule, vectors, averages);
    } else {
      combine_elements<false>(blocks[index], begin, end, narrowed, rule, vectors, averages);
    }
  });
}
