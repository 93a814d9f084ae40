/** The lens on screen, for the share menu. */

import { useSignalEffect } from "@preact/signals";
import { PAPER, SANS, toPng, toSvg } from "../../core/figure";
import type { LensController } from "./lens-controller";
import { rangeWords } from "./shade-range";
import { lensFigure, tableOf } from "./picture";

export function useExports(controller: LensController): void {
  const { props } = controller;
  useSignalEffect(() => {
    const lens = controller.lens.value;
    if (!lens) return props.exports(null);
    const { model, text_hash } = props.session;
    const { measure } = controller.state.peek(), shade = lens.columns === "text" || measure === "probability" ? `probability, ${rangeWords(controller.range.peek()).join(" to ")}` : measure;
    const source = `${model.name} · ${model.revision} · ${model.dtype} · text ${text_hash} · logit lens, shade: ${shade}`;
    props.exports({
      name: `lens-${lens.stream}`,
      finding: () => controller.finding(lens),
      png: () => toPng(lensFigure(controller, lens, source), PAPER, SANS),
      svg: () => toSvg(lensFigure(controller, lens, source), PAPER, SANS),
      table: () => tableOf(controller, lens),
    });
    return () => props.exports(null);
  });
}
