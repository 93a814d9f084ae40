/** The row of data that the text is of: its true label, why the model says another, and the way back to the row. */

import type { Store } from "../core/store";
import type { Session } from "../core/types";

export function Row({ store, session }: { store: Store; session: Session }) {
  const { row: label, reading } = store.state.value;
  if (!label) return null;
  const { row, said, back } = label, wrong = said && said !== label.true && session.views.includes("attribution");
  const why = () => store.set({ view: "attribution", reading: { ...reading, target: said, against: label.true } });
  return (
    <section class="row-label" aria-label="Row">
      {back && <a href={back}>← Back to the row</a>}
      <span>{row}</span>
      {label.true ? <span>true <b>{label.true}</b>{said && <> · predicted <b>{said}</b></>}</span> : <span>The text is another than that of the row.</span>}
      {wrong && <button onClick={why}>Why {said}, not {label.true}?</button>}
    </section>
  );
}
