"""A real cross-encoder, but a tiny one with random weights: no wheel on PyPI carries a trained one.

Its scores mean nothing; that they are the model's own, and what is done with them, can be tested all the same.
"""

from __future__ import annotations

from pathlib import Path

from tests.retrieve.corpora import WORDS


def tiny_cross_encoder(folder: Path, labels: int = 1, seed: int = 0) -> Path:
    """BERT with two layers and a vocabulary of the made-up corpora's words, saved as sentence-transformers reads it."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", words.index("[CLS]")), ("[SEP]", words.index("[SEP]"))],
    )
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    folder.mkdir(parents=True)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **names).save_pretrained(folder)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        num_labels=labels,
        initializer_range=0.3,  # scores far enough apart to tell
    )
    BertForSequenceClassification(config).eval().save_pretrained(folder)
    return folder
