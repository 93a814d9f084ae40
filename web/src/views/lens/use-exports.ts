/** The lens on screen, for the share menu. */

import { useSignalEffect } from "@preact/signals";
import type { LensController } from "./lens-controller";
import { lensPicture, toPng, toSvg } from "./picture";

export function useExports(controller: LensController): void {
  const { props } = controller;
  useSignalEffect(() => {
    const lens = controller.lens.value;
    if (!lens) return props.exports(null);
    const { model, text_hash } = props.session;
    const source = `${model.name} · ${model.revision} · ${model.dtype} · text ${text_hash} · logit lens, shade: ${controller.state.peek().measure}`;
    props.exports({
      name: `lens-${lens.stream}`,
      finding: () => controller.finding(),
      png: () => toPng(lensPicture(controller, lens), source),
      svg: () => toSvg(lensPicture(controller, lens), source),
      table: () => lensPicture(controller, lens).table,
    });
    return () => props.exports(null);
  });
}
