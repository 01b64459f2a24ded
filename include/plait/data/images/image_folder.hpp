// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/quote.hpp"
#include "plait/data/dataset.hpp"
#include "plait/data/images/picture.hpp"
#include "plait/data/images/resize.hpp"

namespace plait {

/// The way in which pictures are brought to the required size.
enum class image_fit {
  exact,  ///< all pictures must already have the required size
  /// Cuts out the largest middle region with the new aspect ratio, and resizes it (bilinear).
  resize_and_crop,
};

}  // namespace plait

namespace plait::ext {

/// The options of `plait::image_folder`.
struct image_folder_options {
  image_fit fit = image_fit::exact;
  /// If true, the constructor decodes all pictures, and skips and counts the pictures that cannot
  /// be used. It also skips all other files. A folder is skipped, and is not a class, if no file in
  /// it has a name that ends like the name of a picture.
  bool skip_bad = false;
};

/// A picture, another file or a folder that was skipped, with the reason.
struct skipped_picture {
  std::filesystem::path path;
  std::string reason;
};

}  // namespace plait::ext

namespace plait {

/// A folder of pictures as a data set. Its subfolders are the classes, in the order of their names;
/// their JPEG and PNG files are the samples. Names that begin with a dot are ignored.
///
/// An input is a byte of the file, from 0 to 255: no colour profile, gamma or orientation is
/// applied. Transparency is dropped; of values with 16 bits, the upper 8 are used; a grey value is
/// 0.299 red + 0.587 green + 0.114 blue. A JPEG with four inks (CMYK, YCCK) is assumed to be
/// inverted, because Adobe's programs write it so; each colour is the product of the light that its
/// ink leaves and the light that the black ink leaves.
///
/// Shapes: inputs (Channels, Height, Width), targets (1).
/// Cost:   the constructor opens each file and reads its header, or decodes it if `skip_bad` is
///         set, on all cores. A sample is read and decoded each time it is requested. Each thread
///         keeps enough memory for the largest picture that it has decoded; the decoding libraries
///         allocate memory during a call. Files must not change while the object lives.
/// Errors: input_error that names the file if it is not a picture, is damaged, has another size
///         than required, or has more than 100 million pixels. Also input_error that names the
///         folder if it has no class, or if a class has no picture or contains folders. Without
///         `skip_bad`, damage after a picture's header is found only when the picture is requested.
/// Threads: all members are const and may run at the same time.
template <std::size_t Channels, std::size_t Height, std::size_t Width,
          std::floating_point T = float>
class image_folder {
  static_assert(Channels == 1 || Channels == 3,
                "image_folder<Channels, Height, Width>: Channels must be 3 for red, green and "
                "blue, or 1 for grey");
  static_assert(Height >= 1 && Width >= 1 && Height <= 65500 && Width <= 65500,
                "image_folder<Channels, Height, Width>: Height and Width must be from 1 to 65500");

 public:
  using concept_tag = dataset_tag;
  using element = T;
  using target = std::int32_t;

  explicit image_folder(std::filesystem::path root, ext::image_folder_options const& options = {})
      : root_(std::move(root)), options_(options), folder_(root_, kind_of_folder) {
    auto const entries = entries_of(root_);
    if (std::ranges::none_of(entries, [&](auto const& entry) { return is_folder(entry); }))
      refuse_folder("", "contains no folders; it must contain one folder for each class");
    for (auto const& entry : entries)
      if (is_folder(entry)) add_class(entry);
      else leave_out(entry, "is not in the folder of a class");
    if (classes_.empty())
      refuse_folder("",
                    ext::concat({"contains no folder that is a class", example_of_skipped(root_)}));
    check_pictures();
  }

  [[nodiscard]] std::size_t size() const { return places_.size(); }
  [[nodiscard]] std::size_t sequence_length() const { return 1; }
  [[nodiscard]] std::size_t width() const { return Channels * Height * Width; }

  /// Returns the names of the classes; class i has the name of folder i.
  [[nodiscard]] std::vector<std::string> const& classes() const { return classes_; }
  /// Returns the pictures that were skipped.
  [[nodiscard]] std::vector<ext::skipped_picture> const& skipped() const { return skipped_; }
  /// Returns the path of a sample's file.
  [[nodiscard]] std::filesystem::path path(std::size_t sample) const {
    detail::check_sample("image_folder", sample, size(), 0, 0);
    return root_ / file_of(sample);
  }

