"""Architectures of transformers: each asks the device for other operators."""

import pytest
import torch
from device_name import NAME
import transformers as library

WORDS = 64
WIDTH = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
TEXT = {"vocab_size": WORDS, "pad_token_id": 0, **WIDTH}
DECODER = {**TEXT, "intermediate_size": 64, "num_key_value_heads": 2}
SIGHT = {**WIDTH, "intermediate_size": 64, "image_size": 32, "patch_size": 8}
TALL = {
    "d_model": 32,
    **dict.fromkeys(("encoder_layers", "decoder_layers"), 1),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 64),
}
STILL = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)


def text():
    words = torch.randint(3, WORDS - 1, (2, 10))
    return {"input_ids": words, "labels": words}


def picture():
    return {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.tensor([0, 1])}


def picture_and_text():
    words = torch.randint(3, WORDS - 1, (2, 10))
    pixels = picture()["pixel_values"]
    return {"pixel_values": pixels, "input_ids": words, "return_loss": True}


def picture_in_text():
    words = torch.randint(3, WORDS - 1, (2, 22))
    pixels = picture()["pixel_values"]
    words[:, 2:18] = WORDS - 1  # the place of the picture
    return {"pixel_values": pixels, "input_ids": words, "labels": words}


def spectrum():
    return {"input_features": torch.randn(2, 16, 60), "labels": text()["labels"]}


def sound():
    labels = torch.randint(1, 20, (2, 5))
    return {"input_values": torch.randn(2, 2000), "labels": labels}


# The model, its configuration, and what it is given.
ARCHITECTURES = {
    "GPT2LMHeadModel": (TEXT, text),
    "Gemma3ForCausalLM": ({**DECODER, "head_dim": 8, "sliding_window": 8}, text),
    "BloomForCausalLM": ({**TEXT, "n_layer": 2, "n_head": 4}, text),
    "MixtralForCausalLM": ({**DECODER, "num_local_experts": 4}, text),
    "GptOssForCausalLM": ({**DECODER, "head_dim": 8, "num_local_experts": 4}, text),
    "DeepseekV3ForCausalLM": (
        {
            **DECODER,
            "num_key_value_heads": 4,
            "moe_intermediate_size": 32,
            "n_routed_experts": 8,
            "n_group": 2,
            "topk_group": 1,
            "num_experts_per_tok": 2,
            "first_k_dense_replace": 1,
            **dict.fromkeys(("kv_lora_rank", "q_lora_rank", "v_head_dim"), 8),
            "qk_rope_head_dim": 4,
            "qk_nope_head_dim": 8,
        },
        text,
    ),
    "MambaForCausalLM": ({**TEXT, "state_size": 8}, text),
    "T5ForConditionalGeneration": (
        {
            "vocab_size": WORDS,
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 64,
            "num_layers": 2,
            "num_heads": 4,
            "decoder_start_token_id": 0,
        },
        text,
    ),
    "DebertaV2ForMaskedLM": (
        {**TEXT, **STILL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
        text,
    ),
    "LongformerForMaskedLM": ({**TEXT, **STILL, "attention_window": 4}, text),
    "ViTForImageClassification": ({**SIGHT, **STILL}, picture),
    "SwinForImageClassification": (
        {
            "image_size": 32,
            "embed_dim": 16,
            "depths": [1, 1],
            "num_heads": [2, 2],
            "window_size": 4,
        },
        picture,
    ),
    "CLIPModel": (
        {
            "text_config": {**TEXT, "intermediate_size": 64},
            "vision_config": SIGHT,
            "projection_dim": 16,
        },
        picture_and_text,
    ),
    "LlavaForConditionalGeneration": (
        {
            "text_config": {"model_type": "llama", **DECODER},
            "vision_config": {"model_type": "clip_vision_model", **SIGHT},
            "image_token_index": WORDS - 1,
            "vision_feature_layer": -1,
        },
        picture_in_text,
    ),
    "WhisperForConditionalGeneration": (
        {
            "vocab_size": WORDS,
            **TALL,
            "num_mel_bins": 16,
            "max_source_positions": 30,
            **{"pad_token_id": 0, "decoder_start_token_id": 1, "eos_token_id": 2},
        },
        spectrum,
    ),
    "Wav2Vec2ForCTC": (
        {
            **WIDTH,
            "vocab_size": 20,
            "conv_dim": (16, 16),
            "conv_stride": (4, 4),
            "conv_kernel": (8, 8),
            "num_conv_pos_embeddings": 8,
            "num_conv_pos_embedding_groups": 4,
        },
        sound,
    ),
}


def run(name, device):
    """The loss, the outputs and the gradients."""
    options, make_batch = ARCHITECTURES[name]
    kind = getattr(library, name)
    torch.manual_seed(0)
    model = kind(kind.config_class(**options)).eval().to(device)
    torch.manual_seed(1)
    batch = {
        key: value.to(device) if torch.is_tensor(value) else value
        for key, value in make_batch().items()
    }
    output = model(**batch)
    output.loss.backward()
    found = [value for value in output.to_tuple() if torch.is_tensor(value)]
    found += [p.grad for p in model.parameters() if p.grad is not None]
    return [value.detach().cpu() for value in found]


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_architecture_computes_what_it_computes_on_the_cpu(name):
    there, here = run(name, "cpu"), run(name, NAME)
    assert len(there) > 15
    assert there[0].isfinite()
    for one, other in zip(there, here, strict=True):
        assert torch.equal(one, other)
