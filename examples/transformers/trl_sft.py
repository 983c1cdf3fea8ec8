"""``trainer.py`` with TRL's ``SFTTrainer``: fine-tuning on text, with a second corpus as the auxiliary loss.

    pip install trl
    python examples/transformers/trl_sft.py

``SurgeryMixin`` turns any subclass of ``Trainer`` into one that takes ``aux_dataset`` and ``method``. ``SFTTrainer``
tokenises ``train_dataset`` only, so tokenise ``aux_dataset`` first.
"""

import random
import tempfile

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, set_seed
from trl import SFTConfig, SFTTrainer

import gradsurgery as gs
from gradsurgery.transformers import SurgeryMixin

NUMBERS, LENGTH = 16, 12


class SurgerySFTTrainer(SurgeryMixin, SFTTrainer):
    """``SFTTrainer`` that trains on a main and an auxiliary loss by gradient surgery."""


def counting(size: int, *steps: int) -> Dataset:
    """Lines such as "3 5 7 9" that count from a random number by one of the steps, modulo 16."""
    pairs = [(random.randrange(NUMBERS), random.choice(steps)) for _ in range(size)]
    return Dataset.from_dict(
        {"text": [" ".join(str((start + step * i) % NUMBERS) for i in range(LENGTH)) for start, step in pairs]}
    )


set_seed(0)
word_level = Tokenizer(models.WordLevel({**{str(n): n for n in range(NUMBERS)}, "<end>": NUMBERS}, unk_token="<end>"))
word_level.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=word_level, eos_token="<end>", pad_token="<end>")
config = GPT2Config(
    vocab_size=NUMBERS + 1, n_positions=LENGTH + 1, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=NUMBERS
)
trainer = SurgerySFTTrainer(
    model=GPT2LMHeadModel(config),
    args=SFTConfig(
        output_dir=tempfile.mkdtemp(),
        max_steps=150,
        per_device_train_batch_size=32,
        learning_rate=3e-3,
        logging_steps=50,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        bf16=False,
        dataloader_pin_memory=False,
    ),
    processing_class=tokenizer,
    train_dataset=counting(2000, 1, 2),
    aux_dataset=counting(50, 3).map(lambda row: tokenizer(row["text"] + "<end>"), remove_columns="text"),
    method=gs.bloop(lam=0.3, rho=0.05),
    eval_dataset={"main": counting(200, 1, 2), "aux": counting(200, 3)},
)
trainer.train()
metrics = trainer.evaluate()
print(f"main {metrics['eval_main_loss']:.3f}, aux {metrics['eval_aux_loss']:.3f}")
