"""The tokenizer of the packaged model as the `tokenizers` package has it."""

from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import BertProcessing

from hivemem_vectors.embedders.offline.word_pieces import TOKENS_PER_TEXT, VOCABULARY


def reference_tokenizer() -> Any:  # whose options have no types
    pieces = {piece: at for at, piece in enumerate(VOCABULARY.read_text(encoding="utf-8").splitlines())}
    tokenizer: Any = Tokenizer(WordPiece(pieces, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = BertProcessing(("[SEP]", pieces["[SEP]"]), ("[CLS]", pieces["[CLS]"]))
    tokenizer.enable_truncation(TOKENS_PER_TEXT)
    tokenizer.enable_padding(pad_id=pieces["[PAD]"], pad_token="[PAD]")
    return tokenizer
