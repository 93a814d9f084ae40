/** The decoder's heads of cross-attention: those that align are marked, and one of them, or their mean, is shown. */

import { clock } from "../../core/format";
import { Icon } from "../../ui/icons";
import type { Inside, Player } from "./player";
import type { Transcript } from "./transcript";

type HeadTable = NonNullable<Transcript["heads"]>;

export const headName = ([layer, head]: [number, number]) => `layer ${layer}, head ${head}`;

export function Heads({ player, heads }: { player: Player; heads: HeadTable }) {
  const { pairs, layers, published } = heads;
  const held = player.transcript.attention[0]?.heads.length ?? 0;
  const chosen = player.head.value;
  return (
    <>
      <div class="sound-head"><h2 id="sound-heads">Alignment heads</h2></div>
      <p class="hint">
        {pairs.length} of {layers * heads.heads} heads of cross-attention {pairs.length === 1 ? "looks" : "look"} at the sound of the next word; word times are the path through their mean.
        {published ? " The model names them." : " They were found on this recording."}
      </p>
      <div class="sound-aligned">
        <div class="sound-scroll" tabIndex={0} role="region" aria-label="Grid of heads">
          <table class="sound-grid">
            <caption class="unseen">Heads of the decoder's cross-attention by layer; alignment heads are buttons</caption>
            <thead><tr><td />{range(heads.heads).map((head) => <th key={head} scope="col">{head}</th>)}</tr></thead>
            <tbody>
              {range(layers).map((layer) => (
                <tr key={layer}>
                  <th scope="row">{layer}</th>
                  {range(heads.heads).map((head) => {
                    const at = pairs.findIndex((pair) => pair[0] === layer && pair[1] === head) + 1;
                    const name = headName([layer, head]);
                    return (
                      <td key={head}>
                        {at > 0
                          ? <button aria-pressed={chosen === at} disabled={at >= held} aria-label={`Alignment head: ${name}`} title={name} onClick={() => (player.head.value = chosen === at ? 0 : at)}>✓</button>
                          : <span title={`${name}: does not align`} />}
                      </td>
                    );
                  })}
                </tr>
              ))}
            </tbody>
          </table>
          <button class="sound-mean" aria-pressed={chosen === 0} onClick={() => (player.head.value = 0)}>Mean of all {pairs.length}</button>
        </div>
        {held === 1 && <p class="hint">Of long recordings the page holds the mean alone.</p>}
        {held > 1 && <Hearing player={player} pairs={pairs} />}
      </div>
    </>
  );
}

/** When each head's own path reaches the chosen word. */
function Hearing({ player, pairs }: { player: Player; pairs: [number, number][] }) {
  const word = player.word.value;
  const place = word === null ? null : placeOf(player, word);
  if (word === null || place === null) return <p class="hint">Choose a word to see where each head hears it begin.</p>;
  const { paths, piece } = place;
  const mean = paths[0][piece];
  const { inside } = player;
  const cell = player.cell.value;
  return (
    <table class="sound-table sound-hearing">
      <caption>Where each head hears “{player.transcript.words[word].word.trim()}” begin</caption>
      <thead><tr><th scope="col">head</th><th scope="col">begins</th><th scope="col">from the mean</th>{inside && <th scope="col"><span class="unseen">look inside</span></th>}</tr></thead>
      <tbody>
        <tr data-chosen={player.head.value === 0 ? "" : undefined}><th scope="row">mean</th><td>{clock(mean)}</td><td>–</td>{inside && <td />}</tr>
        {pairs.map((pair, at) => (
          <tr key={at} data-chosen={player.head.value === at + 1 ? "" : undefined}>
            <th scope="row">{headName(pair)}</th><td>{clock(paths[at + 1][piece])}</td><td>{signed(paths[at + 1][piece] - mean)}</td>
            {inside && <td><Arithmetic inside={inside} pair={at} name={headName(pair)} row={piece} time={cell?.row === piece ? cell.time : null} /></td>}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The way to the numbers behind a cell: of a time, or of where the head hears the word. */
export function Arithmetic({ inside, pair, name, row, time, named = false }: { inside: Inside; pair: number; name: string; row: number; time: number | null; named?: boolean }) {
  return (
    <button class="sound-inside" disabled={inside.busy.value} aria-label={`Arithmetic of ${name}`} title="Query, keys, scores and shares, number by number" onClick={() => inside.open(pair, row, time)}>
      Arithmetic{named && ` of ${name}`} <Icon name="next" />
    </button>
  );
}

function placeOf(player: Player, word: number) {
  for (const { words, paths } of player.transcript.attention) {
    const piece = words.indexOf(word);
    if (piece >= 0) return { paths, piece };
  }
  return null;
}

const signed = (seconds: number) => `${seconds < -0.005 ? "−" : seconds > 0.005 ? "+" : "±"}${Math.abs(seconds).toFixed(2)} s`;
const range = (count: number) => Array.from({ length: count }, (_, at) => at);
