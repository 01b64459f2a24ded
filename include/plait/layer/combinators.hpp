// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>

#include "plait/core/fraction.hpp"
#include "plait/core/granularity.hpp"
#include "plait/core/name.hpp"
#include "plait/core/type_list.hpp"
#include "plait/layer/layer.hpp"

namespace plait {

namespace detail {

// The numbers that a check compares are template arguments, so that every compiler prints them next
// to the text of the error.
template <std::size_t OutputWidth, std::size_t InputWidth, int Position>
consteval void check_widths() {
  static_assert(OutputWidth == InputWidth,
                "sequential<...>: the layer at Position takes rows of InputWidth features, but the "
                "layer before it outputs OutputWidth; make the two numbers equal");
}

template <std::size_t OutputChannels, std::size_t OutputHeight, std::size_t InputChannels,
          std::size_t InputHeight, int Position>
consteval void check_images() {
  static_assert(OutputChannels == InputChannels && OutputHeight == InputHeight,
                "sequential<...>: the layer at Position takes images of InputChannels channels and "
                "InputHeight rows, but the layer before it outputs images of OutputChannels "
                "channels and OutputHeight rows; use the output type of the layer before it as the "
                "image type of this layer");
}

template <class Value>
inline constexpr bool is_tokens = std::is_base_of_v<tokens, Value>;

template <class Value>
inline constexpr bool is_several = false;
template <class... Values>
inline constexpr bool is_several<inputs<Values...>> = true;

/// True if the outputs of a fan_out (`Made`) fit the inputs of the next layer (`Taken`), in the
/// same order.
template <class Made, class Taken>
inline constexpr bool are_alike = std::is_same_v<Made, Taken>;
template <class... Made, class... Taken>
  requires(sizeof...(Made) == sizeof...(Taken))
inline constexpr bool are_alike<inputs<Made...>, inputs<Taken...>> =
    ((Made::info == Taken::info && !Made::info.is_another_image(Taken::info)) && ...);

/// True if one value can be the input of two layers with the input types A and B: the types are the
/// same, or both are features of equal width and not images of different shapes.
template <class A, class B>
inline constexpr bool take_alike = std::is_same_v<A, B>;
template <class A, class B>
  requires(!std::is_same_v<A, B> &&
           requires {
             A::info;
             B::info;
           })
inline constexpr bool take_alike<A, B> = A::info.kind == value_kind::features &&
                                         A::info == B::info && !A::info.is_another_image(B::info);

/// The input type of a combination whose layers all take the same value: the first of their input
/// types that is an image, or the first input type if none is an image.
template <class First, class... Others>
struct common_input {
  using type = First;
};
template <class First, class Second, class... Others>
  requires(!std::is_same_v<First, Second> && take_alike<First, Second>)
struct common_input<First, Second, Others...> {
  using type = typename common_input<std::conditional_t<First::info.channels == 0, Second, First>,
                                     Others...>::type;
};
template <class First, class... Others>
struct common_input<First, First, Others...> : common_input<First, Others...> {};

// The check of two consecutive layers is a constant and not a function: g++ with
// -ftemplate-backtrace-limit=1 then omits the instantiations between the sequence and the fault.
template <class Before, class After, int Position>
inline constexpr bool is_edge = [] {
  using made = output_of<Before>;
  using taken = input_of<After>;
  if constexpr (is_several<made> || is_several<taken>) {
    static_assert(
        are_alike<made, taken>,
        "sequential<...>: a layer that takes inputs<A, B> must follow a fan_out<L1, L2> whose "
        "outputs are A and B, and nothing else may follow a fan_out");
  } else {
    static_assert(is_tokens<made> == is_tokens<taken>,
                  "sequential<...>: one layer outputs tokens and its neighbour takes features, or "
                  "the other way round; put an embedding between them");
    if constexpr (!is_tokens<made>) {
      constexpr value_info from = made::info, to = taken::info;
      check_widths<from.width, to.width, Position>();
      if constexpr (from.width == to.width && from.is_another_image(to))
        check_images<from.channels, from.height, to.channels, to.height, Position>();
    }
  }
  return true;
}();

/// The two inputs of a loss: the width of the features, and the description of the targets.
template <class Input>
struct loss_inputs {
  static constexpr std::size_t width = Input::info.width;
  static constexpr value_info targets{};
};
template <class X, class Targets>
struct loss_inputs<inputs<X, Targets>> {
  static constexpr std::size_t width = X::info.width;
  static constexpr value_info targets = Targets::info;
};

template <class L>
inline constexpr bool is_loss = std::is_same_v<output_of<L>, loss_value>;

/// Returns the number of features that a model outputs (width_made) or that a loss takes
/// (width_taken). Both functions return 0 if the arguments of an objective are in the wrong order,
/// so that the first is the loss and the second is the model.
template <class Model, class Loss>
consteval std::size_t width_made() {
  if constexpr (is_loss<Loss> && !is_loss<Model>) return output_of<Model>::info.width;
  else return 0;
}
template <class Model, class Loss>
consteval std::size_t width_taken() {
  if constexpr (is_loss<Loss> && !is_loss<Model>) return loss_inputs<typename Loss::input>::width;
  else return 0;
}

template <class... Losses>
consteval void check_terms() {
  constexpr bool are_losses = (std::is_same_v<typename Losses::output, loss_value> && ...);
  static_assert(are_losses,
                "sum_of<...>: one of these layers is not a loss; write layers with `using output = "
                "plait::loss_value;`. A layer that adds a term to the loss inside the model is "
                "part of the model, not of sum_of");
  if constexpr (are_losses) {
    using first = loss_inputs<typename std::tuple_element_t<0, std::tuple<Losses...>>::input>;
    static_assert(((loss_inputs<typename Losses::input>::width == first::width) && ...),
                  "sum_of<...>: the losses take features of different widths, but each loss "
                  "receives all outputs of the model; write nn::loss_of_part<Loss, {...}> for a "
                  "loss that takes only some of the outputs");
    static_assert(((loss_inputs<typename Losses::input>::targets == first::targets) && ...),
                  "sum_of<...>: the losses take different targets; a data set has one kind of "
                  "targets, so write losses that all take plait::tokens, or plait::reals<W> of one "
                  "width, or nn::loss_of_part<Loss, {...}> for each loss that takes other targets");
  }
}

template <class... Layers>
inline constexpr bool is_chain = [] {
  constexpr int count = sizeof...(Layers);
  []<std::size_t... Index>(std::index_sequence<Index...>) {
    using list = std::tuple<Layers...>;
    in_order{int(is_edge<type_at<list, Index>, type_at<list, Index + 1>, int(Index) + 1>)...};
  }(std::make_index_sequence<count - 1>{});
  return true;
}();

}  // namespace detail

/// Runs layers one after another, like torch.nn.Sequential.
///
/// Give this combination a name, as every other combination in this header: `struct model :
/// sequential<...> {};`. Compiler messages then contain `model` instead of the whole list.
///
/// Parameter names: names of a `named` layer begin with its name; other layers are numbered in
/// depth-first order within the nearest name, as in "0.weight".
///
/// Example (tests/reference/names_in_use_test.cpp sequential):
///     using net = plait::sequential<plait::nn::linear<10, 32>, plait::nn::gelu<32>,
///                                   plait::nn::linear<32, 2>>;
template <class... Layers>
struct sequential {
  static_assert(sizeof...(Layers) > 0,
                "sequential<>: a model needs at least one layer; write it between the brackets");
  static_assert((detail::in_order{(detail::check_is_layer<Layers>(), 0)...}, true));
  using concept_tag = layer_tag;
  using combination = sequential;
  using input = detail::input_of<detail::type_at<std::tuple<Layers...>, 0>>;
  using output = detail::output_of<detail::type_at<std::tuple<Layers...>, sizeof...(Layers) - 1>>;
  static_assert(detail::is_chain<Layers...>);
};

/// x + L(x). The input and the output of L have equal placements.
///
/// Example (tests/reference/names_in_use_test.cpp residual):
///     using with_skip =
///         plait::residual<plait::sequential<plait::nn::layer_norm<16>, block>>;  // y = x + f(x)
template <class L>
struct residual {
  static_assert((detail::check_is_layer<L>(), true));
  using concept_tag = layer_tag;
  using combination = residual;
  using input = detail::input_of<L>;
  using output = detail::output_of<L>;
  // This is asserted here and not in a function, so that compilers name only this type before the
  // text.
  static_assert(
      input::info.width == output::info.width,
      "residual<L>: L takes the number of features left of == and outputs the number right of it; "
      "make the two numbers equal, because the output of L is added to the input");
};

/// Applies two to four layers to one input. Their outputs, in order, are the inputs of the next
/// layer.
template <class First, class... Others>
struct fan_out {
  static_assert(sizeof...(Others) >= 1 && sizeof...(Others) < ext::input_placements::most,
                "fan_out<Layers...>: the number of layers is not two, three or four; write two to "
                "four layers");
  using concept_tag = layer_tag;
  using combination = fan_out;
  using input =
      typename detail::common_input<detail::input_of<First>, detail::input_of<Others>...>::type;
  using output = inputs<detail::output_of<First>, detail::output_of<Others>...>;
  static_assert(detail::take_alike<input, detail::input_of<First>> &&
                    (detail::take_alike<input, detail::input_of<Others>> && ...),
                "fan_out<Layers...>: the layers have different input types; give all of them the "
                "same input type");
};

/// `Count` copies of L one after another, each with its own parameters. The code of L is compiled
/// once and runs in a loop.
///
/// Parameter names: the number of the copy precedes the names of L, as in "h.3.attn.weight".
///
/// Example (tests/reference/names_in_use_test.cpp repeat):
///     using twelve =
///         plait::repeat<12, with_skip>;  // one type, compiled once; 12 sets of parameters
template <std::size_t Count, class L>
struct repeat {
  static_assert(Count >= 1, "repeat<Count, L>: Count is 0; write at least 1, or leave L out");
  static_assert((detail::check_is_layer<L>(), true));
  using concept_tag = layer_tag;
  using combination = repeat;
  using input = detail::input_of<L>;
  using output = detail::output_of<L>;
  static_assert(
      input::info.width == output::info.width,
      "repeat<N, L>: L takes the number of features left of == and outputs the number right of it; "
      "make the two numbers equal, because each copy takes the output of the copy before it");
};

/// Adds a prefix to the parameter names of L. With an empty name the parameters have the names that
/// L declares, without the number that a layer in a sequence has.
///
/// Example (tests/reference/names_in_use_test.cpp named):
///     using in_files =
///         plait::named<"head", plait::nn::linear<16, 4>>;  // "head.weight", "head.bias"
template <ext::name Label, class L>
struct named {
  static_assert((detail::check_is_layer<L>(), true));
  using concept_tag = layer_tag;
  using combination = named;
  using input = detail::input_of<L>;
  using output = detail::output_of<L>;
};

/// Fixes the form of L to `Label`, instead of the form that the planner would choose.
///
/// Example (tests/reference/names_in_use_test.cpp use_form):
///     using every_rank =
///         plait::use_form<"whole", plait::nn::linear<16, 4>>;  // no tensor rank shares it
template <ext::name Label, class L>
struct use_form {
  static_assert((detail::check_is_layer<L>(), true));
  using concept_tag = layer_tag;
  using combination = use_form;
  using input = detail::input_of<L>;
  using output = detail::output_of<L>;
};

/// L with its parameter `Parameter` tied to a parameter of an earlier layer, in the same way as
/// GPT-2 ties its output matrix to the embedding. `Owner` is the full name of the earlier
/// parameter, for example "wte.weight". The two parameters share one value. Each use of the value
/// has its own gradient accumulator, and the accumulators are summed before the reduction over
/// ranks.
template <class L, class Parameter, ext::name Owner>
struct tied {
  static_assert((detail::check_is_layer<L>(), true));
  static_assert(
      !ext::info_of<Parameter>().is_buffer(),
      "tied<L, Parameter, Owner>: Parameter is a buffer, and a buffer cannot be shared by two "
      "layers, because it follows the values of its own layer; tie parameters only");
  using concept_tag = layer_tag;
  using combination = tied;
  using input = detail::input_of<L>;
  using output = detail::output_of<L>;
};

/// Freezes the parameters of L that a pattern matches (requires_grad = False in PyTorch): they are
/// not trained, have no gradient and no optimizer state, and ranks do not communicate for them.
/// Without patterns it freezes all parameters.
///
/// A pattern is the name that a parameter would have in files if L were the whole model. A `*` in a
/// pattern matches any characters: `frozen<body, "wte.*", "h.*.ln_1.*">`. The number of a copy
/// within a repeat must be a `*`, because all copies are frozen together. Either all parameters of
/// a layer are frozen or none.
template <class L, ext::name... Patterns>
struct frozen {
  static_assert((detail::check_is_layer<L>(), true));
  using concept_tag = layer_tag;
  using combination = frozen;
  using input = detail::input_of<L>;
  using output = detail::output_of<L>;
};

/// Before the backward of L, recomputes those values of L that `What` selects:
/// `recomputed<granularity::all, attention>`. This overrides the job's policy for L. The input of L
/// is kept if the recomputation needs it.
template <granularity What, class L>
struct recomputed {
  static_assert((detail::check_is_layer<L>(), true));
  using concept_tag = layer_tag;
  using combination = recomputed;
  using input = detail::input_of<L>;
  using output = detail::output_of<L>;
};

/// Keeps all values of the forward that the backward of L reads, even if the job's policy
/// recomputes such values.
template <class L>
struct kept : recomputed<granularity::nothing, L> {};

/// Multiplies the term that L adds to the loss by `Weight`: `times<fraction(0.5), L>`. L is a loss
/// within a sum_of, or a layer inside the model that adds a term to the loss.
template <ext::nano_fraction Weight, class L>
struct times {
  static_assert((detail::check_is_layer<L>(), true));
  static_assert(Weight.nano != 0,
                "times<Weight, L>: Weight is 0, so that L would not count; leave L out");
  using concept_tag = layer_tag;
  using combination = times;
  using input = detail::input_of<L>;
  using output = detail::output_of<L>;
};

/// The sum of several losses of the same outputs and targets. Each loss is divided by its own count
/// of targets in the whole global batch: `objective<model, sum_of<A, times<fraction(0.5), B>>>`.
///
/// Shapes: all losses take the same features and targets.
/// Cost:   the gradients of the features are added up; the features are not copied.
template <class... Losses>
struct sum_of {
  static_assert(sizeof...(Losses) > 0,
                "sum_of<>: a sum needs at least one loss; write it between the brackets");
  static_assert((detail::check_is_layer<Losses>(), ..., true));
  static_assert((detail::check_terms<Losses...>(), true));
  using concept_tag = layer_tag;
  using combination = sum_of;
  using input = typename std::tuple_element_t<0, std::tuple<Losses...>>::input;
  using output = loss_value;
};

/// A model and the loss layer that compares its outputs with targets.
///
/// Example (tests/reference/names_in_use_test.cpp objective):
///     using objective =
///         plait::objective<net, plait::nn::cross_entropy<2>>;  // a trainer minimises it
template <class Model, class Loss>
struct objective {
  static_assert((detail::check_is_layer<Model>(), detail::check_is_layer<Loss>(), true));
  static_assert(
      !detail::is_loss<Model> || detail::is_loss<Loss>,
      "objective<Model, Loss>: the loss is written first; write the model first, then the loss");
  static_assert(detail::is_loss<Model> || detail::is_loss<Loss>,
                "objective<Model, Loss>: Loss is not a loss; write one with `using output = "
                "plait::loss_value;`, such as nn::cross_entropy<Classes>");
  static_assert(detail::width_made<Model, Loss>() == detail::width_taken<Model, Loss>(),
                "objective<Model, Loss>: Model outputs the number of features left of ==, but Loss "
                "takes the number right of it; make the two numbers equal");
  using concept_tag = layer_tag;
  using combination = objective;
  using model = Model;
  using loss = Loss;
  using input = detail::input_of<Model>;
  using output = loss_value;
};

}  // namespace plait
