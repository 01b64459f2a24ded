#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pictures_reference.py FOLDER

Writes small pictures into FOLDER, tests/data/pictures, and beside each what Pillow makes of it, as text: NAME.rgb has
its size and the bytes of convert("RGB"), NAME.grey those of convert("L"), and NAME.WxH the bytes of the middle,
resized to that size (BILINEAR). Needs Pillow (written with 13.0). PNG files that Pillow does not write, of 16 bits or
interlaced, are written here."""
import os
import random
import struct
import sys
import zlib

from PIL import Image

folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
width, height = 21, 13
draw = random.Random(38)


def smooth(x, y, c):
    return (x * (7 + c) + y * (11 - 3 * c) + (60 if (x // 5 + y // 4) % 2 else 0)) % 256


def picture(mode):
    out = Image.new(mode, (width, height))
    bands = len(out.getbands())
    for y in range(height):
        for x in range(width):
            value = tuple(smooth(x, y, c) for c in range(bands))
            out.putpixel((x, y), value if bands > 1 else value[0])
    return out


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write_png(name, colour, bits, interlaced, extra=b""):
    """Samples of any depth; interlaced by Adam7."""
    bands = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]

    def sample(x, y, c):
        value = smooth(x, y, c) * 257 + 99 * (x + y) % 256
        return (value & 0xFFFF) >> (16 - bits)

    def rows(columns, lines):
        out = b""
        for y in lines:
            text = "".join(format(sample(x, y, c), "0%db" % bits) for x in columns for c in range(bands))
            text += "0" * (-len(text) % 8)
            if text:
                out += b"\0" + int(text, 2).to_bytes(len(text) // 8, "big")
        return out

    if interlaced:
        data = b"".join(rows(range(a, width, b), range(c, height, d)) for a, b, c, d in (
            (0, 8, 0, 8), (4, 8, 0, 8), (0, 4, 4, 8), (2, 4, 0, 4), (0, 2, 2, 4), (1, 2, 0, 2), (0, 1, 1, 2)))
    else:
        data = rows(range(width), range(height))
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 1 if interlaced else 0)
    with open(os.path.join(folder, name + ".png"), "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(data, 9)) +
                   chunk(b"IEND", b""))


palette = chunk(b"PLTE", bytes(smooth(i, i, c) for i in range(16) for c in range(3)))
write_png("grey_1", 0, 1, False)
write_png("grey_2_interlaced", 0, 2, True)
write_png("grey_4", 0, 4, False)
write_png("grey_8_key", 0, 8, False, chunk(b"tRNS", b"\0\7"))
write_png("rgb_16", 2, 16, False)
write_png("rgb_8_interlaced", 2, 8, True)
write_png("rgba_16_interlaced", 6, 16, True)
write_png("grey_alpha_8", 4, 8, False)
write_png("palette_4", 3, 4, False, palette)
write_png("palette_4_clear", 3, 4, True, palette + chunk(b"tRNS", bytes(range(0, 160, 10))))
write_png("gamma", 2, 8, False, chunk(b"gAMA", struct.pack(">I", 100000)))
picture("RGB").save(os.path.join(folder, "rgb_8.png"))
picture("RGBA").save(os.path.join(folder, "rgba_8.png"))
picture("L").save(os.path.join(folder, "grey_8.png"))

for name, mode, options in (
        ("full", "RGB", {"quality": 95, "subsampling": 0}), ("half", "RGB", {"quality": 90, "subsampling": 1}),
        ("quarter", "RGB", {"quality": 75, "subsampling": 2}), ("grey", "L", {"quality": 90}),
        ("progressive", "RGB", {"quality": 80, "progressive": True}),
        ("restarts", "RGB", {"quality": 80, "restart_marker_blocks": 1}), ("optimised", "RGB", {"optimize": True}),
        ("poor", "RGB", {"quality": 5})):
    picture(mode).save(os.path.join(folder, name + ".jpg"), **options)
picture("CMYK").save(os.path.join(folder, "cmyk.jpg"))
# Two more pictures from the same bytes: inks as YCCK, which Photoshop writes, and CMYK without Adobe's
# marker.
with open(os.path.join(folder, "cmyk.jpg"), "rb") as file:
    cmyk = file.read()
adobe = cmyk.index(b"Adobe")
length = int.from_bytes(cmyk[adobe - 2:adobe], "big")
for name, data in (("ycck", cmyk[:adobe + 11] + b"\2" + cmyk[adobe + 12:]),
                   ("cmyk_plain", cmyk[:adobe - 4] + cmyk[adobe - 2 + length:])):
    with open(os.path.join(folder, name + ".jpg"), "wb") as file:
        file.write(data)


def store(name, image):
    data = image.tobytes()
    with open(os.path.join(folder, name), "w", encoding="ascii") as file:
        file.write("%d %d\n" % image.size)
        for begin in range(0, len(data), 30):
            file.write(" ".join(map(str, data[begin:begin + 30])) + "\n")


def middle(image, new):
    scale = min(image.width / new[0], image.height / new[1])
    left, upper = (image.width - new[0] * scale) / 2, (image.height - new[1] * scale) / 2
    return image.resize(new, Image.BILINEAR, box=(left, upper, left + new[0] * scale, upper + new[1] * scale))


for entry in sorted(os.listdir(folder)):
    if not entry.endswith((".png", ".jpg")):
        continue
    with Image.open(os.path.join(folder, entry)) as opened:
        rgb = opened.convert("RGB")
        store(entry + ".rgb", rgb)
        if entry in ("rgb_8.png", "palette_4.png", "grey_8.png"):
            store(entry + ".grey", rgb.convert("L"))
        if entry == "rgb_8.png":
            for new in ((5, 7), (8, 3), (13, 13), (30, 31), (40, 9), (1, 1)):
                store(entry + ".%dx%d" % new, middle(rgb, new))