  /// Returns a text with the folder and the numbers of classes and pictures, by which ranks and
  /// checkpoints compare data sets.
  [[nodiscard]] std::string description() const {
    auto const name = root_.has_filename() ? root_.filename() : root_.parent_path().filename();
    return ext::concat({"image_folder(", detail::path_in_quotes(name), ", ", Channels, " x ",
                        Height, " x ", Width, ", ", size(), " pictures, ", classes_.size(),
                        " classes, ", skipped_.size(), " skipped",
                        (options_.fit == image_fit::exact ? ")" : ", resized and cropped)")});
  }

  void inputs(std::size_t sample, std::span<T> out) const {
    detail::check_sample("image_folder", sample, size(), out.size(), width());
    try {
      auto& scratch = scratch_of_this_thread();
      auto const size = decode(file_of(sample), &scratch.rgb);
      if (size == own_size) write_whole(scratch.rgb, out);
      else write_resized(scratch, size, out);
    } catch (input_error const& problem) {
      refuse(file_of(sample), problem.what());
    }
  }

  void targets(std::size_t sample, std::span<std::int32_t> out) const {
    detail::check_sample("image_folder", sample, size(), out.size(), 1);
    out[0] = class_of_[sample];
  }

 private:
  static constexpr detail::picture_size own_size{Width, Height};
  static constexpr std::string_view kind_of_folder = "folder of pictures";

  [[noreturn]] void refuse(std::string_view file, std::string const& what) const {
    detail::file_name("picture", root_ / file).refuse(ext::concat({what, skip_hint()}));
  }
  [[noreturn]] void refuse_folder(std::string const& folder, std::string const& what) const {
    detail::file_name(kind_of_folder, folder.empty() ? root_ : root_ / folder).refuse(what);
  }
  [[nodiscard]] char const* skip_hint() const {
    return options_.skip_bad ? "" : "; to skip pictures that cannot be used, set .skip_bad = true";
  }
  void leave_out(std::string_view file, std::string const& reason) {
    if (!options_.skip_bad) refuse(file, reason);
    skipped_.push_back({root_ / file, reason});
  }
  /// Returns the end of an error message about a folder that has no picture: a text that names a
  /// skipped file, if there is one.
  [[nodiscard]] std::string example_of_skipped(std::filesystem::path const& folder) const {
    for (auto const& one : skipped_)
      if (one.path.parent_path() == folder || folder == root_)
        return ext::concat({" except skipped files, such as ", detail::path_in_quotes(one.path),
                            ": it ", one.reason});
    return {};
  }

  [[nodiscard]] bool is_folder(std::filesystem::path const& entry) const {
    std::error_code problem;
    return std::filesystem::is_directory(root_ / entry, problem);
  }

  /// Returns the names in a folder, sorted, except names that begin with a dot.
  static std::vector<std::string> entries_of(std::filesystem::path const& folder) {
    std::vector<std::string> out;
    std::error_code problem;
    std::filesystem::directory_iterator at(folder, problem);
    for (; !problem && at != std::filesystem::directory_iterator(); at.increment(problem))
      if (auto name = at->path().filename().string(); !name.starts_with('.'))
        out.push_back(std::move(name));
    if (problem) detail::file_name(kind_of_folder, folder).fail("cannot be read", problem.value());
    std::ranges::sort(out);
    return out;
  }

  void add_class(std::string const& name) {
    auto const entries = entries_of(root_ / name);
    if (std::ranges::none_of(entries, has_ending_of_picture)) {
      bool const has_folders = std::ranges::any_of(
          entries, [&](auto const& entry) { return is_folder(ext::concat({name, "/", entry})); });
      std::string const reason = has_folders ? "contains folders but no picture; if these folders "
                                               "are the classes, pass this folder to image_folder"
                                             : "has no picture";
      if (options_.skip_bad) {
        skipped_.push_back({root_ / name, reason});
        return;
      }
      if (has_folders) refuse_folder(name, ext::concat({reason, skip_hint()}));
    }
    auto const number = static_cast<std::int32_t>(classes_.size());
    classes_.push_back(name);
    for (auto const& entry : entries) {
      std::string const file = ext::concat({name, "/", entry});
      if (has_ending_of_picture(entry)) add_sample(file, number);
      else if (is_folder(file)) leave_out(file, "is a folder inside the folder of a class");
      else leave_out(file, "has a name that does not end with .jpg, .jpeg or .png");
    }
  }

  static bool has_ending_of_picture(std::string_view name) {
    auto const ends_with = [&](std::string_view ending) {
      return name.size() > ending.size() &&
             std::ranges::equal(name.substr(name.size() - ending.size()), ending, {}, [](char c) {
               return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
             });
    };
    return ends_with(".jpg") || ends_with(".jpeg") || ends_with(".png");
  }

