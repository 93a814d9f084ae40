"""A small run that draws on all a checkpoint has to keep: dropout, AdamW, clipping, a schedule, random examples."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from torch import nn

from glassformer.data.order import ShuffledOrder, example_generator
from glassformer.files.lock import FolderLock
from glassformer.training.run_folder import Checkpoints
from glassformer.training.state import (
    capture_rng,
    optimiser_tensors,
    read_state,
    restore_optimiser,
    restore_rng,
    seed_all,
    write_state,
)
from glassformer.weights.write import write_checkpoint

STEPS, BATCH, EXAMPLES, EVERY = 24, 4, 20, 3


class SmallRun:
    """Learns noisy copies of vectors; `forget` leaves something out of its saves, to see that this is noticed."""

    def __init__(self, folder: Path, forget: str = "") -> None:
        self.folder, self.forget = folder, forget
        seed_all(7)
        self.network = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 8))
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=1e-2)
        self.saves = Checkpoints(folder / "checkpoints")
        self.data = torch.from_numpy(np.random.default_rng(0).normal(size=(EXAMPLES, 8)).astype(np.float32))
        self.order = ShuffledOrder(EXAMPLES, seed=7)
        self.step = 0

    def train(self) -> None:
        with FolderLock(self.folder / "lock", wait=5):
            self.resume()
            while self.step < STEPS:
                self.train_step()
                if self.step % EVERY == 0:
                    self.saves.save(self.step, self.write, about={})
            write_checkpoint(self.folder / "final", self.network.state_dict())

    def train_step(self) -> None:
        epoch, place = divmod(self.step * BATCH, EXAMPLES)
        indices = self.order.at(epoch, range(place, place + BATCH))
        noise = np.stack([example_generator(7, epoch, int(index)).normal(size=8) for index in indices])
        target = self.data[torch.from_numpy(indices)]
        for group in self.optimizer.param_groups:
            group["lr"] = 1e-2 * (1 + math.cos(math.pi * self.step / STEPS)) / 2
        loss = (self.network(target + torch.from_numpy(noise).float()) - target).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), 0.5)
        self.optimizer.step()
        self.step += 1

    def write(self, folder: Path) -> None:
        write_checkpoint(folder, self.network.state_dict())
        tensors, values = optimiser_tensors(self.optimizer, self.network.named_parameters())
        write_state(folder, tensors, {"optimiser": values, "step": self.step})
        write_state(folder, capture_rng(), {}, name="random")

    def resume(self) -> None:
        found = self.saves.latest()
        if found is None:
            return
        from safetensors.torch import load_file

        self.network.load_state_dict(load_file(found.folder / "model.safetensors"))
        tensors, values = read_state(found.folder)
        if self.forget != "optimiser":
            restore_optimiser(self.optimizer, self.network.named_parameters(), tensors, values["optimiser"])
        if self.forget != "random":
            restore_rng(read_state(found.folder, name="random")[0])
        self.step = values["step"]


def train(folder: Path) -> None:
    SmallRun(folder).train()
