// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/file_kind.hpp"

#include <algorithm>
#include <span>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

// Recognises the kind of a zip archive by its first entry and the archive's name.
PLAIT_DECL file_kind kind_of_zip(std::string_view begin, std::string_view path) {
  constexpr std::size_t name_at = 30;
  if (begin.size() < name_at) return file_kind::zip;
  std::size_t const length = static_cast<unsigned char>(begin[26]) +
                             std::size_t{256} * static_cast<unsigned char>(begin[27]);
  auto const name = begin.substr(name_at, length);
  for (char const* const of_torch : {"/data.pkl", "/.format_version", "/version", "/byteorder"})
    if (name.ends_with(of_torch)) return file_kind::torch;
  if (name.ends_with(".npy")) return file_kind::npz;
  for (char const* const of_excel : {"[Content_Types].xml", "_rels/", "xl/", "docProps/"})
    if (name.starts_with(of_excel)) return file_kind::excel;
  for (char const* const of_torch : {".bin", ".pt", ".pth", ".ckpt"})
    if (path.ends_with(of_torch)) return file_kind::torch;
  return file_kind::zip;
}

PLAIT_DECL file_kind kind_of_file(std::string_view begin, std::string_view path) {
  using namespace std::string_view_literals;
  struct known {
    std::string_view bytes;
    file_kind kind;
  };
  static constexpr known all[]{{"version https://git-lfs.github.com/", file_kind::git_lfs_pointer},
                               {"\x00\x05\x16\x07"sv, file_kind::apple_double},
                               {"\x1f\x8b\x08"sv, file_kind::gzip},
                               {"BZh91AY&SY"sv, file_kind::bzip2},
                               {"\xfd\x37zXZ\x00"sv, file_kind::xz},
                               {"\x28\xb5\x2f\xfd"sv, file_kind::zstd},
                               {"\x93NUMPY"sv, file_kind::npy},
                               {"\x89HDF\r\n\x1a\n"sv, file_kind::hdf5},
                               {"GGUF"sv, file_kind::gguf},
                               {"PAR1"sv, file_kind::parquet},
                               {"ARROW1\x00"sv, file_kind::arrow},
                               {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv, file_kind::excel},
                               {"\xff\xd8\xff"sv, file_kind::picture},
                               {"\x89PNG\r\n\x1a\n"sv, file_kind::picture},
                               {"GIF87a"sv, file_kind::other_picture},
                               {"GIF89a"sv, file_kind::other_picture},
                               {"II*\x00"sv, file_kind::other_picture},
                               {"MM\x00*"sv, file_kind::other_picture},
                               {"%PDF-"sv, file_kind::pdf},
                               {"\xff\xfe"sv, file_kind::utf16_text},
                               {"\xfe\xff"sv, file_kind::utf16_text},
                               {"\x88\xd8\x34\x01\x01\x00\x00\x00"sv, file_kind::tokens},
                               {"\xa1\xd9\x34\x01\x07\x00\x00\x00"sv, file_kind::tokens},
                               // A pickle begins with its protocol number, after which torch.save
                               // before version 1.6 wrote a magic number.
                               {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20"sv, file_kind::torch},
                               {"\x80\x02"sv, file_kind::pickle},
                               {"\x80\x03"sv, file_kind::pickle},
                               {"\x80\x04\x95"sv, file_kind::pickle},
                               {"\x80\x05\x95"sv, file_kind::pickle}};
  if (path.ends_with(".distcp")) return file_kind::torch_distributed;
  // A safetensors file begins with the length of its header in eight bytes, followed by the
  // header's '{'.
  if (begin.size() > 8 && begin[8] == '{' && begin.substr(4, 4) == "\0\0\0\0"sv)
    return file_kind::safetensors;
  for (auto const& one : all)
    if (begin.starts_with(one.bytes)) return one.kind;
  if (begin.starts_with("PK\x03\x04")) return kind_of_zip(begin, path);
  if (begin.starts_with("RIFF") && begin.substr(0, 12).ends_with("WEBP"))
    return file_kind::other_picture;
  if (begin.size() > 9 && begin.starts_with("BM") && begin.substr(6, 4) == "\0\0\0\0"sv)
    return file_kind::other_picture;
  if (begin.size() > 262 && begin.substr(257, 5) == "ustar") return file_kind::tar;
  if (begin.starts_with("\xef\xbb\xbf")) begin.remove_prefix(3);
  begin.remove_prefix(std::min(begin.find_first_not_of(" \t\r\n"), begin.size()));
  std::string word(begin.substr(0, 14));
  for (char& c : word)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (word.starts_with("<!doctype html") || word.starts_with("<html")) return file_kind::html;
  if (begin.starts_with('{')) return file_kind::json;
  return file_kind::unknown;
}

// Returns a path in single quotes for use in a shell command, or FILE if it cannot be quoted in
// this way.
PLAIT_DECL std::string word_of_command(std::string const& path) {
  bool const is_plain = path.find('\'') == path.npos && escaped(path) == path;
  return is_plain ? concat({"'", path, "'"}) : "FILE";
}

// Returns a path with another extension, or with an additional one if it already has this
// extension: a command that writes the result must not overwrite its input.
PLAIT_DECL std::string with_ending(std::string const& path, std::string_view ending) {
  auto const name = path.rfind('/') == path.npos ? 0 : path.rfind('/') + 1;
  auto const dot = path.rfind('.');
  auto out = concat({path.substr(0, dot == path.npos || dot <= name ? path.npos : dot), ending});
  return out == path ? concat({path, ending}) : out;
}

PLAIT_DECL std::string text_of_kind(file_kind kind, std::string const& path, file_use use) {
  bool const is_table = use == file_use::table;
  auto const file = word_of_command(path);
  auto const python = [&](std::string_view is, std::string_view code, std::string_view ending) {
    return concat({is, "; convert it: python3 -c '", code, "' ", file, " ",
                   (ending.empty() ? "" : word_of_command(with_ending(path, ending)))});
  };
  auto const unpack = [&](std::string_view by, std::string_view with, std::string_view ending) {
    auto const to = path.ends_with(ending) ? path.substr(0, path.size() - ending.size())
                                           : concat({path, ".unpacked"});
    return concat({"is compressed by ", by, "; unpack it first: ", with, " -d < ", file, " > ",
                   word_of_command(to)});
  };
  switch (kind) {
    case file_kind::unknown: return "";
    case file_kind::git_lfs_pointer:
      return "is a pointer of Git LFS, not the file itself; fetch the file by 'git lfs pull' in "
             "its repository";
    case file_kind::apple_double:
      return "is an AppleDouble file, in which macOS stores attributes of another file; that file "
             "has the same name without '._'";
    case file_kind::html:
      return "is a page in HTML, perhaps an error page that a server sent instead of the file; "
             "download it again";
    case file_kind::json:
      return use == file_use::weights
                 ? "is a text in JSON; if it is the index of weights, name its folder instead"
                 : "is a text in JSON";
    case file_kind::utf16_text:
      return concat({"is a text in UTF-16; write it in UTF-8: iconv -f UTF-16 -t UTF-8 ", file,
                     " -o ", word_of_command(with_ending(path, ".utf8.csv"))});
    case file_kind::gzip: return unpack("gzip", "gzip", ".gz");
    case file_kind::bzip2: return unpack("bzip2", "bzip2", ".bz2");
    case file_kind::xz: return unpack("xz", "xz", ".xz");
    case file_kind::zstd: return unpack("Zstandard", "zstd", ".zst");
    case file_kind::tar: return concat({"is a tar archive; unpack it first: tar -xf ", file});
    case file_kind::zip:
      return concat({"is a zip archive; unpack it first: python3 -m zipfile -e ", file, " ."});
    case file_kind::torch:
      return python(
          "is a file that torch.save has written",
          "import sys, torch, safetensors.torch as s; s.save_file({k: v.contiguous().clone() for "
          "k, v in (lambda d: d.get(\"state_dict\", d))(torch.load(sys.argv[1], \"cpu\", "
          "weights_only=True)).items() if torch.is_tensor(v)}, sys.argv[2], {\"format\": "
          "\"pt\"})",
          ".safetensors");
    case file_kind::torch_distributed: {
      auto const end = path.rfind('/');
      auto const folder = end == path.npos ? std::string(".") : path.substr(0, end);
      return concat(
          {"is a part of what torch.distributed.checkpoint has written; convert its folder: "
           "python3 -c 'import sys, torch, safetensors.torch as s; from "
           "torch.distributed.checkpoint.format_utils import dcp_to_torch_save as to; "
           "to(sys.argv[1], sys.argv[2] + \".pt\"); d = torch.load(sys.argv[2] + \".pt\", "
           "\"cpu\", weights_only=True); s.save_file({k: v.contiguous().clone() for k, v in "
           "d.get(\"model\", d).items() if torch.is_tensor(v)}, sys.argv[2], {\"format\": "
           "\"pt\"})' ",
           word_of_command(folder), " ", word_of_command(concat({folder, "/model.safetensors"}))});
    }
    case file_kind::pickle:
      return "is a pickle of Python; write its arrays by "
             "safetensors.numpy.save_file, or its table by DataFrame.to_csv";
    case file_kind::npy:
      return is_table ? python("is an array of NumPy (.npy)",
                               "import sys, numpy; numpy.savetxt(sys.argv[2], "
                               "numpy.load(sys.argv[1]), \"%.17g\", \",\")",
                               ".csv")
                      : python("is an array of NumPy (.npy)",
                               "import sys, numpy, safetensors.numpy as s; s.save_file({\"x\": "
                               "numpy.ascontiguousarray(numpy.load(sys.argv[1]))}, sys.argv[2])",
                               ".safetensors");
    case file_kind::npz:
      return python("is an archive of arrays of NumPy (.npz)",
                    "import sys, numpy, safetensors.numpy as s; s.save_file({k: "
                    "numpy.ascontiguousarray(v) for k, v in numpy.load(sys.argv[1]).items()}, "
                    "sys.argv[2])",
                    ".safetensors");
    case file_kind::hdf5:
      return python("is an HDF5 file, such as Keras and pandas write",
                    "import sys, h5py, safetensors.numpy as s; d = {}; "
                    "h5py.File(sys.argv[1]).visititems(lambda n, x: d.update({n: x[()]}) if "
                    "isinstance(x, h5py.Dataset) else None); s.save_file(d, sys.argv[2])",
                    ".safetensors");
    case file_kind::gguf:
      return "is a GGUF file of llama.cpp, whose numbers may be rounded to few bits; take the "
             "safetensors files that it was made of";
    case file_kind::parquet:
      return python("is a Parquet file",
                    "import sys, pandas; pandas.read_parquet(sys.argv[1]).to_csv(sys.argv[2], "
                    "index=False)",
                    ".csv");
    case file_kind::arrow:
      return python("is a Feather file of Arrow",
                    "import sys, pandas; pandas.read_feather(sys.argv[1]).to_csv(sys.argv[2], "
                    "index=False)",
                    ".csv");
    case file_kind::excel:
      return python("is a workbook of Excel",
                    "import sys, pandas; pandas.read_excel(sys.argv[1]).to_csv(sys.argv[2], "
                    "index=False)",
                    ".csv");
    case file_kind::picture: return "is a picture";
    case file_kind::other_picture:
      return python("is a picture in another format than JPEG and PNG",
                    "import sys; from PIL import Image; "
                    "Image.open(sys.argv[1]).convert(\"RGB\").save(sys.argv[2])",
                    ".png");
    case file_kind::pdf: return "is a PDF document";
    case file_kind::safetensors:
      return is_table ? "is a safetensors file; plait::tensor_table reads two of its tensors as "
                        "a data set"
                      : "is a safetensors file";
    case file_kind::tokens: return "is a file of tokens, as plait::token_shards reads them";
  }
  return "";
}

// Returns true if a file that begins like another kind may nevertheless be a text, such as "GGUF is
// a format" or a table with the column PAR1. Real files of these kinds have control characters
// among their first bytes.
PLAIT_DECL bool may_be_text(file_kind kind, std::string_view begin) {
  bool const begins_with_letters =
      kind == file_kind::gguf || kind == file_kind::parquet || kind == file_kind::other_picture;
  return begins_with_letters && std::none_of(begin.begin(), begin.end(), [](char c) {
           return c >= 0 && c < ' ' && c != '\t' && c != '\n' && c != '\r';
         });
}

PLAIT_DECL std::string other_kind_text(std::string_view begin, std::string const& path,
                                       file_use use) {
  begin = begin.substr(0, bytes_of_kind);
  auto const kind = kind_of_file(begin, path);
  bool const is_text =
      kind == file_kind::html || kind == file_kind::json || kind == file_kind::utf16_text;
  bool const fits = (use == file_use::weights && kind == file_kind::safetensors) ||
                    (use == file_use::tokens && kind == file_kind::tokens) ||
                    (use == file_use::picture && kind == file_kind::picture) ||
                    // The first cell of a table may look like JSON.
                    (use == file_use::table && kind == file_kind::json) ||
                    (use == file_use::text && is_text) ||
                    ((use == file_use::table || use == file_use::text) && may_be_text(kind, begin));
  return fits ? "" : text_of_kind(kind, path, use);
}

PLAIT_DECL std::string beginning_of(open_file const& file) {
  std::string out(std::min(file.size(), bytes_of_kind), '\0');
  file.read(std::as_writable_bytes(std::span(out)), 0);
  return out;
}

PLAIT_DECL void refuse_other_kind(open_file const& file, std::string const& path, file_use use) {
  if (auto const text = other_kind_text(beginning_of(file), path, use); !text.empty())
    file.name().refuse(text);
}

PLAIT_DECL std::string other_weights_text(std::string const& path) try {
  auto const begin = beginning_of(open_file(path));
  switch (kind_of_file(begin, path)) {
    case file_kind::unknown:
    case file_kind::apple_double:
    case file_kind::html:
    case file_kind::json:
    case file_kind::utf16_text:
    case file_kind::parquet:
    case file_kind::arrow:
    case file_kind::excel:
    case file_kind::picture:
    case file_kind::other_picture:
    case file_kind::pdf:
    case file_kind::tokens: return "";
    case file_kind::git_lfs_pointer:
    case file_kind::gzip:
    case file_kind::bzip2:
    case file_kind::xz:
    case file_kind::zstd:
    case file_kind::tar:
    case file_kind::zip:
    case file_kind::torch:
    case file_kind::torch_distributed:
    case file_kind::pickle:
    case file_kind::npy:
    case file_kind::npz:
    case file_kind::hdf5:
    case file_kind::gguf:
    case file_kind::safetensors:
      return text_of_kind(kind_of_file(begin, path), path, file_use::weights);
  }
  return "";
} catch (input_error const&) {
  return "";
}

}  // namespace plait::detail