  void add_sample(std::string_view file, std::int32_t of_class) {
    places_.push_back(names_.size());
    class_of_.push_back(of_class);
    names_ += file;
    names_ += '\0';
  }
  [[nodiscard]] char const* file_of(std::size_t sample) const {
    return names_.data() + places_[sample];
  }

  /// Reads the header of each picture on all cores, or decodes the picture if bad pictures are
  /// skipped.
  void check_pictures() {
    std::vector<std::string> problems(size());
    std::atomic<std::size_t> next = 0;
    std::exception_ptr other;
    std::mutex mutex;
    auto const work = [&] {
      try {
        detail::picture_scratch scratch;
        for (std::size_t i = next++; i < problems.size(); i = next++) try {
            decode(file_of(i), options_.skip_bad ? &scratch.rgb : nullptr);
          } catch (input_error const& problem) {
            problems[i] = problem.what();
            if (!options_.skip_bad) next = problems.size();
          }
      } catch (...) {  // for example out of memory
        std::lock_guard const lock(mutex);
        other = std::current_exception();
      }
    };
    {
      std::vector<std::jthread> helpers;
      std::size_t const cores = std::max(1u, std::thread::hardware_concurrency());
      for (std::size_t i = 1; i < std::min(cores, size() / 16); ++i) helpers.emplace_back(work);
      work();
    }
    if (other) std::rethrow_exception(other);

    auto const names = std::exchange(names_, {});
    auto const places = std::exchange(places_, {});
    auto const class_of = std::exchange(class_of_, {});
    std::vector<std::size_t> counts(classes_.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
      char const* const file = names.data() + places[i];
      if (problems[i].empty()) {
        add_sample(file, class_of[i]);
        ++counts[static_cast<std::size_t>(class_of[i])];
      } else {
        leave_out(file, problems[i]);
      }
    }
    for (std::size_t i = 0; i < counts.size(); ++i)
      if (counts[i] == 0)
        refuse_folder(classes_[i], ext::concat({"has no picture", skip_hint(),
                                                example_of_skipped(root_ / classes_[i])}));
  }

  detail::picture_size decode(char const* file, std::vector<std::uint8_t>* rgb) const {
    auto const mapped = folder_.map(file);
    std::optional<detail::picture_size> needed;
    if (options_.fit == image_fit::exact) needed = own_size;
    return detail::decode_picture(mapped.bytes(), needed, rgb);
  }

  static detail::picture_scratch& scratch_of_this_thread() {
    thread_local detail::picture_scratch scratch;
    return scratch;
  }

  static void write_whole(std::vector<std::uint8_t> const& rgb, std::span<T> out) {
    constexpr std::size_t pixels = Height * Width;
    for (std::size_t i = 0; i < pixels; ++i) {
      auto const* const from = rgb.data() + i * 3;
      if constexpr (Channels == 3)
        for (std::size_t c = 0; c < 3; ++c) out[c * pixels + i] = static_cast<T>(from[c]);
      else out[i] = static_cast<T>(grey_of(from[0], from[1], from[2]));
    }
  }

  static void write_resized(detail::picture_scratch& scratch, detail::picture_size size,
                            std::span<T> out) {
    std::uint8_t pixel[3]{};
    detail::middle_resize(size, own_size)
        .run(scratch, [&](std::size_t row, std::size_t column, std::size_t c, std::uint8_t byte) {
          std::size_t const at = row * Width + column;
          if constexpr (Channels == 3) {
            out[c * Height * Width + at] = static_cast<T>(byte);
          } else {
            pixel[c] = byte;
            if (c == 2) out[at] = static_cast<T>(grey_of(pixel[0], pixel[1], pixel[2]));
          }
        });
  }

  // Returns the grey value of a colour, rounded. The weights of red, green and blue are in units of
  // 1/65536.
  static std::uint32_t grey_of(std::uint32_t red, std::uint32_t green, std::uint32_t blue) {
    return (red * 19595 + green * 38470 + blue * 7471 + 32768) >> 16;
  }

  std::filesystem::path root_;
  ext::image_folder_options options_;
  detail::open_folder folder_;
  std::vector<std::string> classes_;
  // The files' names, relative to the root folder, each with a null byte at its end.
  std::string names_;
  std::vector<std::size_t> places_;  // the index in names_ at which each sample's name begins
  std::vector<std::int32_t> class_of_;
  std::vector<ext::skipped_picture> skipped_;
};

static_assert(ext::feature_dataset<image_folder<3, 8, 8>> &&
              ext::feature_dataset<image_folder<1, 8, 8>>);

}  // namespace plait
