# SPDX-License-Identifier: Apache-2.0
"""Prints what Pillow makes of a small picture, for tests/data/resize_test.cpp: resize.py > values"""
import PIL.Image

HEIGHT, WIDTH = 13, 17


def pixel(channel, y, x):
    return (channel * 97 + y * 41 + x * 67 + y * x * 13) % 256


def main():
    for height, width in ((5, 7), (6, 8), (20, 30), (30, 4), (13, 17), (1, 1)):
        values = []
        for channel in range(2):
            data = bytes(pixel(channel, y, x) for y in range(HEIGHT) for x in range(WIDTH))
            picture = PIL.Image.frombytes("L", (WIDTH, HEIGHT), data)
            values += picture.resize((width, height), PIL.Image.Resampling.BILINEAR).tobytes()
        print(f"    {{{height}, {width}, {{{', '.join(map(str, values))}}}}},")


main()
