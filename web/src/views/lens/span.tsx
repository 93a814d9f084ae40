/** Start and end of an answer: the probability of each token, up and down, as the head gives them after one layer. */

import { number, percent, visible } from "../../core/format";
import type { Lens } from "../../core/readings";
import type { LensController } from "./lens-controller";

const WIDTH = 720;
const HALF = 60;

export function Span({ controller, lens }: { controller: LensController; lens: Lens }) {
  const row = controller.cell.value?.[0] ?? lens.rows.length - 1;
  const tokens = controller.props.session.streams[lens.stream];
  const { shares, best } = controller.span(lens, row);
  const most = Math.max(...shares.map((values) => Math.max(...values)), 1e-9);
  const step = WIDTH / tokens.length;
  return (
    <figure class="lens-span">
      <figcaption>Where the answer starts (up) and ends (down), {lens.rows[row]}: likeliest start <b class="token">{visible(tokens[best[0]].text)}</b> {percent(shares[0][best[0]])}, likeliest end <b class="token">{visible(tokens[best[1]].text)}</b> {percent(shares[1][best[1]])}</figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${2 * HALF + 24}`} role="img" aria-label={`Start most at ${tokens[best[0]].text}, ${number(shares[0][best[0]])}; end most at ${tokens[best[1]].text}, ${number(shares[1][best[1]])}`}>
        {tokens.map((token, at) => (
          <g key={at}>
            <title>{`${at} ${visible(token.text)}: start ${number(shares[0][at])}, end ${number(shares[1][at])}`}</title>
            <rect x={at * step} y="0" width={step} height={2 * HALF} fill="transparent" />
            <rect class="lens-start" x={at * step + step * 0.12} width={step * 0.76} y={HALF - (HALF * shares[0][at]) / most} height={(HALF * shares[0][at]) / most} />
            <rect class="lens-end" x={at * step + step * 0.12} width={step * 0.76} y={HALF + 1} height={(HALF * shares[1][at]) / most} />
            {(step > 34 || best.includes(at)) && <text x={(at + 0.5) * step} y={2 * HALF + 18} text-anchor="middle">{visible(token.text).slice(0, 12)}</text>}
          </g>
        ))}
        <line x1="0" x2={WIDTH} y1={HALF} y2={HALF} />
      </svg>
    </figure>
  );
}
