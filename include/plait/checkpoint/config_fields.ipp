// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/config_fields.hpp"

namespace plait::detail {

PLAIT_DECL char const* config_fields() {
  return R"json({
  "transformers": "5.24.0",
  "defaults": {
    "llama": {
      "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": null, "head_dim": null,
      "hidden_act": "silu", "max_position_embeddings": 2048, "rms_norm_eps": 1e-06,
      "rope_theta": 10000.0, "attention_bias": false, "mlp_bias": false,
      "tie_word_embeddings": false
    },
    "mistral": {
      "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": null,
      "hidden_act": "silu", "max_position_embeddings": 131072, "rms_norm_eps": 1e-06,
      "rope_theta": 10000.0, "sliding_window": 4096, "attention_bias": false, "mlp_bias": false,
      "tie_word_embeddings": false
    },
    "qwen2": {
      "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
      "head_dim": null, "hidden_act": "silu", "max_position_embeddings": 32768,
      "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "use_sliding_window": false,
      "sliding_window": 4096, "max_window_layers": 28, "mlp_bias": false,
      "tie_word_embeddings": false
    },
    "qwen3": {
      "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
      "head_dim": 128, "hidden_act": "silu", "max_position_embeddings": 32768,
      "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "use_sliding_window": false,
      "sliding_window": 4096, "max_window_layers": 28, "attention_bias": false, "mlp_bias": false,
      "tie_word_embeddings": false
    },
    "gemma3_text": {
      "vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
      "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
      "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 131072,
      "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
      "sliding_window": 4096, "sliding_window_pattern": 6, "query_pre_attn_scalar": 256,
      "attn_logit_softcapping": null, "final_logit_softcapping": null,
      "use_bidirectional_attention": false, "attention_bias": false, "mlp_bias": false,
      "tie_word_embeddings": true
    },
    "gpt2": {
      "vocab_size": 50257, "n_embd": 768, "n_inner": null, "n_layer": 12, "n_head": 12,
      "activation_function": "gelu_new",
      "n_positions": 1024, "layer_norm_epsilon": 1e-05,
      "scale_attn_weights": true, "scale_attn_by_inverse_layer_idx": false,
      "add_cross_attention": false, "tie_word_embeddings": true
    }
  },
  "names": {
    "gemma3_text": {"hidden_act": "hidden_activation"},
    "gpt2": {
      "hidden_size": "n_embd", "intermediate_size": "n_inner", "num_hidden_layers": "n_layer",
      "num_attention_heads": "n_head", "hidden_act": "activation_function",
      "max_position_embeddings": "n_positions", "rms_norm_eps": "layer_norm_epsilon"
    }
  },
  "architectures": {
    "llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM", "gemma3_text": "Gemma3ForCausalLM", "gpt2": "GPT2LMHeadModel"
  },
  "accepted": {
    "add_cross_attention": [false], "attn_logit_softcapping": [null],
    "cross_attention_hidden_size": [null], "final_logit_softcapping": [null],
    "is_encoder_decoder": [false], "partial_rotary_factor": [1, null], "pruned_heads": [{}],
    "quantization_config": [null], "rope_interleaved": [false],
    "scale_attn_by_inverse_layer_idx": [false], "scale_attn_weights": [true],
    "tie_encoder_decoder": [false], "use_bidirectional_attention": [false, null],
    "use_mrope": [false]
  },
  "dropout": ["attention_dropout", "attn_pdrop", "embd_pdrop", "hidden_dropout", "resid_pdrop"],
  "harmless": [
    "_attn_implementation", "_attn_implementation_autoset", "_name_or_path", "attn_implementation",
    "bad_words_ids", "begin_suppress_tokens", "bos_token_id", "cache_implementation",
    "chunk_size_feed_forward", "decoder_start_token_id", "diversity_penalty", "do_sample", "dtype",
    "early_stopping", "encoder_no_repeat_ngram_size", "eos_token_id",
    "exponential_decay_length_penalty", "finetuning_task", "forced_bos_token_id",
    "forced_eos_token_id", "gradient_checkpointing", "id2label", "initializer_range", "is_decoder",
    "label2id", "length_penalty", "max_length", "min_length", "n_ctx", "name_or_path",
    "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_labels", "num_return_sequences",
    "output_attentions", "output_hidden_states", "output_scores", "pad_token_id", "prefix",
    "pretraining_tp", "problem_type", "remove_invalid_values", "reorder_and_upcast_attn",
    "repetition_penalty", "return_dict", "return_dict_in_generate", "sep_token_id",
    "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type",
    "summary_use_proj", "suppress_tokens", "task_specific_params", "temperature", "tf_legacy_loss",
    "tokenizer_class", "top_k", "top_p", "torch_dtype", "torchscript", "transformers_version",
    "typical_p", "unk_token_id", "unsloth_fixed", "unsloth_version", "use_bfloat16", "use_cache"
  ]
})json";
}

}  // namespace plait::detail
