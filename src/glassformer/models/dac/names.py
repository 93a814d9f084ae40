"""DAC's weight names: of files in the Hugging Face layout, and of the original `.pth` files."""

from __future__ import annotations

from glassformer.weights.name_table import NameTable

UNIT = [f"unit{n}.{part}" for n in (1, 2, 3) for part in ("snake1", "conv1", "snake2", "conv2")]
"""The parts of a block's residual units."""

NAMES = NameTable(
    """
    {side}.first                            {side}.conv1
    {side}.blocks.{i}.snake                 {side}.block.{i}.snake1
    encoder.blocks.{i}.conv                 encoder.block.{i}.conv1
    decoder.blocks.{i}.conv                 decoder.block.{i}.conv_t1
    {side}.snake                            {side}.snake1
    {side}.last                             {side}.conv2
    quantizer.books.{i}.in_proj             quantizer.quantizers.{i}.in_proj
    quantizer.books.{i}.out_proj            quantizer.quantizers.{i}.out_proj
    quantizer.books.{i}.codebook            quantizer.quantizers.{i}.codebook
    """
    + "".join(f"{{side}}.blocks.{{i}}.{part}  {{side}}.block.{{i}}.res_{part}\n" for part in UNIT)
)


def original_names(strides: int) -> str:
    """The original file's names → the Hugging Face layout's, as a table of `foreign/renamed.py`.

    There, all layers are numbered in their order: the first convolution is 0, the blocks begin at 1.
    Args:
        strides: how many blocks each side has
    """
    lines = []
    for theirs, ours in (("encoder.block", "encoder"), ("decoder.model", "decoder")):
        lines += [
            f"{theirs}.0  {ours}.conv1",
            f"{theirs}.{strides + 1}.alpha  {ours}.snake1.alpha",
            f"{theirs}.{strides + 2}  {ours}.conv2",
        ]
        # The encoder's block: units, Snake, convolution; the decoder's: Snake, convolution, units.
        units, snake, conv, layer = (0, 3, 4, "conv1") if ours == "encoder" else (2, 0, 1, "conv_t1")
        for block in range(strides):
            own, new = f"{theirs}.{block + 1}.block", f"{ours}.block.{block}"
            lines += [f"{own}.{snake}.alpha  {new}.snake1.alpha", f"{own}.{conv}  {new}.{layer}"]
            for unit in range(3):
                for at, part in enumerate(("snake1.alpha", "conv1", "snake2.alpha", "conv2")):
                    leaf = ".alpha" if part.endswith("alpha") else ""
                    lines.append(f"{own}.{units + unit}.block.{at}{leaf}  {new}.res_unit{unit + 1}.{part}")
    return "\n".join(lines)
