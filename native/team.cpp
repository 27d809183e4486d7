// Threads. Torch's matrix products leave the threads of its OpenMP runtime spinning for a while; a second pool, or a
// second runtime, would fight with them for the cores. So the runtime that torch has loaded is used where there is one.
#include "strip_pass.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace heedmap {
namespace {

using GompParallel = void (*)(void (*)(void*), void*, unsigned, unsigned);

// Threads of our own, started when first needed. One sweep at a time has them; another one works alone meanwhile.
class Pool {
 public:
  bool run(int threads, void (*work)(void*), void* data) {
    std::unique_lock<std::mutex> turn(turn_, std::try_to_lock);
    if (!turn) return false;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      while (static_cast<int>(workers_.size()) < threads - 1) {
        workers_.emplace_back([this, index = static_cast<int>(workers_.size()), seen = round_] { serve(index, seen); });
      }
      work_ = work;
      data_ = data;
      wanted_ = threads - 1;
      busy_ = threads - 1;
      ++round_;
    }
    start_.notify_all();
    work(data);
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
    return true;
  }

 private:
  void serve(int index, std::uint64_t seen) {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      start_.wait(lock, [&] { return round_ != seen; });
      seen = round_;
      if (index >= wanted_) continue;
      lock.unlock();
      work_(data_);
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::mutex turn_, mutex_;
  std::condition_variable start_, done_;
  std::vector<std::thread> workers_;
  void (*work_)(void*) = nullptr;
  void* data_ = nullptr;
  int wanted_ = 0, busy_ = 0;
  std::uint64_t round_ = 0;
};

}  // namespace

void Team::run(int threads, void (*work)(void*), void* data) const {
  if (threads <= 1) {
    work(data);
  } else if (parallel_ != 0) {
    reinterpret_cast<GompParallel>(parallel_)(work, data, static_cast<unsigned>(threads), 0);
  } else {
    static Pool* const pool = new Pool;  // never destroyed: its threads wait in it until the process ends
    if (!pool->run(threads, work, data)) work(data);
  }
}

}  // namespace heedmap
