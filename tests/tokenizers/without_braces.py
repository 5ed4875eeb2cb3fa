"""A vocabulary without byte pieces and the characters that T5's lacks (braces, "<" and others)."""

from sentencepiece import sentencepiece_model_pb2

from faith_jax.tokenizers.vocabularies import load_vocabulary

LACKING = "{}<~\\^`"
T5 = {
    "vocab_size": 4224,
    "emb_dim": 16,
    "num_heads": 2,
    "head_dim": 8,
    "mlp_dim": 32,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
}


def write(folder, lacking=LACKING):
    """Writes spiece.model: the embedded vocabulary without some characters, with the same ids."""
    model = sentencepiece_model_pb2.ModelProto()
    with open(load_vocabulary().model_file, "rb") as file:
        model.ParseFromString(file.read())
    model.trainer_spec.byte_fallback = False
    kinds = type(model).SentencePiece
    for number, piece in enumerate(model.pieces):
        is_lacking = piece.type == kinds.NORMAL and set(piece.piece) & set(lacking)
        if piece.type == kinds.BYTE or is_lacking:
            piece.piece, piece.type = f"\ue100{number}", kinds.UNUSED
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spiece.model").write_bytes(model.SerializeToString())
    return folder
