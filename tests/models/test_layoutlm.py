"""LayoutLM: 2-D position embeddings of bounding boxes, and validation of boxes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.errors import ConfigError, DataError
from glassformer.model import Model
from glassformer.models import FAMILIES

IDS = torch.tensor([[5, 17, 42, 3]])
BOXES = torch.tensor([[[0, 0, 0, 0], [10, 5, 20, 9], [22, 5, 31, 9], [63, 63, 63, 63]]])


def model_of(**changes: Any) -> Any:
    torch.manual_seed(0)
    return Model.from_config({**FAMILIES["layoutlm"].tiny, **changes}).eval()


def states(model: Any, **fields: Any) -> Tensor:
    with torch.no_grad():
        hidden: Tensor = model(IDS, **fields).last_hidden_state
    return hidden


def test_without_boxes_all_words_stand_in_the_first_corner() -> None:
    model = model_of()
    assert torch.equal(states(model), states(model, bbox=torch.zeros(1, 4, 4, dtype=torch.int64)))
    assert not torch.allclose(states(model), states(model, bbox=BOXES), atol=1e-4)


def test_a_box_is_six_rows_of_four_tables() -> None:
    page: Any = model_of().network.page
    x, y, h, w = (table.weight for table in (page.x, page.y, page.h, page.w))
    expected = x[10] + y[5] + x[20] + y[9] + h[4] + w[10]
    torch.testing.assert_close(page(BOXES)[0, 1], expected)


@pytest.mark.parametrize("coordinate", range(4))
def test_each_edge_counts(coordinate: int) -> None:
    model, moved = model_of(), BOXES.clone()
    moved[0, 1, coordinate] += 1
    assert not torch.allclose(states(model, bbox=moved), states(model, bbox=BOXES), atol=1e-4)


def test_the_narrower_of_two_whole_numbers_will_do() -> None:
    model = model_of()
    assert torch.equal(states(model, bbox=BOXES.int()), states(model, bbox=BOXES))


@pytest.mark.parametrize(
    ("boxes", "says"),
    [
        (
            BOXES.float(),
            r"bbox is float32 of shape \[1, 4, 4\]; it must be whole numbers of shape \[1, 4, 4\]",
        ),
        (BOXES[:, :3], r"of shape \[1, 3, 4\]; it must be whole numbers of shape \[1, 4, 4\]"),
        (BOXES[..., :2], r"of shape \[1, 4, 2\]"),
        (BOXES[0], r"of shape \[4, 4\]"),
        (
            BOXES + 1,
            r"from 1 to 64; allowed: 0 to 63 \(config.json: max_2d_position_embeddings\); give thousandths",
        ),
        (BOXES - 1, r"from -1 to 62; allowed: 0 to 63"),
        (BOXES[..., [2, 1, 0, 3]], r"bbox holds \[20, 5, 10, 9\], which ends before it begins"),
        (BOXES[..., [0, 3, 2, 1]], r"bbox holds \[10, 9, 20, 5\], which ends before it begins"),
    ],
)
def test_what_is_no_box_is_refused(boxes: Tensor, says: str) -> None:
    with pytest.raises(DataError, match=says):
        model_of()(IDS, bbox=boxes)


def test_other_families_take_no_boxes() -> None:
    bert = Model.from_config(FAMILIES["bert"].tiny)
    with pytest.raises(ConfigError, match="takes no bbox"):
        bert(IDS, bbox=BOXES)


def test_a_page_has_a_thousand_steps_unless_the_config_says_otherwise() -> None:
    tiny = {key: x for key, x in FAMILIES["layoutlm"].tiny.items() if key != "max_2d_position_embeddings"}
    model: Any = Model.from_config(tiny)
    assert model.network.page.coordinates == 1024
    with pytest.raises(ConfigError, match="max_2d_position_embeddings is 0"):
        model_of(max_2d_position_embeddings=0)


def test_the_classifier_drops_as_much_as_the_body() -> None:
    """The reference reads no `classifier_dropout`."""
    tiny = {**FAMILIES["layoutlm"].tiny, "hidden_dropout_prob": 0.2, "classifier_dropout": 0.4}
    model: Any = Model.from_config(tiny, task="token-classification")
    assert model.network.head.dropout.p == 0.2
