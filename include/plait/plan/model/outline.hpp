// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/core/type_list.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/layer/layer.hpp"

namespace plait::planning {

/// The kind of a node of a model's tree: a layer or a combination of layers.
enum class node_kind : int {
  leaf,
  sequential,
  residual,
  fan_out,
  repeat,
  named,
  sum_of,
  objective
};

/// One node of a model's tree. Nodes are stored in depth-first order, a node in front of its
/// children.
struct node {
  node_kind kind = node_kind::leaf;
  int end = 0;    ///< one past the last node below this node
  int leaf = -1;  ///< number of the leaf, if the node is one
  int count = 1;  ///< number of copies of the nodes below, for a repeat
  name label{};
  /// Number of the `granularity` that `recomputed` names; -1: the policy decides.
  int granularity_number = -1;
};

/// A use of a parameter that another layer owns.
struct tie {
  int leaf = 0;
  int parameter = 0;
  name owner{};
};

/// The mistakes in a frozen<L, Patterns...>: a pattern matches no parameter, it names one copy of a
/// repeat, or the patterns freeze only some parameters of a layer.
enum class frozen_error : int { none, matches_nothing, one_copy, part_of_a_layer };

/// The first mistake in a frozen<L, Patterns...> of the model.
struct frozen_problem {
  frozen_error what = frozen_error::none;
  name pattern{};
  int leaf = 0;                      ///< leaf that would be frozen only in part
  int node = 0;                      ///< first node of L
  int first_leaf = 0, end_leaf = 0;  ///< leaves of L
};

/// The tree of a model as a value. Leaves are numbered in depth-first order.
template <int Nodes, int Leaves>
struct outline {
  static_vector<node, Nodes> nodes{};
  static_vector<leaf_info, Leaves> leaves{};
  /// For each leaf, the name of the form that use_form asks for, or an empty name.
  static_vector<name, Leaves> pins{};
  static_vector<tie, 2 * Leaves> ties{};
  frozen_problem frozen{};
};

template <class L>
consteval void check_combination() {
  static_assert(!has_forward<L>(),
                "this layer derives from a combination of layers (sequential, residual and so on) "
                "and has its own forward, which would not run; write the layer without a base "
                "class, or leave forward out");
}

/// Adds the nodes and leaves of a layer's type to a tree. The primary template is for a leaf.
template <class L>
struct outline_of {
  static constexpr int nodes = 1;
  using leaves = std::tuple<as_layer<L>>;
  static constexpr void append(auto& out, name pin) {
    int const index = out.leaves.size();
    out.nodes.push_back({node_kind::leaf, out.nodes.size() + 1, index});
    out.leaves.push_back(leaf_of<as_layer<L>>);
    out.pins.push_back(pin);
  }
};

/// A type that derives from a combination is treated as this combination under another name.
template <class L>
  requires std::is_base_of_v<typename L::combination, L>
struct outline_of<L> : outline_of<typename L::combination> {
  static_assert((check_combination<L>(), true));
};

template <node_kind Kind, class... Below>
struct outline_of_group {
  static constexpr int nodes = 1 + sum_of_numbers({outline_of<Below>::nodes...});
  using leaves = join_lists<typename outline_of<Below>::leaves...>;
  static constexpr void append_group(auto& out, name pin, name label, int count) {
    int const index = out.nodes.size();
    out.nodes.push_back({Kind, 0, -1, count, label});
    in_order{(outline_of<Below>::append(out, pin), 0)...};
    out.nodes[index].end = out.nodes.size();
  }
  static constexpr void append(auto& out, name pin) { append_group(out, pin, {}, 1); }
};

template <class... Layers>
struct outline_of<sequential<Layers...>> : outline_of_group<node_kind::sequential, Layers...> {};

template <class L>
struct outline_of<residual<L>> : outline_of_group<node_kind::residual, L> {};

template <class First, class... Others>
struct outline_of<fan_out<First, Others...>>
    : outline_of_group<node_kind::fan_out, First, Others...> {};

template <class... Losses>
struct outline_of<sum_of<Losses...>> : outline_of_group<node_kind::sum_of, Losses...> {};

template <class Model, class Loss>
struct outline_of<objective<Model, Loss>> : outline_of_group<node_kind::objective, Model, Loss> {};

template <std::size_t Count, class L>
struct outline_of<repeat<Count, L>> : outline_of_group<node_kind::repeat, L> {
  static constexpr void append(auto& out, name pin) {
    outline_of::append_group(out, pin, {}, static_cast<int>(Count));
  }
};

template <name Label, class L>
struct outline_of<named<Label, L>> : outline_of_group<node_kind::named, L> {
  static constexpr void append(auto& out, name pin) {
    outline_of::append_group(out, pin, Label, 1);
  }
};

template <name Label, class L>
struct outline_of<use_form<Label, L>> : outline_of<L> {
  static constexpr void append(auto& out, name) { outline_of<L>::append(out, Label); }
};

template <class L, class Parameter, name Owner>
struct outline_of<tied<L, Parameter, Owner>> : outline_of<L> {
  static constexpr int index =
      parameter_index<typename parameters_of<as_layer<L>>::type, Parameter>;
  static_assert(index >= 0,
                "tied<L, Parameter, Owner>: Parameter is not in L's parameter_list (L must be the "
                "layer itself, not a `named` or `sequential` around the layer)");
  static constexpr void append(auto& out, name pin) {
    out.ties.push_back({out.leaves.size(), index, Owner});
    outline_of<L>::append(out, pin);
  }
};

template <class... Leaves>
consteval bool any_has_term(std::tuple<Leaves...>*) {
  return sum_of_numbers({int(leaf_of<Leaves>.has_term())...}) > 0;
}

template <nano_fraction Weight, class L>
struct outline_of<times<Weight, L>> : outline_of<L> {
  static_assert(planning::any_has_term(static_cast<typename outline_of<L>::leaves*>(nullptr)),
                "times<Weight, L>: nothing in L adds to the loss, so that there is nothing to "
                "multiply; write times around a loss, or around a layer with adds_to_loss");
  static constexpr void append(auto& out, name pin) {
    int const first = out.leaves.size();
    outline_of<L>::append(out, pin);
    for (int leaf = first; leaf < out.leaves.size(); ++leaf)
      out.leaves[leaf].loss_weight *= Weight.number();
  }
};

/// Returns the number of entries that node `at` adds to its scope of parameter names. A leaf, a
/// named layer and a repeat are one entry each; the nodes below a named layer or a repeat belong to
/// other scopes.
[[gnu::cold]] constexpr int count_scope(auto const& tree, int at) {
  auto const& here = tree.nodes[at];
  if (here.kind == node_kind::leaf || here.kind == node_kind::named ||
      here.kind == node_kind::repeat)
    return 1;
  int sum = 0;
  for (int child = at + 1; child < here.end; child = tree.nodes[child].end)
    sum += count_scope(tree, child);
  return sum;
}

/// Text that can be built at compile time; some compilers cannot build a std::string there.
using characters = std::vector<char>;

[[gnu::cold]] constexpr void append(characters& text, name more) {
  for (std::size_t i = 0; i < more.size(); ++i) text.push_back(more[i]);
}
[[gnu::cold]] constexpr void append(characters& text, int number) {
  if (number >= 10) append(text, number / 10);
  text.push_back(static_cast<char>('0' + number % 10));
}
[[gnu::cold]] constexpr characters joined(characters text, auto const&... pieces) {
  (append(text, pieces), ...);
  return text;
}

[[gnu::cold]] constexpr void name_leaves(auto const& tree, int at, characters const& prefix,
                                         bool alone, int& number, lean_vector<characters>& out) {
  auto const& here = tree.nodes[at];
  // Two returns, because g++ 12 frees the result of a conditional expression twice at compile time.
  auto const numbered = [&] {
    if (alone) return prefix;
    return joined(prefix, number, name("."));
  };
  auto const open_scope = [&](int child, characters const& inside) {
    int first = 0;
    name_leaves(tree, child, inside, count_scope(tree, child) == 1, first, out);
  };
  switch (here.kind) {
    case node_kind::leaf: out.push_back(numbered()), ++number; return;
    case node_kind::named:
      if (here.label.empty()) open_scope(at + 1, prefix);
      else open_scope(at + 1, joined(prefix, here.label, name(".")));
      ++number;
      return;
    case node_kind::repeat: open_scope(at + 1, joined(numbered(), name("*."))), ++number; return;
    case node_kind::objective:
      open_scope(at + 1, prefix);
      open_scope(tree.nodes[at + 1].end, joined(prefix, name("loss.")));
      return;
    case node_kind::sequential:
    case node_kind::fan_out:
    case node_kind::sum_of:
    case node_kind::residual: break;
  }
  for (int child = at + 1; child < here.end; child = tree.nodes[child].end)
    name_leaves(tree, child, prefix, alone, number, out);
}

/// Returns the names of the leaves below node `at`, as if node `at` were the whole model.
constexpr lean_vector<characters> leaf_characters(auto const& tree, int at = 0) {
  lean_vector<characters> names;
  int number = 0;
  name_leaves(tree, at, {}, count_scope(tree, at) == 1, number, names);
  return names;
}

/// Returns true if `text` matches `pattern`, in which `*` stands for any text. With `any_copy`, a
/// number in the pattern also matches the star in `text` that stands for the number of a copy:
/// "h.3.attn" then matches "h.*.attn".
constexpr bool matches(name pattern, characters const& text, bool any_copy = false) {
  std::size_t const end = pattern.size();
  std::size_t at = 0, now = 0, star = end, resume = 0;
  auto const is_digit = [&] { return at < end && pattern[at] >= '0' && pattern[at] <= '9'; };
  while (now < text.size()) {
    if (at < end && pattern[at] == '*') {
      star = at++, resume = now;
    } else if (any_copy && text[now] == '*' && is_digit()) {
      while (is_digit()) ++at;
      ++now;
    } else if (at < end && pattern[at] == text[now]) {
      ++at, ++now;
    } else if (star < end) {
      at = star + 1, now = ++resume;
    } else {
      return false;
    }
  }
  while (at < end && pattern[at] == '*') ++at;
  return at == end;
}

/// Freezes the leaves whose parameters match the patterns. Only the leaves from number `first` on,
/// which are all below `node`, are compared with the patterns.
constexpr void freeze(auto& tree, int node, int first, std::initializer_list<name> patterns) {
  auto const names = leaf_characters(tree, node);
  int const end = tree.leaves.size();
  auto const report = [&](frozen_error what, name pattern, int leaf) {
    if (tree.frozen.what == frozen_error::none)
      tree.frozen = {what, pattern, leaf, node, first, end};
  };
  auto const is_matched = [&](int leaf, int parameter, name pattern, bool any_copy = false) {
    auto const& info = tree.leaves[leaf].parameters[parameter];
    auto const& prefix = names[static_cast<std::size_t>(leaf - first)];
    return matches(pattern, joined(prefix, info.label), any_copy);
  };
  for (name const pattern : patterns) {
    bool found = false, found_copy = false;
    for (int leaf = first; leaf < end; ++leaf)
      for (int i = 0; i < tree.leaves[leaf].parameters.size(); ++i) {
        found = found || is_matched(leaf, i, pattern);
        found_copy = found_copy || is_matched(leaf, i, pattern, true);
      }
    if (!found)
      report(found_copy ? frozen_error::one_copy : frozen_error::matches_nothing, pattern, 0);
  }
  for (int leaf = first; leaf < end; ++leaf) {
    int matched = 0;
    for (int i = 0; i < tree.leaves[leaf].parameters.size(); ++i) {
      bool found = false;
      for (name const pattern : patterns) found = found || is_matched(leaf, i, pattern);
      matched += found;
    }
    if (matched == 0) continue;
    if (matched < tree.leaves[leaf].parameters.size())
      report(frozen_error::part_of_a_layer, {}, leaf);
    tree.leaves[leaf].is_frozen = true;
  }
}

template <granularity What, class L>
struct outline_of<recomputed<What, L>> : outline_of<L> {
  static constexpr void append(auto& out, name pin) {
    int const first = out.nodes.size();
    outline_of<L>::append(out, pin);
    for (int i = first; i < out.nodes.size(); ++i)
      if (out.nodes[i].granularity_number < 0)
        out.nodes[i].granularity_number = static_cast<int>(What);
  }
};

template <class L, name... Patterns>
struct outline_of<frozen<L, Patterns...>> : outline_of<L> {
  static constexpr void append(auto& out, name pin) {
    int const node = out.nodes.size(), first = out.leaves.size();
    outline_of<L>::append(out, pin);
    if constexpr (sizeof...(Patterns) == 0) freeze(out, node, first, {name("*")});
    else freeze(out, node, first, {Patterns...});
  }
};

/// The types of a model's leaves, in depth-first order.
template <class Model>
using leaves_of = typename outline_of<Model>::leaves;

template <class Model>
inline constexpr int leaf_count = static_cast<int>(std::tuple_size_v<leaves_of<Model>>);

template <class... Leaves>
consteval int count_uses(std::tuple<Leaves...>*) {
  return sum_of_numbers({lists_of<Leaves>::parameters::size...});
}
/// The total number of parameters in the lists of a model's leaves. A leaf within a repeat counts
/// once, and a tied parameter counts once for each use.
template <class Model>
inline constexpr int parameter_uses = count_uses(static_cast<leaves_of<Model>*>(nullptr));

/// The tree of `Model` as a value.
template <class Model>
constexpr auto make_outline() {
  outline<outline_of<Model>::nodes, leaf_count<Model>> out;
  outline_of<Model>::append(out, name{});
  int terms = 0;
  for (int leaf = 0; leaf < out.leaves.size(); ++leaf)
    if (out.leaves[leaf].has_term()) out.leaves[leaf].term = terms++;
  return out;
}

/// Returns the prefix of the parameter names of each leaf, such as "h.*.attn.c_attn."; the star
/// stands for the number of the copy within a repeat.
[[gnu::cold]] std::vector<std::string> leaf_names(auto const& tree) {
  std::vector<std::string> names;
  for (auto const& text : leaf_characters(tree)) names.push_back({text.data(), text.size()});
  return names;
}

}  // namespace plait::planning
