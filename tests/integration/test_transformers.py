"""transformers: a small decoder and a small encoder, trained and asked."""

import json

import pytest
import torch
from device_name import NAME, m
import transformers
from torch import nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
)

from torch_openreg import sanitizer
from torch_openreg.contrib import transformers as contrib
from torch_openreg.contrib.accelerate import max_memory

# The library itself knows CUDA.
ADAPTED = transformers if NAME == "cuda" else contrib
WORDS = 64
SIZES = {
    "vocab_size": WORDS,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}


def make_decoder(attention="sdpa", dropout=0.0):
    torch.manual_seed(0)
    config = LlamaConfig(
        **SIZES, num_key_value_heads=2, attention_dropout=dropout, pad_token_id=0
    )
    config._attn_implementation = attention
    return LlamaForCausalLM(config)


def make_encoder(attention="sdpa", dropout=0.0):
    torch.manual_seed(0)
    config = BertConfig(
        **SIZES,
        num_labels=3,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    config._attn_implementation = attention
    return BertForSequenceClassification(config)


def make_texts(length=12):
    """What a decoder learns from: a text and itself."""
    texts = torch.randint(3, WORDS, (24, length))
    return [{"input_ids": text, "labels": text} for text in texts]


def make_classes():
    """What an encoder learns from: texts of several lengths, and a class."""
    examples = []
    for index in range(24):
        mask = (torch.arange(12) < 4 + index % 9).long()
        text = torch.randint(3, WORDS, (12,)) * mask
        example = {"input_ids": text, "attention_mask": mask}
        examples.append({**example, "labels": text[0] % 3})
    return examples


KINDS = {"decoder": (make_decoder, make_texts), "encoder": (make_encoder, make_classes)}


@pytest.fixture
def make_trainer(tmp_path):
    def make(device, kind="decoder", model=None, library=ADAPTED, **options):
        arguments = library.TrainingArguments(
            tmp_path / device,
            **{"max_steps": 6, "save_strategy": "no", **options},
            use_cpu=device == "cpu",
            per_device_train_batch_size=4,
            learning_rate=1e-3,
            logging_steps=1,
            report_to="none",
            disable_tqdm=True,
        )
        arguments._n_gpu = min(arguments.n_gpu, 1)  # else it takes all of CUDA's
        make_model, make_examples = KINDS[kind]
        model = model or make_model()
        torch.manual_seed(1)
        examples = make_examples()
        trainer = library.Trainer(model, arguments, train_dataset=examples[:16])
        trainer.eval_dataset = examples[16:]
        return trainer

    return make


@pytest.fixture
def train(make_trainer):
    """Trains for some steps and returns the Trainer."""

    def run(device, kind="decoder", resume=None, **options):
        trainer = make_trainer(device, kind, **options)
        trainer.train(resume_from_checkpoint=resume)
        assert trainer.model.device.type == device
        return trainer

    return run


def history(trainer):
    rows = [row for row in trainer.state.log_history if "loss" in row]
    return [(row["step"], row["loss"], row["grad_norm"]) for row in rows]


# --- training -----------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_training_gives_the_losses_of_the_cpu(kind, train):
    there, here = train("cpu", kind), train(NAME, kind)
    assert here.args.device.type == NAME
    assert len(history(here)) == 6
    assert history(here) == history(there)
    assert here.evaluate()["eval_loss"] == there.evaluate()["eval_loss"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_sanitizer_finds_nothing_in_training(kind, train):
    with sanitizer.check("race,memory,init"):
        train(NAME, kind, bf16=True)


def test_predictions_are_those_of_the_cpu(train):
    there, here = train("cpu", "encoder"), train(NAME, "encoder")
    expected = there.predict(there.eval_dataset)
    found = here.predict(here.eval_dataset)
    assert (found.predictions == expected.predictions).all()
    assert found.metrics["test_loss"] == expected.metrics["test_loss"]


def test_gradients_accumulate_and_layers_are_recomputed(train):
    options = {"gradient_accumulation_steps": 2, "gradient_checkpointing": True}
    there, here = train("cpu", **options), train(NAME, **options)
    assert history(here) == history(there)


def test_variables_put_a_trainer_on_the_device(train, on_openreg, monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    plain = train(NAME, library=transformers)
    assert history(plain) == history(train(NAME, bf16=True))


def by_hand(model, examples, dtype, steps):
    """The Trainer's losses without it: what `torch.amp` gives."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0, fused=True)
    scaler = torch.amp.GradScaler(NAME, enabled=dtype == torch.float16)
    losses = []
    for step, batch in zip(range(steps), examples, strict=False):
        optimizer.param_groups[0]["lr"] = 1e-3 * (1 - step / steps)
        with torch.autocast(NAME, dtype):
            loss = model(**batch).loss
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    "option, dtype", [("bf16", torch.bfloat16), ("fp16", torch.float16)]
)
def test_mixed_precision_is_that_of_torch(option, dtype, make_trainer):
    trainer = make_trainer(NAME, max_steps=4, **{option: True})
    batches = list(trainer.get_train_dataloader())
    expected = by_hand(make_decoder().to(NAME), batches, dtype, 4)

    trainer.get_train_dataloader = lambda: batches
    trainer.train()
    assert [loss for _, loss, _ in history(trainer)] == expected
    assert trainer.model.dtype == torch.float32


def test_on_the_cpu_the_adapter_changes_nothing(train):
    there = train("cpu", library=transformers, fp16=True)
    here = train("cpu", fp16=True)
    assert here.accelerator.scaler is None
    assert history(here) == history(there)


def test_training_of_a_bf16_model_gives_the_losses_of_the_cpu(train):
    there = train("cpu", model=make_decoder().bfloat16())
    here = train(NAME, model=make_decoder().bfloat16())
    assert history(here) == history(there)


def test_training_goes_on_from_a_checkpoint(train, tmp_path):
    options = {"save_strategy": "steps", "save_steps": 3}
    expected = train(NAME, model=make_decoder(dropout=0.3), **options)
    m.manual_seed_all(5)
    again = train(
        NAME,
        model=make_decoder(dropout=0.3),
        resume=tmp_path / NAME / "checkpoint-3",
        **options,
    )
    assert history(again) == history(expected)
    assert len(history(expected)) == 6
    for name, value in again.model.state_dict().items():
        assert torch.equal(value, expected.model.state_dict()[name]), name


def test_a_checkpoint_of_the_cpu_goes_on_on_the_device(train, tmp_path):
    options = {"save_strategy": "steps", "save_steps": 3}
    expected = train("cpu", **options)
    again = train(NAME, resume=tmp_path / "cpu" / "checkpoint-3", **options)
    assert history(again) == history(expected)


# --- generation ---------------------------------------------------------------

WAYS = {
    "greedy": {},
    "without a cache": {"use_cache": False},
    # On CUDA the library would compile it, and the scores round otherwise.
    "with a static cache": {"cache_implementation": "static", "disable_compile": True},
    "sampled": {"do_sample": True, "top_k": 10, "temperature": 0.9},
    "sampled by top_p": {"do_sample": True, "top_p": 0.8},
    "beams": {"num_beams": 3},
    "sampled beams": {"num_beams": 2, "do_sample": True},
    "no repetition": {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2},
}


def generate(device, attention, **options):
    model = make_decoder(attention).eval().to(device)
    texts = torch.randint(3, WORDS, (3, 6))
    texts[0, :2] = 0  # padded on the left
    torch.manual_seed(2)
    return model.generate(
        texts.to(device),
        attention_mask=(texts != 0).long().to(device),
        max_new_tokens=10,
        return_dict_in_generate=True,
        output_scores=True,
        **{"do_sample": False, **options},
    )


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("way", WAYS)
def test_generation_gives_what_the_cpu_gives(way, attention):
    expected = generate("cpu", attention, **WAYS[way])
    found = generate(NAME, attention, **WAYS[way])
    assert found.sequences.device.type == NAME
    assert found.sequences.shape == (3, 16)
    assert torch.equal(found.sequences.cpu(), expected.sequences)
    for here, there in zip(found.scores, expected.scores, strict=True):
        assert torch.equal(here.cpu(), there)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", KINDS)
def test_forward_and_backward_in_half_precision(kind, attention, dtype):
    make_model, make_examples = KINDS[kind]
    batch = torch.utils.data.default_collate(make_examples()[:4])
    results = []
    for device in ("cpu", NAME):
        model = make_model(attention).to(device, dtype)
        output = model(**{name: value.to(device) for name, value in batch.items()})
        output.loss.backward()
        gradients = [p.grad.cpu() for p in model.parameters() if p.grad is not None]
        results.append([output.loss.cpu(), output.logits.cpu(), *gradients])
    assert len(results[0]) > 10
    for there, here in zip(*results, strict=True):
        assert torch.equal(here, there)


# --- where a model lies -------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    """A model, and the folder that it was saved to."""
    model = make_decoder().eval()
    model.save_pretrained(tmp_path / "model")
    return model, tmp_path / "model"


def expect_the_same(model, original):
    text = torch.arange(3, 13)[None]
    with torch.no_grad():
        assert torch.equal(
            model(text.to(model.device)).logits.cpu(), original(text).logits
        )


@pytest.mark.parametrize("place", [NAME, f"{NAME}:1", {"": 1}])
def test_a_model_is_loaded_onto_a_device(place, saved):
    original, folder = saved
    model = LlamaForCausalLM.from_pretrained(folder, device_map=place)
    index = 0 if place == NAME else 1
    places = {p.device for p in model.parameters()}
    assert places == {torch.device(NAME, index)}
    expect_the_same(model, original)


def test_a_model_is_loaded_onto_two_devices(saved):
    original, folder = saved
    places = {
        "model.embed_tokens": 0,
        "model.rotary_emb": 0,
        "model.layers.0": 0,
        "model.layers.1": 1,
        "model.norm": 1,
        "lm_head": 1,
    }
    model = LlamaForCausalLM.from_pretrained(folder, device_map=places)
    expect_the_same(model, original)
    text = torch.arange(3, 13)[None]
    found = model.generate(text.to(f"{NAME}:0"), max_new_tokens=5, do_sample=False)
    expected = original.generate(text, max_new_tokens=5, do_sample=False)
    assert torch.equal(found.cpu(), expected)


def test_a_model_is_spread_by_the_memory_there_is(saved):
    original, folder = saved
    size = sum(p.nbytes for p in original.parameters())
    room = {0: size // 2, 1: size // 2, "cpu": size}
    model = LlamaForCausalLM.from_pretrained(folder, device_map="auto", max_memory=room)
    assert {0, 1} <= set(model.hf_device_map.values())
    expect_the_same(model, original)


def test_a_model_for_which_there_is_room_lies_on_one_device(saved):
    original, folder = saved
    model = LlamaForCausalLM.from_pretrained(
        folder,
        device_map="sequential",
        max_memory=None if NAME == "cuda" else max_memory(),
    )
    assert {p.device for p in model.parameters()} == {torch.device(f"{NAME}:0")}
    expect_the_same(model, original)


def test_a_model_saved_from_the_device_is_that_of_the_cpu(saved, tmp_path):
    original, folder = saved
    original.to(NAME).save_pretrained(tmp_path / "device")
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    for path in (tmp_path / "device").iterdir():
        assert hash(files.pop(path.name)) == hash(path.read_bytes()), path.name
    assert files == {}
    config = json.loads((tmp_path / "device" / "config.json").read_text())
    assert config["hidden_size"] == 32
