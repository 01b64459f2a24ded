#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""csv_reference.py > csv_cases.txt

Texts that are hard to read as tables, and the cells that csv of Python's standard library finds in them with
strict=True, for tests/data/csv_reader_test.cpp. A case is a line `case NAME SEPARATOR`, a line `text TEXT`, and a line
`row CELL<tab>CELL...` for each row with any byte, or at its end a line `error`. In texts and cells bytes other than
printable ASCII are written as \\xNN, and so is the backslash."""
import csv
import io
import random

CASES = [
    ("plain", ",", "a,b\n1,2\n"),
    ("no_end_of_line", ",", "a,b\n1,2"),
    ("crlf", ",", "a,b\r\n1,2\r\n"),
    ("cr_alone", ",", "a,b\r1,2\r"),
    ("mixed_ends", ",", "a,b\n1,2\r\n3,4\r5,6"),
    ("lf_cr", ",", "a,b\n\r1,2\n\r"),
    ("empty", ",", ""),
    ("only_end", ",", "\n"),
    ("only_ends", ",", "\r\n\n\r\r\n"),
    ("blank_between", ",", "a,b\n\n\n1,2\n\n"),
    ("one_cell", ",", "x"),
    ("one_column", ",", "x\n1\n2\n"),
    ("empty_cells", ",", ",,\n,,\n"),
    ("empty_last", ",", "a,b,\n1,2,"),
    ("only_separator", ",", ","),
    ("spaces", ",", " a , b \n 1 , 2 \n"),
    ("space_line", ",", "a\n \nb\n"),
    ("quoted", ",", '"a","b"\n"1","2"\n'),
    ("quoted_separator", ",", '"a,b",c\n"1,5",2\n'),
    ("quoted_line_feed", ",", '"a\nb",c\n1,"2\n3"\n'),
    ("quoted_crlf", ",", '"a\r\nb",c\r\n1,2\r\n'),
    ("quoted_cr", ",", '"a\rb",c\r1,2\r'),
    ("quoted_quote", ",", '"say ""yes""",b\n'),
    ("quoted_only_quotes", ",", '"""",""""""\n'),
    ("quoted_empty", ",", '"",""\n""\n'),
    ("quoted_at_end", ",", 'a,"b"'),
    ("quoted_blank_lines", ",", '"\n\n\n",b\n'),
    ("quote_in_bare", ",", 'a"b,c""d\n5" disk,6\n'),
    ("quote_ends_bare", ",", 'a",b"\n1,2\n'),
    ("space_before_quote", ",", 'a, "b"\n1, "2,3"\n'),
    ("space_behind_quote", ",", '"a" ,b\n'),
    ("text_behind_quote", ",", '"a"b,c\n'),
    ("quote_three", ",", '"a"""b,c\n'),
    ("quote_open", ",", 'a,b\n1,"2\n3,4\n'),
    ("quote_open_at_end", ",", 'a,"'),
    ("quote_alone", ",", '"'),
    ("two_quotes", ",", '""'),
    ("three_quotes", ",", '"""'),
    ("four_quotes", ",", '""""'),
    ("semicolon", ";", 'a;b\n1,5;"2;5"\n'),
    ("tab", "\t", 'a\tb\n1\t"2\t3"\n'),
    ("bar", "|", "a|b|\n|1,2|"),
    ("space_separator", " ", 'a b  c\n1 "2 3" 4\n'),
    ("other_separator", ";", "a,b\n1,2\n"),
    ("nul", ",", "a\0,b\n1,\0\n"),
    ("control", ",", "\x01,\x1b[31m\n\x7f,\x0c\n"),
    ("vertical_tab_and_feed", ",", "a\x0bb\x0cc,d\n"),
    ("file_separators", ",", "a\x1cb,c\x1dd\x1ee\n"),
    ("utf8", ",", "größe,数\n1,2\n"),
    ("line_separators", ",", "a\u2028b,c\u0085d\n1,2\n"),
    ("ragged", ",", "a,b\n1\n1,2,3\n"),
    ("long", ",", "x" * 3000 + "," + '"' + "y\n" * 500 + '"' + "\n"),
    ("wide", ",", ",".join(str(i) for i in range(500)) + "\n"),
    ("numbers", ",", "1e5,-2.5,+3,.5,5.,0x10,1_000,inf,NaN\n"),
    ("backslash", ",", 'a\\,b\\"c\n"d\\",e\n'),
    ("apostrophes", ",", "'a,b',c\n"),
]


def escaped(text):
    return "".join(chr(b) if 32 <= b < 127 and b != 92 else "\\x%02x" % b for b in text.encode("utf-8"))


def made_up():
    draw = random.Random(38)
    for number in range(60):
        text = "".join(draw.choice('aa1,,"""\n\n\r ') for _ in range(draw.randrange(1, 25)))
        yield "made_up_%02d" % number, ",", text


for name, separator, text in CASES + list(made_up()):
    print("case %s %s" % (name, escaped(separator)))
    print("text " + escaped(text))
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True):
            if row:
                print("row " + "\t".join(escaped(cell) for cell in row))
    except csv.Error:
        print("error")
