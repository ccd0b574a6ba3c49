"""The Trainer of transformers in fp16 on the GPU that it finds."""

import sys
import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification
from transformers import Trainer, TrainingArguments

SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 2, "vocab_size": 40, "num_labels": 3}


def train(**options):
    torch.manual_seed(0)
    model = BertForSequenceClassification(
        BertConfig(
            **SIZES,
            **HEADS,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )
    texts = torch.randint(40, (24, 9))
    data = [{"input_ids": t, "labels": t[0] % 3} for t in texts]
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=4,
        max_steps=6,
        logging_steps=1,
        learning_rate=1e-2,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        **options,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=data)
    trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    return losses, trainer


losses, trainer = train(fp16=True)
assert trainer.args.device.type == "cuda" and next(trainer.model.parameters()).is_cuda
expected, _ = train(use_cpu=True)
assert torch.allclose(torch.tensor(losses), torch.tensor(expected), atol=0.05), (
    losses,
    expected,
)
print(losses[-1], file=sys.stderr)
