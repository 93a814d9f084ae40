/** Where a token's vector begins: its row of the embedding table, as a look-up and as a product with a one-hot row. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { count, number, visible } from "../../core/format";
import { isLookedUp, type Lookup } from "../../core/lookup";
import * as views from "../../core/views";
import { saidInPlace } from "../../core/types";
import { Icon } from "../../ui/icons";
import type { HeadController } from "./head-controller";

export function EmbeddingLookup({ controller }: { controller: HeadController }) {
  const { session, state, transport } = controller.props;
  const open = useSignal(false);
  const lookup = useSignal<Lookup | null>(null);
  const problem = useSignal<string | null>(null);
  const { queries, keys } = controller.map.value;
  const { query, key } = state.value;
  const [stream, token] = query !== null ? [queries, query] : [keys, key];
  const shown = token !== null && isLookedUp(session, stream);
  useEffect(() => {
    const abort = new AbortController();
    [lookup.value, problem.value] = [null, null];
    if (open.value && shown)
      views.lookup(transport, session, stream, token, abort.signal).then(
        (result) => !abort.signal.aborted && (lookup.value = result),
        (error: unknown) => {
          if (abort.signal.aborted) return;
          problem.value = saidInPlace(error, controller.props.refuse);
        },
      );
    return () => abort.abort();
  }, [session, open.value, shown, stream, token]);
  if (!shown) return null;
  return (
    <details class="head-lookup" open={open.value} onToggle={(event) => (open.value = event.currentTarget.open)}>
      <summary>Where its vector begins</summary>
      {problem.value && <p role="alert">{problem.value}</p>}
      {lookup.value && <Card lookup={lookup.value} text={visible(session.streams[stream][token].text)} />}
    </details>
  );
}

function Card({ lookup, text }: { lookup: Lookup; text: string }) {
  const { id, vocabulary, width, rows } = lookup;
  const near = Object.keys(rows).map(Number).sort((a, b) => a - b);
  return (
    <div class="head-lookup-card">
      <p><b class="token">{text}</b> has the number {count(id)}: the look-up takes row {count(id)} of the embedding table W, of {count(vocabulary)} rows and {count(width)} columns.</p>
      <table aria-label={`One-hot row and W, rows ${near[0]} to ${near.at(-1)}`}>
        <thead><tr><th scope="col">row</th><th scope="col">one-hot</th><th scope="col">W</th></tr></thead>
        <tbody>
          {near[0] > 0 && <Gap />}
          {near.map((row) => (
            <tr key={row} class={row === id ? "taken" : ""}>
              <th scope="row">{count(row)}</th><td>{row === id ? 1 : 0}</td><td>{rows[row].map((value) => number(value, 2).padStart(6)).join(" ")} …</td>
            </tr>
          ))}
          {near.at(-1)! < vocabulary - 1 && <Gap />}
        </tbody>
      </table>
      <p class="head-equal"><Verdict holds={lookup.equal} /> embedding({id}) = one-hot · W: {lookup.equal ? `the same bits in all ${count(width)} numbers` : "other bits"}. The product adds zeros to one row.</p>
      <p class="head-equal"><Verdict holds={lookup.equal_gradients} /> Their gradients on W, of ½ Σ x², are {lookup.equal_gradients ? "equal" : "not equal"}: rows that are not looked up get 0.</p>
    </div>
  );
}

const Gap = () => <tr aria-hidden="true"><th>⋮</th><td>0</td><td>⋮</td></tr>;
const Verdict = ({ holds }: { holds: boolean }) => <span class="head-verdict" data-holds={holds ? "" : undefined}><Icon name={holds ? "check" : "close"} /></span>;
