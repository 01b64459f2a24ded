# SPDX-License-Identifier: Apache-2.0
# Sourced by tests that change safetensors files.

# with_header FROM TO SED: writes FROM with another header, made by an expression of sed; data from standard
# input follow its own data.
with_header() {
  local length header i
  length="$(od -An -t u8 -N 8 "$1" | tr -d ' ')"
  header="$(head -c $((8 + length)) "$1" | tail -c "$length" | sed -E "$3")"
  {
    for ((i = 0; i < 64; i += 8)); do printf '%b' "\\0$(printf %o $((${#header} >> i & 255)))"; done
    printf '%s' "$header"
    tail -c +$((9 + length)) "$1"
    cat
  } >"$2"
}
# data_bytes FILE: prints the number of bytes after its header.
data_bytes() { echo $(($(wc -c <"$1") - 8 - $(od -An -t u8 -N 8 "$1"))); }
# with_tensor FROM TO NAME: writes FROM with one more tensor, of four bytes.
with_tensor() {
  local end
  end="$(data_bytes "$1")"
  printf '\1\1\0\1' |
    with_header "$1" "$2" "s/^\\{/{\"$3\":{\"dtype\":\"U8\",\"shape\":[1,1,2,2],\"data_offsets\":[$end,$((end + 4))]},/"
}
